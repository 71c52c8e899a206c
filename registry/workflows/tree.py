"""The lineage of an artifact as a tree: upwards to what it was made from, or downwards to what was made from it.

Everything in it is claimed by records; nothing is hashed. What is reached twice is drawn once and referred to
afterwards. Refuses lineages that lead back to themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from registry.core.digests import Digest
from registry.core.happened import Happened, Taint
from registry.core.incidents import Event
from registry.core.ledger import Ledger
from registry.core.lineage import Artifact, Lineage, Link, Missing, Role
from registry.core.resolving import Held

DEEPEST = 200


class Mark(StrEnum):
    """How well an edge is known from records alone."""

    CLAIMED = "claimed"
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """One artifact of the tree, with what lies beyond it.

    ``note`` says why a branch ends here: ``above`` (drawn before), ``deeper`` (cut), or the reason of a gap.
    """

    role: Role | None
    name: str
    digest: Digest | None
    steps: str | None
    mark: Mark
    note: str | None
    branches: tuple[Branch, ...]
    incidents: tuple[Event, ...] = ()
    taints: tuple[Taint, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Grower:
    """Grows trees over one ledger."""

    ledger: Ledger
    lineage: Lineage
    happened: Happened = field(default_factory=Happened)

    def upwards(self, held: Held) -> Branch:
        """What the artifact was made from. Raises ``DoesNotHold`` when it descends from itself."""
        self.lineage.upwards(held.product_digest)
        return self._grow(held, lambda product: [(link, _source(link)) for link in self.lineage.links(product)])

    def downwards(self, held: Held) -> Branch:
        """What was made from the artifact's product, each product once below its source."""
        children = self.lineage.downwards()
        return self._grow(
            held, lambda product: [self._child(*pair) for pair in dict(children.get(product, ())).items()]
        )

    def _child(self, product: Digest, link: Link) -> tuple[Link, Artifact | None]:
        record = self.ledger.products.get(product)
        return link, Artifact(output=record.outputs[0], product=product) if record and record.outputs else None

    def _grow(self, held: Held, next_of: Callable[[Digest], Sequence[tuple[Link, Artifact | None]]]) -> Branch:
        drawn: set[Digest] = set()

        def branch(link: Link | None, artifact: Artifact, depth: int) -> Branch:
            beyond = next_of(artifact.product)
            again = artifact.product in drawn and bool(beyond)
            note = "above" if again else "deeper" if depth >= DEEPEST and beyond else None
            drawn.add(artifact.product)
            branches = () if note else tuple(limb(one, source, depth + 1) for one, source in beyond)
            return self._branch(link, artifact, note, branches)

        def limb(link: Link, artifact: Artifact | None, depth: int) -> Branch:
            return _end(link) if artifact is None else branch(link, artifact, depth)

        return branch(None, Artifact(output=held.output, product=held.product_digest), 0)

    def _branch(self, link: Link | None, artifact: Artifact, note: str | None, branches: tuple[Branch, ...]) -> Branch:
        inside = f":{artifact.path}" if artifact.path else ""
        return Branch(
            role=link.role if link else None,
            name=artifact.output.name + inside,
            digest=link.digest if link and artifact.path else artifact.output.digest,
            steps=next(self._steps(artifact), None),
            mark=Mark.CLAIMED,
            note=note,
            branches=branches,
            incidents=self.happened.events_of(artifact.product, artifact.output),
            taints=self.happened.taints_of(artifact.product, artifact.output),
        )

    def _steps(self, artifact: Artifact) -> Iterator[str]:
        """The steps that the product's executions say they ran."""
        for execution in self.ledger.executions.values():
            if execution.product == artifact.product and execution.steps is not None:
                first = (execution.parent or {"step": 0}).get("step")
                yield f"{first}..{execution.steps.get('reached')}"


def _source(link: Link) -> Artifact | None:
    return link.source if isinstance(link.source, Artifact) else None


def _end(link: Link) -> Branch:
    """A link that leads to no artifact: bytes given with the repository, or a gap."""
    source = link.source
    return Branch(
        role=link.role,
        name=link.name,
        digest=link.digest,
        steps=None,
        mark=Mark.MISSING if isinstance(source, Missing) else Mark.CLAIMED,
        note=source.gap.value if isinstance(source, Missing) else "in the repository",
        branches=(),
    )
