"""``reckon adopt``: keep what others told of their runs, as claims with their sources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from registry.cli import adopting, wiring
from registry.cli.options import example, json_option
from registry.cli.render import Cell, Mark, Table, Tone, View, emit
from registry.cli.words import count
from registry.core.names import Name
from registry.errors import Refused

if TYPE_CHECKING:
    from registry.core.canonical import Json
    from registry.workflows.adopt import Taken

_FOLDER = click.Path(file_okay=False, path_type=Path)


@click.command(
    epilog=example(
        "reckon adopt registry/facts/marin.json",
        "reckon adopt wandb/offline-run-20261130_120000-x1 --as lab/x1",
        "reckon adopt mlflow:3f2a91c05e7d4b6a8c9d0e1f2a3b4c5d",
        "reckon adopt outputs/tokenized/.artifact.json",
        "reckon adopt --refit law",
    )
)
@click.argument("place", metavar="[FILE]", required=False)
@click.option("--as", "name", help="What a tracker's run is called here, such as lab/x1.")
@click.option("--refit", type=_FOLDER, help="Fit the adopted ladder's law again; write it and its picture there.")
@json_option
def command(place: str | None, name: str | None, refit: Path | None, as_json: bool) -> None:
    """Adopt foreign records: a document of facts, a collection of published figures, a W&B run folder, an MLflow run,
    or a sidecar of Marin.

    They are kept under manifests/adopted/ and are claimed, whatever they say: nothing of theirs is a witness. 'reckon
    tree', 'show', 'log' and 'audit' take their names; the audit finds what their claims contradict.
    """
    if place is None and refit is None:
        raise click.UsageError("Give a FILE to adopt, or a folder with --refit.")
    if name is not None and str(Name.parse(name)) != Name.parse(name).stage:
        raise Refused(f"{name!r} cannot be the name of a run.", remedy="Write it like lab/x1, without a step or file.")
    archive = wiring.root()
    facts: dict[str, object] = {}
    views: list[View] = []
    if place is not None:
        taken = adopting.adopter(archive).adopt(adopting.read(place, name))
        facts |= _facts(taken)
        views += _taken(taken)
    if refit is not None:
        law = adopting.refit(archive, refit)
        facts |= {"law": law}
        views += _law(law)
    emit(facts, *views, as_json=as_json)


def _facts(taken: Sequence[Taken]) -> dict[str, object]:
    told = [{"digest": one.digest, "new": one.new, "name": one.record.name, "role": one.record.role} for one in taken]
    return {"adopted": told, "new": sum(one.new for one in taken)}


def _taken(taken: Sequence[Taken]) -> Iterator[View]:
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
    yield Table(columns=("is", "name", "role", "ended", "claims", "record"), rows=rows, right=("claims",))
    new = sum(one.new for one in taken)
    yield f"{count(len(taken), 'record')} read, {new} written. They are claimed; look: reckon tree {_look(rows)}"


def _law(law: Mapping[str, Json]) -> Iterator[View]:
    """Each case of the law beside the published figure."""
    cases = law.get("cases")
    told = {name: one for name, one in cases.items() if isinstance(one, Mapping)} if isinstance(cases, Mapping) else {}
    rows = [
        (name, *(str(one.get(key, "")) for key in ("median", "low", "high", "published_less_median", "means")))
        for name, one in told.items()
    ]
    title = f"{law.get('predicts')}: the law fitted again, beside the published {law.get('published')}"
    columns = ("case", "median", "low", "high", "published less", "means")
    yield Table(title=title, columns=columns, rows=rows)
    need = law.get("published_would_need")
    if need is not None:
        yield f"The published figure is this method's answer if the rung that was cut short had ended at {need}."


def _look(rows: list[tuple[Cell, ...]]) -> str:
    """The name that is best looked at: the first run, else the first of all."""
    runs = [row for row in rows if row[2] == "run"] or rows
    return str(runs[0][1]) if runs else "NAME"
