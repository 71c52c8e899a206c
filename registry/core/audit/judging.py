"""The judgement: all edges of a lineage, the worst of them, and how much of it was looked at.

It holds if something was checked and nothing is missing or contradicted. What nobody can check here (claimed, withheld)
is told and counted, and bounds the verdict. Refuses to hold when nothing was checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from registry.core.audit import (
    attestations,
    code,
    custody,
    forecasts,
    inputs,
    papers,
    programs,
    records,
    segments,
    setup,
)
from registry.core.audit.edges import Edge, Kind, State, worst
from registry.core.audit.evidence import Evidence, Node
from registry.core.digests import Digest
from registry.core.findings import Finding
from registry.core.standing import Standing, Tier

Rule = Callable[[Node, Evidence], Iterator[Edge]]

_RULES: tuple[Rule, ...] = (
    custody.edges,
    records.edges,
    attestations.edges,
    segments.edges,
    papers.edges,
    forecasts.hypothesis,
    inputs.edges,
    code.edges,
    programs.edges,
    setup.edges,
)
_ORDER = {kind: rank for rank, kind in enumerate(Kind)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What was looked at: files and bytes hashed, tensors, records and tables read."""

    files: int = 0
    size_bytes: int = 0
    tensors: int = 0
    records: int = 0
    tables: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduced:
    """How far one product was made again, and on which hosts."""

    holder: str
    standing: Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Something that a reader of the verdict must know and that is no contradiction: code in no commit, incidents."""

    holder: str
    what: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """Somebody's word, by signature, that they derived a product again: who, how far, on what, and what it is worth.

    ``who`` is as the trust policy calls them, else by their own word. ``counts`` is false where the signature is not
    good or the policy refuses the key; ``trust`` says which.
    """

    holder: str
    who: str
    outcome: str
    tier: str
    setup: str
    key: str
    trust: str
    counts: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """The outcome. ``consulted`` says of each witness system what came of asking it.

    ``product`` is None where nothing could be read that names one.
    """

    name: str
    product: Digest | None
    depth: str
    edges: tuple[Edge, ...]
    looked: Looked
    reproduced: tuple[Reproduced, ...]
    consulted: Mapping[str, str]
    marks: tuple[Mark, ...]
    attested: tuple[Witness, ...] = ()

    @property
    def verdict(self) -> State | None:
        """The state of the worst edge."""
        return worst(edge.state for edge in self.edges)

    @property
    def checked(self) -> int:
        """The number of edges for which evidence was looked at."""
        return sum(edge.checked for edge in self.edges)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Everything that is wrong, in the order of the edges."""
        return tuple(finding for edge in self.edges for finding in edge.findings)

    @property
    def holds(self) -> bool:
        """Whether the artifact is what its record says, as far as anybody could look; a look at nothing is no proof."""
        return self.checked > 0 and all(edge.holds for edge in self.edges)

    @property
    def tier(self) -> Tier:
        """The lowest reproduction tier of the lineage: what holds for all of it."""
        return min((one.standing.tier for one in self.reproduced), default=Tier.CUSTODY)

    @property
    def steps(self) -> tuple[int, int]:
        """Steps made at least twice, and all steps, over the trained products of the lineage."""
        told = [one.standing for one in self.reproduced if one.standing.total_steps is not None]
        return sum(one.replayed_steps or 0 for one in told), sum(one.total_steps or 0 for one in told)


def edges_of(evidence: Evidence) -> tuple[Edge, ...]:
    """All edges in the order of the walk: by product, then by kind."""
    place = {node.label: rank for rank, node in enumerate(evidence.nodes.values(), start=1)}
    found = [edge for node in evidence.nodes.values() for rule in _RULES for edge in rule(node, evidence)]
    ordered = sorted([*found, *forecasts.edges(evidence)], key=lambda edge: _rank(edge, place))
    return (records.whole(evidence), *ordered)


def reproduced(evidence: Evidence) -> tuple[Reproduced, ...]:
    """How far each product of the lineage was made again."""
    return tuple(Reproduced(holder=node.label, standing=records.witnessed(node)) for node in evidence.nodes.values())


def attested(evidence: Evidence) -> Iterator[Witness]:
    """What others say by signature of the products of the lineage."""
    for node in evidence.nodes.values():
        for one in evidence.attested.get(node.product.recipe, ()):
            said = one.rederivation
            yield Witness(
                holder=node.label,
                who=one.by,
                outcome=said.outcome.value,
                tier=said.coverage,
                setup=said.machine,
                key=one.key_id,
                trust=one.damage or (one.judgement.text if one.judgement is not None else "nobody judged its key"),
                counts=one.counts,
            )


def marks(evidence: Evidence) -> Iterator[Mark]:
    """Executions that ran code which no commit holds, incidents, and taints that reach the lineage."""
    for node in evidence.nodes.values():
        for digest, execution in node.executions:
            if execution.revision.dirty:
                text = f"the execution {digest.short} ran with changes of {execution.revision.commit[:12]}"
                yield Mark(holder=node.label, what="dirty", text=text)
        for event in evidence.happened.events.get(node.digest, ()):
            yield Mark(holder=node.label, what=event.label, text=event.text)
        for taint in evidence.happened.taints.get(node.digest, ()):
            yield Mark(holder=node.label, what="tainted", text=f"{taint.text} (by way of {' → '.join(taint.via)})")
        for text in programs.remarks(node, evidence):
            yield Mark(holder=node.label, what="program", text=text)


def _rank(edge: Edge, place: Mapping[str, int]) -> tuple[int, int]:
    return place.get(edge.holder.partition("@")[0], 0), _ORDER[edge.kind]
