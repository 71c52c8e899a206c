"""Views of re-derivations and comparisons: what will run, how far it came, where two results part."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from registry.cli.render import Cell, Fields, Mark, Table, Tone, View, talk
from registry.cli.words import count, cut
from registry.core.distances import largest
from registry.core.parting import Parting, spelled
from registry.core.rederivation import Verdict
from registry.core.setups import Grade, SetupChange

if TYPE_CHECKING:
    from registry.workflows.rederive import Plan, Rederived

_TALK_SECONDS: Final = 5.0
_TONES: Final = {Grade.NUMERIC: Tone.BAD, Grade.UNKNOWN: Tone.DOUBT, Grade.HARMLESS: Tone.FAINT, Grade.NONE: Tone.GOOD}


class Meter:
    """Says on stderr how far a replay came, and how fast."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._began = self._spoken = time.monotonic()
        self._first: tuple[int, float] | None = None

    def __call__(self, step: int) -> None:
        now = time.monotonic()
        self._first = self._first or (step, now)
        if now - self._spoken < _TALK_SECONDS or self._plan.steps is None or step == self._first[0]:
            return
        self._spoken = now
        rate = (step - self._first[0]) / (now - self._first[1]) if now > self._first[1] else 0.0
        talk(f"{self._plan.target.output.name}: step {step} of {self._plan.steps.stop}, {rate:.1f} steps/s")


def plan_facts(plan: Plan) -> Mapping[str, object]:
    """What will run, for JSON."""
    steps = plan.steps
    return {
        "name": plan.target.output.name,
        "execution": plan.target.execution_digest,
        "recipe": plan.target.product.recipe,
        "commit": plan.commit,
        "subject": plan.subject,
        "command": plan.target.recipe.command,
        "steps": None if steps is None else [steps.start, steps.stop],
        "trusted": plan.trusted,
        "changes": {**plan.request.changes, **plan.request.variables},
        "setup": plan.setup,
        "today": plan.today if isinstance(plan.today, str) else {part.value: told for part, told in plan.today.items()},
    }


def plan_views(plan: Plan) -> Iterator[View]:
    """What will run, for people."""
    steps = plan.steps
    values: dict[str, Cell] = {
        "commit": plan.commit,
        "which is": plan.subject,
        "command": Mark(plan.command, Tone.DOUBT),
        "recipe": str(plan.target.product.recipe),
        "inputs": count(len(plan.target.recipe.inputs), "input") + ", by digest",
    }
    if steps is not None:
        begun = plan.target.parent or "scratch"
        if plan.span.begin is not None:
            begun = f"{plan.target.stage}@step-{plan.span.begin}"
        values["steps"] = f"{steps.start} to {steps.stop}, from {begun}"
    for key, value in {**plan.request.changes, **plan.request.variables}.items():
        values[f"changed: {key}"] = Mark(value, Tone.DOUBT)
    values["today's checkout"] = _today(plan)
    yield Fields(title=f"To make {plan.target.output.name} again", values=values)
    yield from setup_views(plan.setup)


def setup_views(setup: Sequence[SetupChange], full: bool = False) -> Iterator[View]:
    """Differences of two setups by what they can do."""
    if not setup:
        yield Mark("The setup is the recorded one.", Tone.GOOD)
        return
    listed = [one for one in setup if full or one.can_change_bits]
    rows: list[Sequence[Cell]] = [
        (one.fact, one.recorded or "", one.found or "", Mark(one.grade, _TONES[one.grade])) for one in listed
    ]
    if rows:
        yield Table(title="setup differs", columns=("fact", "recorded", "here", "grade"), rows=rows)
    else:
        yield Mark("The setup is the recorded one in all that can change bits.", Tone.GOOD)
    if len(listed) < len(setup):
        yield Mark(f"{count(len(setup) - len(listed), 'harmless difference')} more.", Tone.FAINT)


def facts(done: Rederived) -> Mapping[str, object]:
    """What came of it, for JSON."""
    judged = done.judgement
    return {
        "name": done.plan.target.output.name,
        "holds": judged.holds,
        "verdict": judged.mark.verdict,
        "tier": judged.mark.tier,
        "record": done.digest,
        "mark": judged.mark.to_json(),
        "tensors": judged.tensors,
        "files": [one.key for one in judged.files],
        "setup": judged.parting.setup,
        "plan": plan_facts(done.plan),
    }


