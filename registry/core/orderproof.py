"""Proving that a segment was fed in the order that its facts tell, and naming what was altered when it was not.

A step's order digest is chained from the one before over the ids and the tokens of its batch, so a range of steps is
proved by making the batches again. Where that fails, orders that differ in one fact are tried, and the one that agrees
names it. Pure: tokens are read by what it is given. Whatever disagrees is a finding; refuses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from registry.core import canonical, transcript
from registry.core.canonical import Json
from registry.core.findings import Finding, Trouble
from registry.core.order import Order, id_bytes
from registry.core.orderfacts import OrderFacts
from registry.core.records import Recipe
from registry.core.suspects import Suspect, named_facts, suspects
from registry.core.transcript import Transcript
from registry.errors import ReckonError

ReadTokens: TypeAlias = Callable[[str, Sequence[range]], Sequence[bytes]]
"""Tokens of ranges of a component's stream, as little-endian int32 each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Steps of a segment that were made again: the recorded digest before the first, and after the last that agreed."""

    stage: str
    steps: range
    before: str
    after: str
    agreed: int
    findings: tuple[Finding, ...]

    @property
    def holds(self) -> bool:
        """Every step was made again with the recorded digest, at least one, and no fact disagrees."""
        return self.agreed == len(self.steps) > 0 and not self.findings


@dataclass(frozen=True, kw_only=True)
class OrderWitness:
    """A segment's order and transcript, with everything that they can be held against.

    ``steps`` are the segment's updates, ``inherited`` the parent's last order digest (None where there is no parent),
    ``streams`` the tokens of each component's stream by name.
    """

    stage: str
    steps: range
    order: Order
    lines: Transcript
    recipe: Recipe | None
    inherited: str | None
    streams: Mapping[str, int]
    read: ReadTokens

    def disagreements(self) -> Iterator[Finding]:
        """Facts that are not the recipe's, do not follow from one another, or do not fit the recorded tokens."""
        facts = self.order.facts
        found = named_facts(facts)
        for name, wanted in asked(self.recipe).items():
            if found[name] != wanted:
                yield self._fact(name, wanted, found[name], f"its recipe asks for {_said(wanted)}")
        for one in facts.components:
            whole = self.streams.get(one.name, 0) // facts.sequence_tokens
            if one.sequences != whole:
                why = f"its recorded tokens make {whole}"
                yield self._fact(f"number of sequences of {one.name}", whole, one.sequences, why)
        for phase, counts in zip(facts.phases, self.order.counts, strict=True):
            if phase.told != counts:
                why = f"its weights make {_said(list(counts))}"
                yield self._fact(f"counts after step {phase.first_step}", list(counts), list(phase.told), why)
        yield from self._begun()

    def prove(self, steps: range) -> Proof:
        """Make the batches of ``steps`` again and hold their digests against the transcript.

        Stops at the first step that disagrees, and says which fact would explain it, if one is found.
        """
        findings = list(self.disagreements())
        begun = before = self._before(steps.start)
        agreed = 0
        for step in steps:
            line = self.lines.at(step)
            try:
                agrees = line is not None and chained(self.order, step, before, self.read) == line.order
            except ReckonError as error:
                findings.append(self._step(step, Trouble.UNREADABLE, error.message))
                break
            if line is None or not agrees:
                findings.append(self._explained(step))
                break
            before, agreed = line.order, agreed + 1
        return Proof(stage=self.stage, steps=steps, before=begun, after=before, agreed=agreed, findings=tuple(findings))

    def _begun(self) -> Iterator[Finding]:
        """The chain must begin from the digest of the facts, or go on where the parent's ended."""
        chain, after = self.order.facts.chain, self.steps.start - 1
        if chain is None:
            return
        if chain.after_step != after:
            yield self._fact("beginning", after, chain.after_step, f"the segment begins after step {after}")
        wanted = self.order.facts.genesis if after == 0 else self.inherited
        if wanted is not None and chain.previous != wanted:
            whose = "its facts" if after == 0 else "its parent's last step"
            yield self._fact("beginning", wanted, chain.previous, f"the digest of {whose} is {wanted}")
        if after == 0 and chain.previous != wanted:
            others = suspects(self.order.facts, self.streams)
            instead = next((one for one in others if one.order.facts.genesis == chain.previous), None)
            if instead is not None:
                own = named_facts(self.order.facts)[instead.name]
                why = f"it began with the {instead.name} {_said(instead.value)}"
                yield self._fact(instead.name, instead.value, own, why)

    def _before(self, step: int) -> str:
        """The recorded digest before a step; where the segment begins, that of its parent, or of the facts."""
        line = self.lines.at(step - 1)
        if line is not None:
            return line.order
        return self.order.facts.genesis if self.inherited is None else self.inherited

    def _explained(self, step: int) -> Finding:
        """Why a step does not agree: an order that differs in one fact, one altered line, or something else."""
        line, following = self.lines.at(step), self.lines.at(step + 1)
        if line is None:
            return self._step(step, Trouble.TRANSCRIPT, f"The transcript of {self.stage} does not tell step {step}.")
        what = f"Step {step} of {self.stage} was not fed what its order tells"
        instead = next((one for one in suspects(self.order.facts, self.streams) if self._fits(one, step)), None)
        if instead is not None:
            own = named_facts(self.order.facts)[instead.name]
            why = f"{what}: the transcript agrees with the {instead.name} {_said(instead.value)}, not {_said(own)}."
            return self._fact(instead.name, own, instead.value, why)
        if following is not None and self._quiet(self.order, step + 1, line.order) == following.order:
            text = f"{what}, but the next step goes on from its digest: this batch alone is another."
            return self._step(step, Trouble.TRANSCRIPT, text)
        text = f"{what}, and no other single fact explains it: its tokens, its line or more than one fact are others."
        return self._step(step, Trouble.ORDER, text)

    def _fits(self, suspect: Suspect, step: int) -> bool:
        line = self.lines.at(step)
        begins = step == 1 and self.inherited is None
        before = suspect.order.facts.genesis if begins else self._before(step)
        return line is not None and self._quiet(suspect.order, step, before) == line.order

    def _quiet(self, order: Order, step: int, before: str) -> str | None:
        try:
            return chained(order, step, before, self.read)
        except ReckonError:
            return None

    def _fact(self, name: str, recorded: Json, found: Json, why: str) -> Finding:
        text = why if why.endswith(".") else f"The order of {self.stage} has the {name} {_said(found)}; {why}."
        recorded_text, found_text = _said(recorded), _said(found)
        return Finding(
            subject=self.stage,
            trouble=Trouble.ORDER,
            text=text,
            part=name,
            recorded=recorded_text,
            found=found_text,
        )

    def _step(self, step: int, trouble: Trouble, text: str) -> Finding:
        return Finding(subject=self.stage, trouble=trouble, text=text, part=f"step {step}")


