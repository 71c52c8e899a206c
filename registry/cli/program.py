"""``reckon program``: the step of training as a program, its fingerprint, and where it changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from registry.cli import planning, wiring
from registry.cli.options import example, json_option
from registry.cli.programmed import diff_facts, diff_views, facts, moment_facts, moment_views, views
from registry.cli.render import Mark, Tone, View, conclude, emit, talk
from registry.core.program import PLATFORMS, Asked, parse_mesh
from registry.errors import Refused

if TYPE_CHECKING:
    from registry.core.program import Lowered, Programs
    from registry.workflows.program import Programmer

_HERE = "."


@click.command(
    epilog=example(
        "reckon program d48",
        "reckon program d6144 --platform cuda --devices 704 --device-memory 186",
        "reckon program d48 --diff HEAD~5 . --yes",
        "reckon program hero/2 --history v1..HEAD --yes",
    )
)
@click.argument("name", metavar="RUNG")
@click.option("--platform", type=click.Choice(PLATFORMS), help="What to lower for; the run's own by default.")
@click.option("--devices", type=click.IntRange(1, 2**14), help="On how many devices; the run's own by default.")
@click.option("--mesh", metavar="R,D,E,M", help="Sizes of replica_dcn, data, expert and model.")
@click.option(
    "--device-memory",
    type=click.IntRange(1, 2**20),
    metavar="GB",
    help="Refuse a mesh whose devices cannot hold the run.",
)
@click.option("--commit", metavar="C", help="As that commit has it, instead of the working tree.")
@click.option(
    "--diff", nargs=2, metavar="A B", help="Name the operations that changed between two commits; '.' is here."
)
@click.option("--history", metavar="A..B", help="Walk the commits, and list where the program changed.")
@click.option("--text", is_flag=True, help="Print the canonical text that the fingerprint is the SHA-256 of.")
@click.option("--record", is_flag=True, help="Keep records for the executions of RUNG that have none.")
@click.option("--yes", is_flag=True, help="Run the code of other commits than the one that is checked out.")
@json_option
def command(name: str, **how: Any) -> None:
    """Lower the whole training step of RUNG from abstract shapes, and print the fingerprint of its program.

    RUNG is a rung or segment of this archive (d48, hero/2) or a published one (d6144). Names, places in the code,
    function boundaries and the order of independent operations do not change it; every constant, type, sharding and
    order of a sum does. Two commits of --diff with different programs end with status 1.

    Lowering runs code. That of this checkout, as it lies here, runs without asking, as 'dvc repro' would run it: do not
    call this in a checkout whose code you would not run. Other commits (--commit, --diff, --history, --record) need
    --yes, or an entry of 'git config --add reckon.trust COMMIT' that covers them; else the status is 2.
    """
    archive = wiring.root()
    asked = Asked(
        name=name,
        platform=how["platform"],
        devices=how["devices"],
        mesh=None if how["mesh"] is None else parse_mesh(how["mesh"]),
        device_gigabytes=how["device_memory"],
    )
    if sum(bool(how[one]) for one in ("commit", "diff", "history", "record")) > 1:
        raise click.UsageError("Give one of --commit, --diff, --history and --record.")
    work = planning.programmer(archive, talk, anywhere=how["yes"])
    if how["diff"]:
        _diff(work, asked, how)
    elif how["history"]:
        _history(work, asked, how)
    elif how["record"]:
        _record(archive, name, how)
    else:
        _one(work.lower(asked, how["commit"]), planning.programs(archive), how)


def _one(found: Lowered, known: Programs, how: dict[str, Any]) -> None:
    if how["text"]:
        emit({**facts(found, known), "text": found.text}, found.text.rstrip("\n"), as_json=how["as_json"])
    else:
        emit(facts(found, known), *views(found, known), as_json=how["as_json"])


def _diff(work: Programmer, asked: Asked, how: dict[str, Any]) -> None:
    before, after = (None if name == _HERE else name for name in how["diff"])
    done = work.compare(asked, before, after)
    emit(diff_facts(done), *diff_views(done), as_json=how["as_json"])
    conclude(holds=done.same)


def _history(work: Programmer, asked: Asked, how: dict[str, Any]) -> None:
    start, dots, end = how["history"].partition("..")
    if not (start and dots and end) or end.startswith("."):
        raise Refused(f"{how['history']!r} is no range of commits.", remedy="Write it like HEAD~10..HEAD.")
    moments = list(work.history(asked, start, end))
    emit(
        {"name": asked.name, "history": [moment_facts(one) for one in moments]},
        *moment_views(moments),
        as_json=how["as_json"],
    )


def _record(archive: Path, name: str, how: dict[str, Any]) -> None:
    ledger = wiring.ledger(archive)
    stage = name if "/" in name else f"rung/{name}"
    made = planning.record_programs(
        archive, [digest for digest, _ in ledger.executions_of(stage)], talk, anywhere=how["yes"]
    )
    emit(
        {"recorded": [{"record": digest, "program": one} for digest, one in made]}, *_told(made), as_json=how["as_json"]
    )


def _told(made: list[Any]) -> Iterator[View]:
    for digest, one in made:
        yield Mark(f"{one.stage} at {one.commit[:12]}: program {one.program.short} (record {digest.short})", Tone.GOOD)
    if not made:
        yield "Nothing to record: every recipe that was trained from a clean commit has its program."