def views(done: Rederived) -> Iterator[View]:
    """What came of it, for people."""
    judged, name = done.judgement, done.plan.target.output.name
    yield from parting_views(judged.parting)
    wrong = [one for one, same in judged.tensors.items() if not same]
    if judged.tensors:
        told = f"{len(judged.tensors) - len(wrong)} of {count(len(judged.tensors), 'tensor set')} as recorded"
        yield Mark(told + (f"; first other: {wrong[0]}" if wrong else ""), Tone.BAD if wrong else Tone.GOOD)
    rows: list[Sequence[Cell]] = [(one.key,) for one in judged.files]
    if rows:
        yield Table(columns=("other bytes",), rows=cut(rows, full=False))
    yield _conclusion(done)
    yield f"Recorded: manifests/executions/{done.digest.hex}.json ({name})"


def parting_views(parting: Parting) -> Iterator[View]:
    """Where two results part: exact answers first, distances second."""
    lines, loss, far = parting.lines, largest(parting.steps), parting.furthest
    if lines is not None and lines.difference is None:
        yield Mark(
            f"The transcripts agree on {count(lines.compared, 'step')}.", Tone.GOOD if lines.compared else Tone.DOUBT
        )
    elif lines is not None and lines.difference is not None:
        fields = ", ".join(lines.difference.fields)
        yield Mark(f"First differing step: {lines.difference.step} ({fields}).", Tone.BAD)
    if parting.tensors is not None:
        if parting.tensors:
            told = f"First differing tensor: {parting.first_tensor}; {count(len(parting.tensors), 'tensor')} differ."
            yield Mark(told, Tone.BAD)
        else:
            yield Mark(f"The tensors are the same: {parting.found.root}.", Tone.GOOD)
    yield from (Mark(f"{one.key} has other bytes.", Tone.BAD) for one in parting.contents)
    if far is not None:
        where = f"{spelled(far.largest)} at most, in {far.differing} of {far.elements} elements"
        yield f"Furthest tensor: {far.name}, {spelled(far.relative)} of its norm ({where})."
    if loss is not None:
        yield f"Largest distance of losses: {spelled(loss.distance)} nats, at {loss.name}."
    yield from (f"{one.name} is {spelled(one.distance)} nats apart." for one in parting.heldout)


def _conclusion(done: Rederived) -> Mark:
    mark, name = done.judgement.mark, done.plan.target.output.name
    steps = "" if mark.steps is None else f", {count(len(mark.steps), 'step')} of {len(done.plan.target.steps or ())}"
    if mark.steps is not None and not mark.whole:
        steps = f", steps {mark.steps.start} to {mark.steps.stop} of {(done.plan.target.steps or mark.steps).stop}"
    if mark.agrees and mark.changes:
        told = f"{mark.tier}: {name} was made again with the same bits under other settings{steps}."
        return Mark(told, Tone.GOOD)
    if mark.agrees:
        return Mark(f"{mark.tier}: {name} was made again, bit for bit{steps}.", Tone.GOOD)
    facts = ", ".join(dict.fromkeys([*mark.changes, *mark.setup]))
    where = (
        f"Setup mismatch ({facts})"
        if mark.verdict is Verdict.MISMATCH
        else "Contradiction: the same setup gave other bits"
    )
    if mark.noise is not None and mark.tier == "T4":
        told = f"T4: {name} was made again, its held-out loss within {mark.noise} nats{steps}. {where}."
        return Mark(told, Tone.DOUBT)
    if mark.tier is not None:
        return Mark(
            f"{mark.tier}: {name} was made again within {mark.tolerance or mark.noise}{steps}. {where}.", Tone.DOUBT
        )
    return Mark(f"{name} was not made again{steps}. {where}.", Tone.BAD)


def _today(plan: Plan) -> Cell:
    """What today's code would be asked, which is not what will run."""
    if isinstance(plan.today, str):
        return Mark(f"cannot make it: {plan.today}", Tone.DOUBT)
    if not plan.today:
        return "asks for the same recipe"
    told = "; ".join(f"{part}: {', '.join(one.key for one in changes[:3])}" for part, changes in plan.today.items())
    return Mark(f"gives another recipe ({told}); the recorded code runs, not today's", Tone.DOUBT)