def chained(order: Order, step: int, before: str, read: ReadTokens) -> str:
    """The order digest after ``step``, chained from the one before. Raises what ``read`` raises."""
    ids, length = order.ids(step), order.facts.sequence_tokens
    tokens: dict[tuple[int, int], bytes] = {}
    for number, name in enumerate(order.facts.names):
        mine = sorted({sequence for component, sequence in ids if component == number})
        spans = [range(sequence * length, (sequence + 1) * length) for sequence in mine]
        found = read(name, spans) if spans else ()
        tokens.update(zip(((number, sequence) for sequence in mine), found, strict=True))
    return transcript.chain(before, id_bytes(ids), b"".join(tokens[one] for one in ids))


def asked(recipe: Recipe | None) -> dict[str, Json]:
    """What a recipe asks of the order, by the name of the fact. What it does not say is left out."""
    config = recipe.config if recipe is not None else {}
    order = _section(config, "order")
    shuffle = order.get("shuffle")
    shapes = [one for key, one in config.items() if key.partition(".")[0] in ("rungs", "hero")]
    wanted: dict[str, Json] = {
        "seed": order.get("seed"),
        "component order": order.get("components"),
        "weights": _weights(order),
        "block size": order.get("block_sequences"),
        "batch size": next((one.get("batch_sequences") for one in shapes if isinstance(one, Mapping)), None),
        "sequence length": _section(config, "family").get("context_tokens"),
        "shuffle block": shuffle.get("io_block_sequences") if isinstance(shuffle, Mapping) else None,
        "shuffle window": shuffle.get("window_blocks") if isinstance(shuffle, Mapping) else None,
    }
    return {name: value for name, value in wanted.items() if value is not None}


def difference(recorded: OrderFacts, found: OrderFacts) -> Iterator[tuple[str, str, str]]:
    """The facts in which two orders differ: name, recorded and found."""
    theirs = named_facts(found)
    for name, value in named_facts(recorded).items():
        if theirs[name] != value:
            yield name, _said(value), _said(theirs[name])


def _said(value: Json) -> str:
    return value if isinstance(value, str) else canonical.encode(value).decode()


def _section(config: Mapping[str, Json], name: str) -> dict[str, Json]:
    """A section of the settings, with what the segment changes in it."""
    section = config.get(name)
    merged = dict(section) if isinstance(section, Mapping) else {}
    for value in config.values():
        changes = value.get("changes") if isinstance(value, Mapping) else None
        changed = changes.get(name) if isinstance(changes, Mapping) else None
        merged.update(changed if isinstance(changed, Mapping) else {})
    return merged


def _weights(order: Mapping[str, Json]) -> Json:
    names, phases = order.get("components"), order.get("phases")
    if not isinstance(names, list) or not isinstance(phases, list):
        return None
    return [[phase.get(str(name)) for name in names] for phase in phases if isinstance(phase, Mapping)]
