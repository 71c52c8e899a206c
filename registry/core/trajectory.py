"""The run behind a checkpoint: its segments from the first to the last, and all checkpoints that they kept.

Counts come from the files of the segments: steps from the lineage, tokens from the sizes of batches and sequences in
each ``order.json``. Refuses a checkpoint that no product of the lineage holds, and a segment whose data order is not at
hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from registry.core import canonical
from registry.core.audit.evidence import ORDER, Evidence, Node
from registry.core.branches import CheckpointBranch
from registry.core.canonical import Json
from registry.core.digests import Digest
from registry.core.lineage import Artifact, Role
from registry.core.names import Name
from registry.core.orderfacts import OrderFacts
from registry.core.records import Output
from registry.core.resolving import root_of
from registry.errors import DoesNotHold, UnknownName


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One segment: the updates after ``first`` up to ``last``, ``begun`` tokens seen before it."""

    node: Node
    order: OrderFacts
    first: int
    last: int
    begun: int

    @property
    def tokens_per_step(self) -> int:
        return self.order.batch * self.order.sequence_tokens

    def tokens(self, step: int) -> int:
        """Tokens that the run had seen after ``step`` updates."""
        return self.begun + (step - self.first) * self.tokens_per_step


def segments(evidence: Evidence, checkpoint: Name, root: Digest) -> tuple[Segment, ...]:
    """The segments that led to a checkpoint, the first one first; the last ends with it.

    Raises ``DoesNotHold`` when no product of the lineage holds the checkpoint, or one of them has no readable order.
    """
    node, found = _holder(evidence, checkpoint, root), list[Segment]()
    chain = [(node, checkpoint.step or 0), *_parents(evidence, node)]
    begun = first = 0
    for one, last in reversed(chain):
        order = OrderFacts.read(paper(evidence, one, ORDER))
        found.append(Segment(node=one, order=order, first=first, last=last, begun=begun))
        begun, first = found[-1].tokens(last), last
    return tuple(found)


def checkpoints(run: Sequence[Segment], published: Mapping[Digest, str]) -> list[Json]:
    """What ``checkpoints.json`` lists: every kept checkpoint of the run, by step.

    ``published`` gives the commit of a checkpoint on the hub by its tree digest; the others have none yet.
    """
    return [
        {
            "branch": str(CheckpointBranch.of(name, segment.tokens(step))),
            "commit": published.get(output.digest),
            "name": output.name,
            "step": step,
            "tokens": segment.tokens(step),
            "recipe": str(segment.node.product.recipe),
            "root": str(output.contents.get("tensors")),
            "files": str(output.digest),
        }
        for segment in run
        for step, output, name in _kept(segment)
    ]


def paper(evidence: Evidence, node: Node, name: str) -> bytes:
    """A small file of a trained product. Raises ``DoesNotHold`` when the record has none or it cannot be read."""
    output = node.own[0] if node.own else None
    digest = None if output is None else evidence.part(output, name)
    if output is None or digest is None:
        raise DoesNotHold(f"{node.label} has no {name} on record.", remedy=f"See 'reckon show {node.product.stage}'.")
    try:
        return evidence.paper(f"{output.path}/{name}", digest)
    except UnknownName as error:
        raise DoesNotHold(
            f"{name} of {node.label} is not at hand: {error.message}", remedy="Run 'dvc pull'."
        ) from error


def facts(evidence: Evidence, node: Node, name: str) -> Mapping[str, Json]:
    """A small JSON file of a trained product. Raises as :func:`paper`."""
    value = canonical.decode(paper(evidence, node, name).removesuffix(b"\n"))
    if not isinstance(value, Mapping):
        raise DoesNotHold(f"{name} of {node.label} is no object.")
    return value


def _kept(segment: Segment) -> Iterator[tuple[int, Output, Name]]:
    for step, output in segment.node.kept:
        if step <= segment.last:
            yield step, output, Name.parse(output.name)


def _holder(evidence: Evidence, checkpoint: Name, root: Digest) -> Node:
    for node in evidence.nodes.values():
        output = node.product.output(str(checkpoint))
        if output is not None and root_of(output) == root:
            return node
    raise DoesNotHold(
        f"No product of the lineage holds {checkpoint} with the tensor root {root}.",
        remedy="The export speaks of another checkpoint than the one it was given. Run 'dvc repro export'.",
    )


def _parents(evidence: Evidence, node: Node) -> Iterator[tuple[Node, int]]:
    """The chain of parents, nearest first, each with the step that its child began from."""
    seen = {node.digest}
    while True:
        links = (link for link in node.links if link.role is Role.PARENT and isinstance(link.source, Artifact))
        link = next(links, None)
        if link is None or not isinstance(link.source, Artifact) or link.source.product in seen:
            return
        node = evidence.nodes[link.source.product]
        seen.add(node.digest)
        yield node, Name.parse(link.name).step or 0
