"""``reckon batch``: the documents that made one step's batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from registry.cli import charting, wiring
from registry.cli.options import example, json_option
from registry.cli.ordered import RunType, as_facts, proven
from registry.cli.render import Cell, Mark, Table, Tone, View, conclude, emit
from registry.cli.words import count, cut, full_option
from registry.workflows.batch import Batch

_COLUMNS = ("at", "domain", "sequence", "document", "tokens", "source", "shard", "row")
_RIGHT = ("at", "sequence", "row")


@click.command(epilog=example("reckon batch hero 12", "reckon batch rung/d48 1 --prove --json"))
@click.argument("run", type=RunType())
@click.argument("step", type=click.IntRange(min=1))
@click.option("--prove", is_flag=True, help="Read the batch's tokens too, and hold it against the transcript.")
@full_option
@json_option
def command(run: str, step: int, prove: bool, full: bool, as_json: bool) -> None:
    """List the documents of the batch that made update STEP of RUN, in batch order.

    RUN is a rung, a segment, or a chain of segments such as 'hero'. The answer is told from recorded facts and offsets;
    no token is read unless --prove asks for it, which ends with status 1 when the transcript disagrees.
    """
    archive = wiring.root()
    batch = charting.batcher(archive).batch(run, step)
    proof = charting.orderly(archive).prove(run, range(step, step + 1)) if prove else None
    shown = [] if proof is None else list(proven(proof))
    known = wiring.incidents(wiring.record_store(archive), wiring.ledger(archive)).at(batch.stage, step)
    facts = {**_facts(batch), "incidents": known, "proof": None if proof is None else as_facts(proof)}
    happened = [Mark(f"{event.label}: {event.text}", Tone.DOUBT) for event in known]
    emit(facts, *_views(batch, full), *happened, *shown, as_json=as_json)
    conclude(holds=proof is None or proof.holds)


def _facts(batch: Batch) -> dict[str, object]:
    return {name: getattr(batch, name) for name in batch.__slots__}


def _views(batch: Batch, full: bool) -> Iterator[View]:
    documents = count(len({row.document for row in batch.rows}), "document")
    sequences = f"{count(batch.sequences, 'sequence')} of {batch.sequence_tokens} tokens"
    yield f"Step {batch.step} of {batch.stage}: {sequences}, from {documents}."
    rows: list[Sequence[Cell]] = [
        (
            str(row.position),
            row.component,
            str(row.sequence),
            row.document if full else row.document[:12],
            f"{row.first_token}..{row.stop_token}",
            row.source or "",
            row.shard,
            str(row.row),
        )
        for row in batch.rows
    ]
    yield Table(columns=_COLUMNS, rows=cut(rows, full, 60), right=_RIGHT)
