"""How commands print. stdout is data, stderr is talk.

A command describes its answer once: the facts (for ``--json``) and views of them (for people). On a terminal a view is
drawn by rich; in a pipe it is plain aligned lines without tabs; with ``--json`` the facts are one line of JSON with
sorted keys. Text may come from hostile records: control characters are shown as escapes, markup is never interpreted.
Refuses NaN and infinities in JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from pathlib import PurePath
from typing import TYPE_CHECKING, TypeAlias

import click

from registry.cli.options import PROGRAM

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text
    from rich.tree import Tree as RichTree

NOTHING = "-"


class Tone(StrEnum):
    """What a cell means; only a terminal shows it, as a colour."""

    GOOD = "green"
    BAD = "bold red"
    DOUBT = "yellow"
    FAINT = "dim"


@dataclass(frozen=True, slots=True)
class Mark:
    """A text with a tone."""

    text: str
    tone: Tone


Cell: TypeAlias = str | Mark


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows under named columns. ``right`` names the columns of figures. An empty cell is shown as ``-``."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    right: Sequence[str] = ()
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """Names with one value each, in the order given."""

    values: Mapping[str, Cell]
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """A label with branches below it, which are trees too."""

    label: Cell
    branches: Sequence[Tree] = ()


View: TypeAlias = Cell | Table | Fields | Tree


def emit(value: object, *views: View, as_json: bool) -> None:
    """Print a command's answer on stdout: ``value`` as JSON, or else its ``views`` one after the other.

    A view that is a string or a :class:`Mark` is one line. In JSON, dataclasses are objects (or their spelling, if they
    have one: digests, names), paths, decimals and fractions are strings, sets are sorted lists. Raises ``ValueError``
    for NaN and infinities.
    """
    if as_json:
        click.echo(json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, default=_jsonable))
    elif sys.stdout.isatty():
        _draw(views)
    else:
        for line in _plain(views):
            click.echo(line)


def conclude(*, holds: bool) -> None:
    """End a command whose answer was printed: status 1 unless the claim holds."""
    if not holds:
        click.get_current_context().exit(1)


def talk(text: str) -> None:
    """Say one line on stderr."""
    click.echo(f"{PROGRAM}: {shown(text)}", err=True)


def say(*views: View) -> None:
    """Print views on stderr, plain: what is said beside the answer."""
    for line in _plain(views):
        click.echo(line, err=True)


def shown(text: str) -> str:
    """``text`` with every character that could move a cursor, end a line or turn the writing round as an escape."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


@contextmanager
def progress(description: str, total: int | None, *, in_bytes: bool = False) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr, if that is a terminal. Yields the function that adds to what is done.

    ``total`` is the amount of work, or ``None`` when unknown; ``in_bytes`` shows amounts and speed as bytes.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich import progress as bars
    from rich.console import Console

    amount = (bars.DownloadColumn(), bars.TransferSpeedColumn()) if in_bytes else (bars.MofNCompleteColumn(),)
    columns = (
        bars.TextColumn("{task.description}", markup=False),
        bars.BarColumn(),
        *amount,
        bars.TimeRemainingColumn(),
    )
    with bars.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(shown(description), total=total)
        yield lambda amount: bar.advance(task, amount)


def _jsonable(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type) and type(value).__str__ is object.__str__:
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, Decimal | Fraction | PurePath) or is_dataclass(value):
        return str(value)
    raise TypeError(f"A {type(value).__name__} has no JSON form.")


def _text(cell: Cell) -> str:
    return shown(cell.text if isinstance(cell, Mark) else cell) or NOTHING


def _plain(views: Sequence[View]) -> Iterator[str]:
    """All views as lines, with an empty one on both sides of a block."""
    blocks = [isinstance(view, Table | Fields | Tree) for view in views]
    for index, view in enumerate(views):
        if index and (blocks[index] or blocks[index - 1]):
            yield ""
        yield from _lines(view)


def _lines(view: View) -> Iterator[str]:
    """A view as plain lines."""
    if isinstance(view, Table):
        yield from _titled(view.title)
        right = {view.columns.index(name) for name in view.right}
        yield from _aligned([view.columns, *view.rows], right)
    elif isinstance(view, Fields):
        yield from _titled(view.title)
        yield from _aligned(list(view.values.items()), set())
    elif isinstance(view, Tree):
        yield from _indented(view, "")
    else:
        yield _plain_line(view)


def _indented(tree: Tree, margin: str) -> Iterator[str]:
    yield margin + _text(tree.label)
    for branch in tree.branches:
        yield from _indented(branch, margin + "  ")


def _titled(title: str) -> Iterator[str]:
    if title:
        yield shown(title)


def _plain_line(cell: Cell) -> str:
    return shown(cell.text if isinstance(cell, Mark) else cell)


def _aligned(rows: Sequence[Sequence[Cell]], right: set[int]) -> Iterator[str]:
    """Rows as columns two blanks apart, without blanks at the end of a line."""
    texts = [[_text(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for row in texts:
        cells = (
            text.rjust(width) if index in right else text.ljust(width)
            for index, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()


def _draw(views: Sequence[View]) -> None:
    from rich.console import Console

    console = Console(file=sys.stdout, highlight=False)
    for view in views:
        console.print(_drawn(view), soft_wrap=isinstance(view, str | Mark))


def _drawn(view: View) -> RenderableType:
    from rich import box
    from rich.table import Table as RichTable

    if isinstance(view, str | Mark):
        return _rich(view, empty="")
    if isinstance(view, Tree):
        return _rich_tree(view)
    table = RichTable(title=_rich(view.title) if view.title else None, title_justify="left", box=box.SIMPLE_HEAD)
    if isinstance(view, Fields):
        table.show_header = False
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        rows: Sequence[Sequence[Cell]] = list(view.values.items())
    else:
        for name in view.columns:
            table.add_column(_rich(name), justify="right" if name in view.right else "left", overflow="fold")
        rows = view.rows
    for row in rows:
        table.add_row(*(_rich(cell) for cell in row))
    return table


def _rich_tree(view: Tree) -> RichTree:
    from rich.tree import Tree as RichTree

    drawn = RichTree(_rich(view.label), guide_style="dim")
    drawn.children = [_rich_tree(branch) for branch in view.branches]
    return drawn


def _rich(cell: Cell, empty: str = NOTHING) -> Text:
    from rich.text import Text

    style = cell.tone.value if isinstance(cell, Mark) else ""
    return Text(_plain_line(cell) or empty, style=style)
