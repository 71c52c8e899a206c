"""What keeps a lineage from being released: code that no commit holds, contradictions, tainted data, no licence.

Pure rules over the evidence of an audit; each gives sentences, and a workflow refuses with them. A product that at
least one clean execution gave is clean: a second, dirty one that came to the same bytes takes nothing away.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from registry.core.audit.evidence import Evidence, Node
from registry.core.audit.judging import Audit
from registry.core.digests import Digest
from registry.core.materials import unlicensed
from registry.core.records import Execution

MOST_TOLD = 5
_MOST_ATTEMPTS = 10_000


def dirty(evidence: Evidence) -> tuple[str, ...]:
    """A sentence for every product that no clean execution gave. An attempt that it resumed from counts with it."""
    return tuple(
        f"{node.label} ran with changes that no commit holds."
        for node in evidence.nodes.values()
        if node.executions and all(_is_dirty(one, node) for _, one in node.executions)
    )


def contradictions(evidence: Evidence) -> tuple[str, ...]:
    """A sentence for every product whose recipe gave another product too."""
    return tuple(
        f"The recipe of {node.label} gave this product and another, {rival.short}."
        for node in evidence.nodes.values()
        for rival, _ in node.rivals
    )


def taints(evidence: Evidence, product: Digest) -> tuple[str, ...]:
    """A sentence for every taint that reaches a product."""
    return tuple(f"{one.text} (by way of {' → '.join(one.via)})" for one in evidence.happened.taints.get(product, ()))


def without_licence(evidence: Evidence) -> tuple[str, ...]:
    """A sentence for every source without a licence."""
    return unlicensed(list(evidence.nodes.values()))


def unmet(audit: Audit) -> tuple[str, ...]:
    """A sentence for every edge of an audit that does not hold; one if nothing was checked."""
    wrong = tuple(f"{edge.id} is {edge.state}: {edge.reason}" for edge in audit.edges if not edge.holds)
    return wrong or (() if audit.holds else ("Nothing was checked.",))


def told(sentences: Iterable[str]) -> str:
    """The first of some sentences in one line, and how many more there are."""
    listed = list(sentences)
    more = f" And {len(listed) - MOST_TOLD} more." if len(listed) > MOST_TOLD else ""
    return " ".join(listed[:MOST_TOLD]) + more


def _is_dirty(execution: Execution, node: Node) -> bool:
    return any(one.revision.dirty for one in _resumed(execution, node))


def _resumed(execution: Execution, node: Node) -> Iterator[Execution]:
    """An execution and the attempts that it resumed from."""
    one: Execution | None = execution
    for _ in range(_MOST_ATTEMPTS):
        if one is None:
            return
        yield one
        attempt = None if one.resumed is None else one.resumed.get("attempt")
        one = node.attempts.get(attempt) if isinstance(attempt, str) else None
