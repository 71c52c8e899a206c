"""``reckon sync``: tell the tracker what it was not told yet, and hold the trackers' curves against our own."""

from __future__ import annotations

from collections.abc import Iterator

import click

from registry.cli import wiring
from registry.cli.options import NameType, example, json_option
from registry.cli.render import Cell, Mark, Table, Tone, View, conclude, emit, talk
from registry.cli.words import count
from registry.core.names import Name
from registry.core.pointers import PointerState
from registry.errors import OutsideFailed
from registry.workflows.curves import Curve, Curves
from registry.workflows.sync import Sync, Synced


@click.command(epilog=example("reckon sync", "reckon sync rung/d48 --recheck", "reckon sync --check --json"))
@click.argument("name", type=NameType(wiring.names), required=False)
@click.option("--recheck", is_flag=True, help="Ask the tracker about every execution, also those that it was told of.")
@click.option("--check", is_flag=True, help="Tell nothing; compare the trackers' histories with ours, point by point.")
@json_option
def command(name: Name | None, recheck: bool, check: bool, as_json: bool) -> None:
    """Tell MLflow of the executions (of NAME, or all) that it does not hold yet, and keep pointers to its runs.

    Nothing is told twice. What failed is tried again by the next call; the records are complete without it. Ends with
    status 3 when the tracker does not hold everything, and --check with 1 when a curve is not ours in every bit.
    """
    archive = wiring.root()
    ledger = wiring.ledger(archive)
    pointers = wiring.pointers(archive)
    for damage in pointers.damages:
        talk(f"A pointer record cannot be read and is passed over: {damage}")
    executions = [digest for digest, one in ledger.executions.items() if name is None or one.stage == name.stage]
    if check:
        curves = wiring.curve_checker(archive).check(ledger, pointers, executions)
        emit(_facts(curves), *_curves(curves), as_json=as_json)
        conclude(holds=curves.holds)
        return
    done = wiring.syncer(archive).sync(ledger, pointers, executions, recheck=recheck)
    emit({"synced": done.synced, "waiting": done.waiting, "done": done.done}, *_views(done), as_json=as_json)
    if not done.done:
        click.get_current_context().exit(OutsideFailed.exit_code)


def _views(done: Sync) -> Iterator[View]:
    if done.synced:
        columns = ("stage", "attempt", "execution", "tracker", "run", "points", "models")
        yield Table(columns=columns, rows=[_row(one) for one in done.synced], right=("points", "models"))
    for one in done.failed:
        yield Mark(f"{one.stage}, attempt {one.attempt}: {one.pointer.reason}", Tone.BAD)
    if done.waiting:
        yield Mark(f"{count(done.waiting, 'execution')} more not tried. Run 'reckon sync' again later.", Tone.DOUBT)
    if not done.synced:
        yield "Nothing to tell: the tracker holds every execution that it was told of."


def _row(one: Synced) -> list[Cell]:
    pointer = one.pointer
    held = pointer.state is PointerState.OK
    run: Cell = pointer.run_id or "" if held else Mark("failed", Tone.BAD)
    figures = (str(pointer.points), str(len(pointer.models))) if held else ("", "")
    return [one.stage, one.attempt, one.execution.short, pointer.system, run, *figures]


def _facts(curves: Curves) -> dict[str, object]:
    compared = [
        {
            "execution": one.execution,
            "stage": one.stage,
            "system": one.system,
            "where": one.where,
            "points": one.points,
            "holds": one.holds,
            "damage": one.damage,
            "findings": [{"kind": type(found).__name__.lower(), "finding": found} for found in one.findings],
        }
        for one in curves.compared
    ]
    return {"holds": curves.holds, "compared": compared, "unread": curves.unread}


def _curves(curves: Curves) -> Iterator[View]:
    columns = ("stage", "execution", "history", "points", "findings")
    rows = [
        [one.stage, one.execution.short, one.system, str(one.points), str(len(one.findings) + len(one.damage))]
        for one in curves.compared
    ]
    if rows:
        yield Table(columns=columns, rows=rows, right=("points", "findings"))
    for one in curves.compared:
        for text in _sentences(one):
            yield Mark(f"{one.stage}, {one.system}: {text}", Tone.BAD)
    for missing in curves.unread:
        yield Mark(f"{missing.stage}, {missing.system}: not compared: {missing.reason}", Tone.DOUBT)
    if curves.holds:
        yield Mark("Holds: every point is there with every bit.", Tone.GOOD)
    else:
        yield Mark("Does not hold." if rows else "Does not hold: no history lies here, so none was compared.", Tone.BAD)


def _sentences(curve: Curve) -> Iterator[str]:
    yield from (found.sentence for found in curve.findings)
    yield from curve.damage
