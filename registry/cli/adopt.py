"""``reckon adopt``: keep what others told of their runs, as claims with their sources."""

from __future__ import annotations

import click

from registry.cli import adopting, wiring
from registry.cli.options import example, json_option
from registry.cli.render import Cell, Mark, Table, Tone, emit
from registry.cli.words import count
from registry.core.names import Name
from registry.errors import Refused


@click.command(
    epilog=example(
        "reckon adopt registry/facts/marin.json",
        "reckon adopt wandb/offline-run-20261130_120000-x1 --as lab/x1",
        "reckon adopt mlflow:3f2a91c05e7d4b6a8c9d0e1f2a3b4c5d",
        "reckon adopt outputs/tokenized/.artifact.json",
    )
)
@click.argument("place", metavar="FILE")
@click.option("--as", "name", help="What a tracker's run is called here, such as lab/x1.")
@json_option
def command(place: str, name: str | None, as_json: bool) -> None:
    """Adopt foreign records: a document of facts, a W&B run folder, an MLflow run, or a sidecar of Marin.

    They are kept under manifests/adopted/ and are claimed, whatever they say: nothing of theirs is a witness. 'reckon
    tree', 'show', 'log' and 'audit' take their names; the audit finds what their claims contradict.
    """
    if name is not None and str(Name.parse(name)) != Name.parse(name).stage:
        raise Refused(f"{name!r} cannot be the name of a run.", remedy="Write it like lab/x1, without a step or file.")
    archive = wiring.root()
    taken = adopting.adopter(archive).adopt(adopting.read(place, name))
    rows: list[tuple[Cell, ...]] = [
        (
            Mark("new", Tone.GOOD) if one.new else "as before",
            one.record.name,
            one.record.role.value,
            one.record.ended.value,
            str(len(one.record.claims)),
            one.digest.short,
        )
        for one in taken
    ]
    facts = [{"digest": one.digest, "new": one.new, "name": one.record.name, "role": one.record.role} for one in taken]
    new = sum(one.new for one in taken)
    columns = ("", "name", "role", "ended", "claims", "record")
    emit(
        {"adopted": facts, "new": new},
        Table(columns=columns, rows=rows, right=("claims",)),
        f"{count(len(taken), 'record')} read, {new} written. They are claimed; look: reckon tree {_look(rows)}",
        as_json=as_json,
    )


def _look(rows: list[tuple[Cell, ...]]) -> str:
    """The name that is best looked at: the first run, else the first of all."""
    runs = [row for row in rows if row[2] == "run"] or rows
    return str(runs[0][1]) if runs else "NAME"
