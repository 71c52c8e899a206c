"""``reckon seen``: when a document, a shard or a package was trained on, and which checkpoints are free of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from registry.cli import charting, wiring
from registry.cli.options import example, json_option
from registry.cli.ordered import RunType
from registry.cli.render import Cell, Mark, Table, Tone, View, emit
from registry.cli.words import count, cut, full_option
from registry.workflows.seen import Checkpoint, Seen, SeenIn, Visits, What

_SEGMENTS = ("segment", "steps", "sequences", "tokens", "seen at steps")
_CHECKPOINTS = ("kept checkpoint", "sequences before", "")
_FEW = 8


@click.command(epilog=example("reckon seen 3f2a91c0", "reckon seen --source sympy --run hero"))
@click.argument("document", required=False)
@click.option("--shard", help="All documents of a shard, such as code/train-00000.parquet.")
@click.option("--source", metavar="PACKAGE", help="All documents of a package.")
@click.option("--run", type=RunType(), help="One run alone; otherwise all on record.")
@full_option
@json_option
def command(document: str | None, shard: str | None, source: str | None, run: str | None, **how: bool) -> None:
    """Say at which steps DOCUMENT was trained on, how often, and which kept checkpoints are free of it.

    DOCUMENT is the first eight or more digits of a document's id. Told from recorded facts and offsets alone.
    """
    given = {What.DOCUMENT: document, What.SHARD: shard, What.SOURCE: source}
    asked = [(what, name) for what, name in given.items() if name is not None]
    if len(asked) != 1:
        raise click.UsageError("Give a DOCUMENT, --shard or --source.")
    what, name = asked[0]
    plain = name.removeprefix("artifacts/shards/").removeprefix("shards:") if what is What.SHARD else name
    seen = charting.finder(wiring.root()).seen(what, plain, run)
    emit(_facts(seen), *_views(seen, how["full"]), as_json=how["as_json"])


def _facts(seen: Seen) -> dict[str, object]:
    told = {name: getattr(seen, name) for name in seen.__slots__}
    return {**told, "runs": [_run(one) for one in seen.runs]}


def _run(seen: SeenIn) -> dict[str, object]:
    return {"run": seen.run, "segments": seen.segments, "checkpoints": seen.checkpoints, "free": seen.free}


def _views(seen: Seen, full: bool) -> Iterator[View]:
    held = f", {seen.heldout} of them held out" if seen.heldout else ""
    yield f"{seen.what} {seen.name}: {count(seen.documents, 'document')}{held}, {count(seen.tokens, 'training token')}."
    for one in seen.runs:
        rows = [_segment(visits, full) for visits in one.segments]
        yield Table(title=one.run, columns=_SEGMENTS, rows=rows, right=("sequences", "tokens"))
        checkpoints = [_checkpoint(kept) for kept in one.checkpoints]
        yield Table(columns=_CHECKPOINTS, rows=cut(checkpoints, full), right=("sequences before",))


def _segment(visits: Visits, full: bool) -> Sequence[Cell]:
    shown = visits.steps if full else visits.steps[:_FEW]
    steps = ", ".join(str(first) if first == last else f"{first}:{last}" for first, last in shown)
    more = f" … {len(visits.steps) - len(shown)} more: --full" if len(shown) < len(visits.steps) else ""
    return (
        visits.stage,
        f"{visits.first_step}:{visits.last_step}",
        str(visits.sequences),
        str(visits.tokens),
        steps + more or Mark("never", Tone.GOOD),
    )


def _checkpoint(kept: Checkpoint) -> Sequence[Cell]:
    return kept.name, str(kept.sequences), Mark("free", Tone.GOOD) if kept.free else Mark("trained on it", Tone.DOUBT)
