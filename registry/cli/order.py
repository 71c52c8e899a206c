"""``reckon order``: the integer counts behind a mixture, and the proof of what a range of steps was fed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from registry.cli import charting, wiring
from registry.cli.options import example, json_option
from registry.cli.ordered import RunType, StepsType, as_facts, proven
from registry.cli.render import Cell, Fields, Mark, Table, Tone, View, conclude, emit
from registry.workflows.order import PhaseShares, SegmentOrder

_COLUMNS = ("component", "weight", "in a block", "drawn", "sequences", "turns")


@click.command(epilog=example("reckon order hero", "reckon order rung/d48 --prove 1:50"))
@click.argument("run", type=RunType())
@click.option("--prove", type=StepsType(), metavar="A:B", help="Make these steps' batches again and compare.")
@json_option
def command(run: str, prove: range | None, as_json: bool) -> None:
    """Show how RUN mixed its data: sequences of each component in every block, beside the weights.

    Weights are cut down to whole sequences of a block, so a small one can become none: those are named. With --prove
    the batches of steps A to B are made again from recorded facts and tokens, and held against the transcript; what was
    altered is named, and the command ends with status 1.
    """
    workflow = charting.orderly(wiring.root())
    if prove is None:
        orders = workflow.tell(run)
        emit({"run": run, "segments": [_facts(one) for one in orders]}, *_views(orders), as_json=as_json)
        return
    proof = workflow.prove(run, prove)
    emit(as_facts(proof), *proven(proof), as_json=as_json)
    conclude(holds=proof.holds)


def _facts(order: SegmentOrder) -> dict[str, object]:
    told = {name: getattr(order, name) for name in order.__slots__}
    return {**told, "phases": [{**_plain(phase), "silent": phase.silent} for phase in order.phases]}


def _plain(phase: PhaseShares) -> dict[str, object]:
    return {name: getattr(phase, name) for name in phase.__slots__}


def _views(orders: Sequence[SegmentOrder]) -> Iterator[View]:
    for order in orders:
        yield Fields(title=f"{order.stage}, steps {order.first_step}:{order.last_step}", values=_sizes(order))
        for phase in order.phases:
            rows = [_row(phase, number) for number in range(len(phase.shares))]
            title = f"steps {phase.first_step}:{phase.last_step}"
            yield Table(title=title, columns=_COLUMNS, rows=rows, right=_COLUMNS[1:])
            for name in phase.silent:
                yield Mark(f"{name} has a weight and gets nothing in {title}: a block is too small for it.", Tone.DOUBT)


def _sizes(order: SegmentOrder) -> dict[str, Cell]:
    return {
        "seed": str(order.seed),
        "batch": f"{order.batch_sequences} sequences of {order.sequence_tokens} tokens",
        "mixture block": f"{order.block_sequences} sequences",
        "digest of the facts": order.genesis,
    }


def _row(phase: PhaseShares, number: int) -> Sequence[Cell]:
    share = phase.shares[number]
    weights = sum(one.weight for one in phase.shares)
    per_block = str(share.per_block)
    return (
        share.component,
        f"{share.weight}/{weights}",
        Mark(per_block, Tone.BAD) if share.component in phase.silent else per_block,
        str(share.drawn),
        str(share.sequences),
        f"{share.drawn / share.sequences:.2f}",
    )
