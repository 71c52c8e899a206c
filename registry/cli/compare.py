"""``reckon compare``: where two executions, checkpoints or exports part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import click

from registry.cli import adopting, rederiving, wiring
from registry.cli.options import example, json_option
from registry.cli.rederived import parting_views, setup_views
from registry.cli.render import Mark, Tone, View, conclude, emit
from registry.cli.words import full_option
from registry.core.parting import Parting, spelled
from registry.errors import Refused


@click.command(
    epilog=example(
        "reckon compare rung/d32 ./elsewhere/rung/d32",
        "reckon compare hero/1@step-450 ./step-450/state.safetensors",
        "reckon compare 3f2a91c0 5b77d1e2",
    )
)
@click.argument("left")
@click.argument("right")
@full_option
@json_option
def command(left: str, right: str, full: bool, as_json: bool) -> None:
    """Compare LEFT and RIGHT: names, digests of executions or artifacts, or paths of runs, checkpoints and exports.

    Tells the first differing step and tensor, then the largest distances, then what differs in what was asked and in
    the setups. Of a run the last checkpoint that both kept is compared. Ends with status 1 when they differ.
    """
    adopting.refuse_unknown(left, right)
    parting = rederiving.comparer(wiring.root()).compare(left, right)
    if not parting.compared and not (parting.setup or parting.asked):
        notes = "; ".join((*parting.recorded.notes, *parting.found.notes))
        raise Refused(f"Nothing of {left} and {right} can be compared{': ' + notes if notes else ''}.")
    emit(facts(parting), *views(parting, full), as_json=as_json)
    conclude(holds=parting.equal)


def facts(parting: Parting) -> Mapping[str, object]:
    """Where they part, for JSON."""
    return {
        "left": parting.recorded.label,
        "right": parting.found.label,
        "equal": parting.equal,
        "compared": parting.compared,
        **parting.to_json(),
        "tensors": [
            {
                "name": one.name,
                "largest": spelled(one.largest),
                "norm_of_difference": spelled(one.apart),
                "relative": spelled(one.relative),
                "differing": one.differing,
                "elements": one.elements,
            }
            for one in parting.distances
        ],
        "setup": parting.setup,
        "asked": {part.value: changes for part, changes in parting.asked.items()},
        "notes": [*parting.recorded.notes, *parting.found.notes],
    }


def views(parting: Parting, full: bool) -> Iterator[View]:
    """Where they part, for people."""
    yield f"{parting.recorded.label} and {parting.found.label}:"
    yield from parting_views(parting)
    for part, changes in parting.asked.items():
        shown = changes if full else changes[:6]
        told = "; ".join(f"{one.key}: {one.recorded or 'absent'} → {one.found or 'absent'}" for one in shown)
        yield Mark(f"Asked otherwise, {part}: {told}{' …' if len(shown) < len(changes) else ''}", Tone.DOUBT)
    if parting.recorded.setup is not None and parting.found.setup is not None:
        yield from setup_views(parting.setup, full)
    yield from (Mark(note, Tone.DOUBT) for note in (*parting.recorded.notes, *parting.found.notes))
    if parting.equal:
        yield Mark("Equal in all that was compared.", Tone.GOOD)
    else:
        yield Mark(
            "They differ." if parting.compared else "Only what was asked and the setups were compared.", Tone.BAD
        )
