"""``reckon gc``: what may be let go, what stays and why, and the deleting itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar

import click

from registry.cli import charting, wiring
from registry.cli.options import NameType, example, json_option
from registry.cli.render import Cell, Mark, Table, Tone, View, emit, progress
from registry.cli.words import amount, count, cut, full_option
from registry.core.deletion import Going, Place, Plan, Unit, forecast, grouped
from registry.core.names import Name
from registry.core.retention import Class
from registry.errors import OutsideFailed
from registry.workflows.gc import Done

Key = TypeVar("Key", bound=tuple[str, ...])

_HELD: Final = ("in", "things", "size")
_CLASSES: Final = [one.value for one in Class if one is not Class.GONE]


@click.group(
    invoke_without_command=True,
    epilog=example("reckon gc", "reckon gc --yes", "reckon gc keep hero/1@step-450 --as milestone --text 'paper'"),
)
@click.option("--yes", is_flag=True, help="Delete what the plan lets go.")
@click.option("--thin", is_flag=True, help="Also drop second copies in the cache of what is not current.")
@full_option
@json_option
@click.pass_context
def command(ctx: click.Context, yes: bool, thin: bool, full: bool, as_json: bool) -> None:
    """Plan a clean-up of DVC's cache, a remote that is a folder, scratch and attempts; delete with --yes.

    What a release, handoff, milestone, forecast, incident or witness reaches stays, and so does what is current or
    young; the last copy of anything that stays is never deleted. Ages are in the section 'retention' of params.yaml.
    """
    if ctx.invoked_subcommand is not None:
        return
    cleaner = charting.cleaner(wiring.root())
    plan = cleaner.plan(thin=thin)
    done = None
    if yes:
        with progress("Deleting", plan.forecast.size_bytes, in_bytes=True) as advance:
            done = cleaner.carry_out(plan, advance)
    emit(_facts(plan, done), *_views(plan, done, full), as_json=as_json)
    if done is not None and done.failed:
        ctx.exit(OutsideFailed.exit_code)


@command.command(epilog=example("reckon gc keep hero/1@step-450 --as milestone --text 'cited in the paper'"))
@click.argument("name", type=NameType(wiring.names))
@click.option("--as", "holds", type=click.Choice(_CLASSES), required=True, help="Its class; 'scratch' takes one back.")
@click.option("--text", required=True, help="Why, in a sentence.")
@json_option
def keep(name: Name, holds: str, text: str, as_json: bool) -> None:
    """Give NAME, an artifact or a kept checkpoint, a class. The record pins its bytes; the newest one counts."""
    digest, record = charting.keeper(wiring.root()).keep(name, Class(holds), text)
    said = Mark(f"{name} is {'no longer marked' if holds == Class.SCRATCH else f'a {holds}'} from now on.", Tone.GOOD)
    path = f"manifests/retentions/{digest.hex}.json"
    emit({"record": digest, **record.to_json()}, said, f"Commit it: git add {path}", as_json=as_json)


def _facts(plan: Plan, done: Done | None) -> dict[str, object]:
    going = [
        {"place": one.unit.place, "path": one.unit.path, "what": one.what, "why": one.why, "bytes": one.unit.size_bytes}
        for one in plan.going
    ]
    staying = [
        {"what": what, "ground": ground, "why": why, "place": place, "units": held.units, "bytes": held.size_bytes}
        for what, ground, why, place, held in grouped(plan.staying)
    ]
    told = None if done is None else {"removed": len(done.removed), "failed": done.failed, "record": done.record}
    return {
        "going": going,
        "staying": staying,
        "notes": plan.notes,
        "forecast": {**_amounts(plan.going), "by_place": {place: _amounts(_of(plan, place)) for place in Place}},
        "done": told,
    }


def _amounts(going: Sequence[Going]) -> dict[str, int]:
    held = forecast(one.unit for one in going)
    return {"units": held.units, "files": held.files, "bytes": held.size_bytes, "freed_bytes": held.freed_bytes}


def _of(plan: Plan, place: Place) -> list[Going]:
    return [one for one in plan.going if one.unit.place is place]


def _views(plan: Plan, done: Done | None, full: bool) -> Iterator[View]:
    staying = _together(((one.what, one.ground, one.why), one.unit) for one in plan.staying)
    rows: list[Sequence[Cell]] = [(what, Mark(ground, Tone.GOOD), why, *held) for (what, ground, why), held in staying]
    yield Table(columns=("stays", "as", "because", *_HELD), rows=cut(rows, full, 40), right=_HELD[1:])
    going = _together(((one.what, one.why), one.unit) for one in plan.going)
    lines: list[Sequence[Cell]] = [(Mark(what, Tone.DOUBT), why, *held) for (what, why), held in going]
    if lines:
        yield Table(columns=("goes", "because", *_HELD), rows=cut(lines, full, 40), right=_HELD[1:])
    yield from (Mark(note, Tone.DOUBT) for note in plan.notes)
    yield _conclusion(plan, done)
    yield from (Mark(f"Not deleted: {line}", Tone.BAD) for line in (done.failed if done else ()))


def _together(pairs: Iterable[tuple[Key, Unit]]) -> list[tuple[Key, tuple[str, str, str]]]:
    """Units by what is said of them, sorted: the places that they lie in, how many they are, and their size."""
    found: dict[Key, list[Unit]] = {}
    for key, unit in pairs:
        found.setdefault(key, []).append(unit)
    return [(key, _held(units)) for key, units in sorted(found.items(), key=lambda pair: str(pair[0]))]


def _held(units: Sequence[Unit]) -> tuple[str, str, str]:
    places = ", ".join(dict.fromkeys(unit.place.value for unit in units))
    return places, str(len(units)), amount(sum(unit.size_bytes for unit in units))


def _conclusion(plan: Plan, done: Done | None) -> Mark:
    held = plan.forecast
    told = f"{count(held.units, 'thing')} ({count(held.files, 'file')}, {amount(held.freed_bytes)})"
    if done is not None:
        freed = forecast(done.removed)
        what = f"{count(freed.units, 'thing')} ({amount(freed.freed_bytes)})"
        return Mark(f"Deleted {what} of {told}.", Tone.BAD if done.failed else Tone.GOOD)
    if not held.units:
        return Mark("Nothing may go.", Tone.GOOD)
    return Mark(f"{told} may go. Nothing was deleted: run 'reckon gc --yes'.", Tone.DOUBT)
