"""``reckon incident``: write down what happened to a run or an artifact, and list what did."""

from __future__ import annotations

from collections.abc import Iterable

import click

from registry.cli import charting, wiring
from registry.cli.options import example, json_option
from registry.cli.ordered import RunType, StepsType
from registry.cli.render import Cell, Mark, Table, Tone, emit, talk
from registry.cli.words import cut, full_option
from registry.core.incidents import Event, Kind
from registry.core.names import Name

_COLUMNS = ("when", "about", "kind", "steps", "told by", "text")
_QUIET = frozenset({Kind.ANNOTATION, Kind.INTERVENTION, Kind.RESTART})


@click.group(
    epilog=example(
        "reckon incident add hero/2 --steps 120:124 --kind hang --text 'one rank waited for its disk'",
        "reckon incident add shards:code/train-00000.parquet --kind data-taint --text 'test set inside'",
        "reckon incident list hero",
    )
)
def command() -> None:
    """Write down what happened to a run or an artifact, or list it.

    An incident is a record: typed, append-only, pinned to the bytes that it is about. A taint on data flows to all that
    was made from it; 'reckon tree' and 'reckon audit' show where.
    """


@command.command(
    epilog=example("reckon incident add hero/2 --steps 120:124 --kind loss-spike --text 'after the switch'")
)
@click.argument("name", type=RunType())
@click.option("--steps", type=StepsType(), metavar="A:B", help="The first and the last update that it is about.")
@click.option("--kind", type=click.Choice([kind.value for kind in Kind]), required=True, help="What it was.")
@click.option("--text", required=True, help="What happened, in a sentence or more.")
@json_option
def add(name: str, steps: range | None, kind: str, text: str, as_json: bool) -> None:
    """Write down what happened to NAME: a run, a segment, an artifact, or a file of one."""
    noted = charting.annotator(wiring.root()).add(Name.parse(name), Kind(kind), steps, text)
    facts = {"record": noted.digest, **noted.incident.to_json()}
    path = f"manifests/incidents/{noted.digest.hex}.json"
    emit(
        facts,
        Mark(f"Written down: {kind} about {noted.incident.about}", Tone.GOOD),
        f"Commit it: git add {path}",
        as_json=as_json,
    )


@command.command(name="list", epilog=example("reckon incident list", "reckon incident list hero/2"))
@click.argument("run", type=RunType(), required=False)
@full_option
@json_option
def list_(run: str | None, full: bool, as_json: bool) -> None:
    """List incidents, oldest first: all, or those of RUN and its artifacts.

    Those that training noticed by itself are told by its executions; the others are records.
    """
    archive = wiring.root()
    told = wiring.incidents(wiring.record_store(archive), wiring.ledger(archive))
    events = told.events if run is None else told.of(Name.parse(run).stage, family=True)
    for damage in told.damages:
        talk(f"The incident record {damage}")
    view = table(events, full) if events else "No incident is on record."
    emit({"incidents": events}, view, as_json=as_json)


def table(events: Iterable[Event], full: bool) -> Table:
    """Incidents, one a line."""
    return Table(columns=_COLUMNS, rows=cut([_row(event, full) for event in events], full, 40))


def _row(event: Event, full: bool) -> list[Cell]:
    tone = Tone.DOUBT if event.incident in _QUIET else Tone.BAD
    origin = str(event.origin) if full else event.origin.short
    return [
        event.time[:19] + "Z",
        event.about,
        Mark(event.incident, tone),
        event.steps,
        f"{'execution' if event.automatic else 'record'} {origin}",
        event.text,
    ]
