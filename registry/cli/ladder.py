"""``reckon ladder``: what a shape fixes, beside what was published."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Final, TypeAlias

import click

from registry.cli import adopted, adopting, wiring
from registry.cli.options import example, json_option
from registry.cli.render import Cell, Fields, Mark, Table, Tone, View, conclude, emit
from registry.core import decimals, published
from registry.core.canonical import Json
from registry.core.family import Family
from registry.core.ladder import Rung, Shape, derive
from registry.errors import Refused

Ladder: TypeAlias = tuple[Family, Mapping[str, Shape], Mapping[str, Mapping[str, str]]]

_PUBLISHED: Final[Ladder] = (published.FAMILY, published.SHAPES, published.FIGURES)
_EXACT_BELOW = 10**12
_SHOWN_DIGITS = 7


@click.command(
    epilog=example(
        "reckon ladder",
        "reckon ladder --width 1280 --layers 14 --kv 2/1 --batch 2048",
        "reckon ladder --family pocket --json",
    )
)
@click.option("--family", type=click.Choice(["published", "pocket"]), default="published", show_default=True)
@click.option("--width", type=int, help="Width of the model, for a shape of your own.")
@click.option("--layers", type=int, help="Number of layers.")
@click.option("--kv", help="Key-value heads of local and of global layers, such as 12/6.")
@click.option("--batch", type=int, help="Sequences per step.")
@json_option
def command(family: str, as_json: bool, **shape: int | str | None) -> None:
    """Derive rungs of the ladder: parameters, steps, tokens, FLOPs, rates and where the data switches.

    Without a shape: all rungs of the family. The published ones stand beside the published figures, and the status is 1
    unless all are equal at the precision of their source.
    """
    constants, shapes, figures = _pocket() if family == "pocket" else _PUBLISHED
    if any(value is not None for value in shape.values()):
        shapes, figures = {"shape": _shape(shape)}, {}
    rungs = {name: derive(constants, one) for name, one in shapes.items()}
    equal = {name: _equal(rungs[name], row) for name, row in figures.items()}
    emit(_facts(constants, rungs, figures, equal), *_views(rungs, figures, equal), as_json=as_json)
    conclude(holds=all(all(row.values()) for row in equal.values()))


def _ends() -> Iterator[View]:
    """How the published rungs are told to have ended, where this archive has adopted what is told."""
    foreign = adopting.shelf_with(published.FAMILY.name)
    if foreign is not None:
        yield from adopted.ends(foreign)


def _pocket() -> Ladder:
    """The family and shapes of this archive's own ladder, from its ``params.yaml``. Nothing is published of it."""
    settings = wiring.pipeline(wiring.root()).params()
    family, rungs, hero = (settings.get(name) for name in ("family", "rungs", "hero"))
    if not (isinstance(family, Mapping) and isinstance(rungs, Mapping) and isinstance(hero, Mapping)):
        raise Refused(
            "params.yaml lacks one of the sections family, rungs and hero.",
            remedy="Compare it with the committed version.",
        )
    shapes = {str(name): Shape.from_settings(one) for name, one in rungs.items()}
    return Family.from_settings(family), {**shapes, "hero": Shape.from_settings(hero)}, {}


def _shape(given: Mapping[str, int | str | None]) -> Shape:
    missing = [f"--{name}" for name, value in given.items() if value is None]
    if missing:
        raise Refused(f"A shape also needs {', '.join(missing)}.", remedy="Give all four of a shape, or none.")
    heads = str(given["kv"]).split("/")
    if len(heads) not in (1, 2) or not all(part.isascii() and part.isdecimal() and len(part) < 10 for part in heads):
        raise Refused(f"--kv is {given['kv']!r}, not two numbers.", remedy="Write local/global, such as 12/6.")
    return Shape.from_settings(
        {
            "hidden": given["width"],
            "layers": given["layers"],
            "kv_heads": [int(heads[0]), int(heads[-1])],
            "batch_sequences": given["batch"],
        }
    )


def _equal(rung: Rung, figures: Mapping[str, str]) -> dict[str, bool]:
    return {column: published.agrees(rung, column, text) for column, text in figures.items()}


def _facts(
    family: Family,
    rungs: Mapping[str, Rung],
    figures: Mapping[str, Mapping[str, str]],
    equal: Mapping[str, Mapping[str, bool]],
) -> Json:
    derived = {name: rung.to_json() for name, rung in rungs.items()}
    facts: dict[str, Json] = {"family": family.name, "derived": derived}
    if figures:
        foreign = adopting.shelf_with(published.FAMILY.name)
        facts |= {"adopted": adopted.ended(foreign)} if foreign is not None else {}
        plain = {name: dict(row) for name, row in figures.items()}
        facts |= {"published": plain, "equal": equal, "sources": dict(published.SOURCES)}
    return facts


def _views(
    rungs: Mapping[str, Rung], figures: Mapping[str, Mapping[str, str]], equal: Mapping[str, Mapping[str, bool]]
) -> list[View]:
    """One table of what follows from the shapes, and one of what was published, with a mark in every cell."""
    columns = ["figure", *rungs]
    derived = [[column, *(_cell(getattr(rung, column)) for rung in rungs.values())] for column in published.COLUMNS]
    views: list[View] = [Table(columns=columns, rows=derived, right=list(rungs), title="Derived from the shape alone")]
    if figures:
        rows = [
            [column, *(_marked(figures[name][column], equal[name][column]) for name in rungs)]
            for column in published.COLUMNS
        ]
        views.append(Table(columns=columns, rows=rows, right=list(rungs), title="Published"))
        views.append(Fields(values=published.SOURCES, title="Sources"))
        views += _ends()
        views.append(_sum(equal))
    return views


def _sum(equal: Mapping[str, Mapping[str, bool]]) -> Cell:
    cells = [same for row in equal.values() for same in row.values()]
    text = f"{sum(cells)} of {len(cells)} published figures equal (=) the derived one at their precision."
    return Mark(text, Tone.GOOD if all(cells) else Tone.BAD)


def _marked(text: str, same: bool) -> Cell:
    return Mark(f"{text} =", Tone.GOOD) if same else Mark(f"{text} !", Tone.BAD)


def _cell(value: int | str | Decimal) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return str(value) if value < _EXACT_BELOW else f"{Decimal(value):.{_SHOWN_DIGITS - 1}e}".replace("e+", "e")
    return decimals.write(decimals.round_digits(value, _SHOWN_DIGITS))
