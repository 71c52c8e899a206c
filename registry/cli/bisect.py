"""``reckon bisect``: the first step at which two histories part, replaying windows where only states are known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from registry.cli import adopting, rederiving, wiring
from registry.cli.options import example, json_option
from registry.cli.rederive import request
from registry.cli.rederived import Meter, plan_facts, plan_views
from registry.cli.references import ReferenceType
from registry.cli.render import Mark, Tone, View, conclude, emit, say, talk
from registry.core.resolving import Reference
from registry.errors import Refused
from registry.workflows.bisect import Bisected

_NOTHING = {"start": None, "steps": None, "patch": None, "keep": None, "tolerance": None, "noise": None}


@click.command(
    epilog=example(
        "reckon bisect rung/d32 ./elsewhere --yes",
        "reckon bisect rung/d32 ./elsewhere/checkpoints/step-225 --env NPROC=1 --yes",
    )
)
@click.argument("name", type=ReferenceType(wiring.names))
@click.argument("other")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="A setting that OTHER ran under.")
@click.option("--env", "envs", multiple=True, metavar="NAME=VALUE", help="A variable that OTHER ran under.")
@click.option("--yes", is_flag=True, help="Run the recorded code where a window must be replayed.")
@json_option
def command(name: Reference, other: str, **how: Any) -> None:
    """Find the first step at which the recorded history NAME and OTHER part. OTHER is a name, a digest, or a path.

    Transcripts answer at once. Without one, the checkpoints that both kept are searched by halves, and the window in
    which they part is replayed: as recorded, and under the settings of OTHER where --set or --env tells them. Ends with
    status 1 when they part, and 0 when they do not.
    """
    adopting.refuse_unknown(str(name), other)
    archive = wiring.root()
    asked = request(name, {**how, **_NOTHING})
    comparer = rederiving.comparer(archive)

    def meter(one: Any) -> Meter:
        say(*plan_views(one))
        if not (how["yes"] or one.trusted):
            emit({"plans": [plan_facts(one)], "ran": False}, as_json=how["as_json"])
            talk("A window must be replayed, and nothing was run. Look at commit and command, then add --yes.")
            click.get_current_context().exit(Refused.exit_code)
        return Meter(one)

    bisector = rederiving.bisector(archive, asked, meter)
    changed = bool(asked.changes or asked.variables)
    found = bisector.bisect(comparer.result(str(name)), comparer.result(other), changed=changed)
    emit(facts(found), *views(found, str(name), other), as_json=how["as_json"])
    conclude(holds=not found.parted)


def facts(found: Bisected) -> Mapping[str, object]:
    """What was found, for JSON."""
    window = found.window
    return {
        "parted": found.parted,
        "first_step": found.first_step,
        "fields": found.fields,
        "by": found.by,
        "compared": [{"step": step, "equal": equal} for step, equal in found.compared],
        "window": None if window is None else {"begin": window.begin, "stop": window.stop},
        "follows": found.follows,
    }


def views(found: Bisected, name: str, other: str) -> Iterator[View]:
    """What was found, for people."""
    for step, equal in found.compared:
        yield Mark(f"step {step}: {'the same tensors' if equal else 'other tensors'}", Tone.GOOD if equal else Tone.BAD)
    if found.window is not None:
        begin = "the beginning of the segment" if found.window.begin is None else f"step {found.window.begin}"
        yield f"They part after {begin}, by step {found.window.stop}."
        yield f"The recorded code gives here: {found.follows}"
    if not found.parted:
        yield Mark(f"{name} and {other} do not differ, by {found.by}.", Tone.GOOD)
    elif found.first_step is not None:
        fields = ", ".join(found.fields)
        yield Mark(f"First differing step: {found.first_step} ({fields}), by {found.by}.", Tone.BAD)
    else:
        yield Mark(
            f"The step is not named, by {found.by}: tell the settings of {other} with --set or --env.", Tone.DOUBT
        )
