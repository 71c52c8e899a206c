"""The order of a run's data: integer counts beside the weights, what each segment drew, and the proof of a step range.

Counts follow from recorded facts alone. A proof makes batches again from the token caches of the working tree and holds
them against the transcript. Refuses runs and steps that are not on record; what disagrees is a finding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from registry.core.course import ORDER, TRANSCRIPT, Leg, Navigator
from registry.core.digests import sha256
from registry.core.documents import Split
from registry.core.findings import Finding, Trouble
from registry.core.order import Order
from registry.core.orderfacts import OrderFacts
from registry.core.orderproof import OrderWitness, Proof, difference
from registry.core.transcript import Transcript, parse
from registry.errors import DoesNotHold, ReckonError, Refused
from registry.ports import Bytes, TokenStreams


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A component in a phase of a segment: weight, sequences in a block, sequences drawn there, and those it has."""

    component: str
    weight: int
    per_block: int
    drawn: int
    sequences: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseShares:
    """One phase of a segment: the steps that it covers there, and every component."""

    first_step: int
    last_step: int
    shares: tuple[Share, ...]

    @property
    def silent(self) -> tuple[str, ...]:
        """Components that have a weight and get nothing: the block is too small for them."""
        return tuple(one.component for one in self.shares if one.weight and not one.per_block)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentOrder:
    """The order of one segment."""

    stage: str
    first_step: int
    last_step: int
    seed: int
    batch_sequences: int
    block_sequences: int
    sequence_tokens: int
    genesis: str
    phases: tuple[PhaseShares, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proven:
    """The proofs of a range of steps, one a segment."""

    run: str
    proofs: tuple[Proof, ...]

    @property
    def holds(self) -> bool:
        """Every step of every segment was made again with the recorded digest."""
        return bool(self.proofs) and all(proof.holds for proof in self.proofs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Orderly:
    """Tells and proves the orders of one archive. ``disk`` and ``streams`` are those of the working tree."""

    navigator: Navigator
    disk: Bytes
    streams: TokenStreams

    def tell(self, run: str) -> tuple[SegmentOrder, ...]:
        """The orders of a run's segments. Raises ``UnknownName``, ``Refused`` and ``DoesNotHold``."""
        return tuple(_segment(leg) for leg in self.navigator.course(run).legs)

    def prove(self, run: str, steps: range) -> Proven:
        """Prove the steps of a run. Raises ``Refused`` for steps that it did not make."""
        course = self.navigator.course(run)
        if not steps:
            raise Refused("There is no step to prove.", remedy="Write them like 1:50, the first and the last one.")
        for step in (steps.start, steps.stop - 1):
            course.leg(step)
        return Proven(run=run, proofs=tuple(self._proof(leg, steps) for leg in course.legs if _shared(leg, steps)))

    def _proof(self, leg: Leg, steps: range) -> Proof:
        findings: list[Finding] = []
        mine = _shared(leg, steps)
        try:
            order, lines = self._order(leg, findings), self._lines(leg, findings)
            witness = self._witness(leg, order, lines)
            proof = witness.prove(mine)
            findings += proof.findings
            if not proof.holds:
                findings += self._altered(leg)
        except (DoesNotHold, Refused) as error:
            findings.append(_finding(leg, Trouble.UNREADABLE, error.message))
            return Proof(stage=leg.stage, steps=mine, before="", after="", agreed=0, findings=tuple(findings))
        return Proof(
            stage=leg.stage,
            steps=mine,
            before=proof.before,
            after=proof.after,
            agreed=proof.agreed,
            findings=tuple(findings),
        )

    def _witness(self, leg: Leg, order: Order, lines: Transcript) -> OrderWitness:
        streams = {name: leg.documents(name).stream_tokens for name in order.facts.names}
        paths = {name: leg.source(name).output.path for name in order.facts.names}
        return OrderWitness(
            stage=leg.stage,
            steps=leg.steps,
            order=order,
            lines=lines,
            recipe=leg.recipe,
            inherited=leg.inherited,
            streams=streams,
            read=lambda name, spans: self.streams.read(paths[name], Split.TRAIN, spans),
        )

    def _order(self, leg: Leg, findings: list[Finding]) -> Order:
        """The order as the working tree has it, else as a copy with the recorded bytes has it."""
        found = self._found(leg, ORDER, findings)
        if found is None:
            return leg.order
        order = leg.ordered(found)
        try:
            recorded: OrderFacts | None = leg.order.facts
        except ReckonError:
            recorded = None
        if recorded is not None:
            findings += [_changed(leg, one) for one in difference(recorded, order.facts)]
        return order

    def _lines(self, leg: Leg, findings: list[Finding]) -> Transcript:
        found = self._found(leg, TRANSCRIPT, findings)
        return parse(leg.paper(TRANSCRIPT) if found is None else found)

    def _found(self, leg: Leg, path: str, findings: list[Finding]) -> bytes | None:
        """What stands in the working tree in the place of a file, when it is not the recorded one."""
        entry, place = self.navigator.entry(leg.own, path), f"{leg.own.path}/{path}"
        found = self.disk.read(place) if self.disk.exists(place) else None
        if found is None or sha256(found) == entry.digest:
            return None
        text = f"{path} of {leg.stage} has other bytes in the working tree than recorded."
        findings.append(_finding(leg, Trouble.ALTERED, text, place))
        return found

    def _altered(self, leg: Leg) -> Iterator[Finding]:
        """Files of the token caches that have other bytes in the working tree than recorded."""
        for name in leg.order.facts.names:
            output = leg.source(name).output
            recorded = {entry.path: entry.digest for entry in self.navigator.files(output.digest)}
            found = {entry.path: entry.digest for entry in self.disk.files(output.path)}
            for path in sorted(recorded.keys() | found.keys()):
                if recorded.get(path) != found.get(path):
                    text = f"{path} of the tokens of {name} is not the recorded one in the working tree."
                    yield _finding(leg, Trouble.ALTERED, text, f"{output.path}/{path}")


def _shared(leg: Leg, steps: range) -> range:
    return range(max(leg.steps.start, steps.start), min(leg.steps.stop, steps.stop))


def _segment(leg: Leg) -> SegmentOrder:
    facts = leg.order.facts
    return SegmentOrder(
        stage=leg.stage,
        first_step=leg.steps.start,
        last_step=leg.steps.stop - 1,
        seed=facts.seed,
        batch_sequences=facts.batch,
        block_sequences=facts.block,
        sequence_tokens=facts.sequence_tokens,
        genesis=facts.genesis,
        phases=tuple(_phases(leg)),
    )


def _phases(leg: Leg) -> Iterator[PhaseShares]:
    """The phases that reach into the segment."""
    facts, order = leg.order.facts, leg.order
    starts = [phase.first_step + 1 for phase in facts.phases]
    for number, (start, stop) in enumerate(zip(starts, [*starts[1:], facts.steps + 1], strict=True)):
        steps = range(max(start, leg.steps.start), min(stop, leg.steps.stop))
        if steps:
            columns: Sequence[tuple[int, ...]] = (facts.phases[number].weights, order.counts[number], order.fed(steps))
            rows = zip(facts.components, *columns, strict=True)
            shares = (
                Share(component=one.name, weight=weight, per_block=count, drawn=drawn, sequences=one.sequences)
                for one, weight, count, drawn in rows
            )
            yield PhaseShares(first_step=steps.start, last_step=steps.stop - 1, shares=tuple(shares))


def _changed(leg: Leg, one: tuple[str, str, str]) -> Finding:
    name, recorded, found = one
    return Finding(
        subject=leg.stage,
        trouble=Trouble.ORDER,
        text=f"The {name} of {leg.stage} is {found} in the working tree; {recorded} is recorded.",
        path=f"{leg.own.path}/{ORDER}",
        part=name,
        recorded=recorded,
        found=found,
    )


def _finding(leg: Leg, trouble: Trouble, text: str, path: str = "") -> Finding:
    return Finding(subject=leg.stage, trouble=trouble, text=text, path=path)
