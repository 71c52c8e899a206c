"""``reckon status``: one line a stage, and what is wrong with those that are not sound."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from registry.cli import wiring
from registry.cli.options import example, json_option
from registry.cli.render import Cell, Mark, Table, Tone, View, conclude, emit
from registry.cli.words import cause, changed, count, full_option, steps
from registry.core.comparison import Part
from registry.core.ledger import Ledger
from registry.core.names import dvc_stage
from registry.core.records import Execution
from registry.workflows.status import StageState

_COLUMNS = ("stage", "recipe", "product", "tier", "witnesses", "state")
_MOST = 4


@click.command(epilog=example("reckon status", "reckon status --json"))
@full_option
@json_option
def command(full: bool, as_json: bool) -> None:
    """Show for every stage whether it is recorded, by how many witnesses, and what is open.

    Tiers: T0 one execution gave these bytes; T1 they were made again on the same host, bit for bit; T2 on another host.
    Inputs and outputs are not hashed here; 'reckon verify' does that. Ends with status 1 unless all stages are sound.
    """
    root = wiring.root()
    surveyor, lock = wiring.surveyor(root), wiring.broken_lock(root)
    states, ledger, fresh = surveyor.survey(), surveyor.ledger, surveyor.uncommitted()
    sound = bool(states) and all(state.sound for state in states if state.declared) and not ledger.damages
    stages = [_facts(state) for state in states]
    facts = {"sound": sound, "stages": stages, "damages": ledger.damages, "uncommitted": fresh}
    facts["broken_lock"] = lock and lock.relative_to(root).as_posix()
    notes = [*_unsaved(fresh), *_blocked(lock, root), *_advice(states, ledger)]
    emit(facts, *_views(states, ledger, full), *notes, as_json=as_json)
    conclude(holds=sound)


def _facts(state: StageState) -> dict[str, object]:
    return {
        "stage": state.stage,
        "sound": state.sound,
        "declared": state.declared,
        "recipe": state.recipe,
        "product": state.product,
        "standing": state.standing,
        "states": [word.text for word in _words(state)],
        "contradictions": state.contradictions,
        "stale": {part.value: changes for part, changes in state.stale.items()},
        "missing": state.missing,
        "running": state.running,
        "unrecorded": state.unrecorded,
        "trouble": state.trouble,
    }


def _views(states: Sequence[StageState], ledger: Ledger, full: bool) -> Iterator[View]:
    rows = [_row(state, full) for state in states]
    yield Table(columns=_COLUMNS, rows=rows, right=("witnesses",))
    for state in states:
        yield from (f"{state.stage}: {note}" for note in _notes(state, full))
    for damage in ledger.damages:
        yield Mark(f"The {damage.kind} record {damage.name} is damaged: {damage.reason}", Tone.BAD)


def _row(state: StageState, full: bool) -> Sequence[Cell]:
    digests = [one if one is None else str(one) if full else one.short for one in (state.recipe, state.product)]
    tier = state.standing.label if state.standing else ""
    witnesses = str(state.standing.witnesses) if state.standing else "0"
    words = _words(state)
    tone = Tone.GOOD if state.sound else max((word.tone for word in words), key=[Tone.DOUBT, Tone.BAD].index)
    return [
        state.stage,
        digests[0] or "",
        digests[1] or "",
        tier,
        witnesses,
        Mark(", ".join(word.text for word in words), tone),
    ]


def _words(state: StageState) -> list[Mark]:
    """The state in words; a sound stage is just recorded."""
    words = {
        "running": (state.running, Tone.DOUBT),
        "contradicted": (state.contradictions, Tone.BAD),
        "missing": (state.missing, Tone.BAD),
        "stale": (state.stale, Tone.DOUBT),
        "attempts not recorded": (state.unrecorded, Tone.DOUBT),
        f"last attempt {state.last.outcome}" if state.last else "": (state.last, Tone.DOUBT),
        "unclear": (state.trouble, Tone.BAD),
        "no longer declared": (not state.declared, Tone.DOUBT),
    }
    said = [Mark(word, tone) for word, (present, tone) in words.items() if present]
    if state.product is None and not said:
        return [Mark("never run", Tone.DOUBT)]
    return said or [Mark("recorded", Tone.DOUBT)]


def _notes(state: StageState, full: bool) -> Iterator[str]:
    for part, changes in state.stale.items():
        shown = changes if full else changes[:_MOST]
        told = "; ".join(changed(part, one.key, one.recorded, one.found) for one in shown)
        yield f"{part} differ{'s' if part in (Part.LOCK, Part.COMMAND) else ''} from the record: {told}" + (
            f"; {len(changes) - len(shown)} more" if len(shown) < len(changes) else ""
        )
    yield from (f"{path} is recorded and not here" for path in state.missing)
    yield from (f"another product of the same recipe: {product}" for product in state.contradictions)
    yield from (f"the attempt {attempt} ended and has no execution record" for attempt in state.unrecorded)
    yield from (f"the attempt {attempt} is running" for attempt in [state.running] if attempt)
    yield from (_ended(one) for one in [state.last] if one)
    yield from (trouble for trouble in [state.trouble] if trouble)


def _ended(last: Execution) -> str:
    ran = f", steps {steps(last)}" if last.steps else ""
    return f"its last attempt {last.attempt} {last.outcome}{ran}: {cause(last)}"


def _unsaved(fresh: Sequence[str]) -> Iterator[View]:
    if fresh:
        words = f"{count(len(fresh), 'record is', 'records are')} not committed: "
        yield Mark(words + "git add manifests dvc.lock && git commit", Tone.DOUBT)


def _blocked(lock: Path | None, root: Path) -> Iterator[View]:
    if lock is not None:
        yield Mark(f"DVC was killed as it wrote {lock.relative_to(root)} and will not start: delete it.", Tone.BAD)


def _advice(states: Sequence[StageState], ledger: Ledger) -> Iterator[View]:
    open_stages = [state.stage for state in states if state.declared and not state.sound]
    recorded = [state.stage for state in states if state.product]
    if ledger.damages:
        yield "Look next: reckon verify --all"
    elif open_stages:
        yield f"{count(len(open_stages), 'stage is', 'stages are')} open. Next: dvc repro {dvc_stage(open_stages[0])}"
    elif recorded:
        last = recorded[-1]
        yield f"All recorded. Look next: reckon show {last}, reckon tree {last}, reckon verify --all"
