"""``reckon plan``: a launch bundle for a rung, a segment or a window of steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from registry.cli import planning, wiring
from registry.cli.options import example, json_option
from registry.cli.render import Fields, Mark, Tone, conclude, emit
from registry.cli.words import amount
from registry.core.launch import Launch, Quotas, Target
from registry.errors import Refused


@click.command(
    epilog=example(
        "reckon plan d6144 --target slurm -o launch/",
        "reckon plan d6144 --target kubernetes --disk-quota 60000000000000 -o launch/",
        "reckon plan d32 --target local --processes 2 --resume-with 1 --window 0:20 -o launch/",
    )
)
@click.argument("name")
@click.option("--target", type=click.Choice([one.value for one in Target]), required=True, help="Where it shall start.")
@click.option("--processes", type=click.IntRange(1, 64), default=1, show_default=True, help="Of a local launch.")
@click.option(
    "--resume-with", type=click.IntRange(1, 64), help="Resume a local launch half-way with so many processes."
)
@click.option("--devices", type=click.IntRange(1, 2**14), help="Of a cluster; the published number by default.")
@click.option("--window", metavar="A:B", help="Only the steps after A up to B, from the checkpoint of A.")
@click.option("--disk-quota", type=click.IntRange(0), metavar="BYTES", help="What may be written.")
@click.option("--object-quota", type=click.IntRange(0), metavar="N", help="How many objects may be written.")
@click.option("--lower/--no-lower", default=True, help="Lower the program: its fingerprint and exact sizes.")
@click.option("-o", "--output", type=click.Path(file_okay=False, path_type=Path), help="Folder of the bundle, new.")
@json_option
def command(name: str, target: str, output: Path | None, **how: Any) -> None:
    """Write what it takes to launch NAME again: plan, scripts, container, environment, ranks, preflight and closing.

    NAME is a rung or segment of this archive, or a published rung (d768 … d6144). Without -o it only says what it would
    write. Ends with status 1 when the forecast breaks a stated quota; the bundle is written all the same.

    Lowering runs the code of this checkout as it lies here, without asking, as 'dvc repro' would; --no-lower runs none.
    """
    from registry.workflows.plan import Request

    if output is not None and output.exists() and any(output.iterdir()):
        raise Refused(f"{output} is not empty.", remedy="Name a new folder.")
    request = Request(
        name=name,
        target=Target(target),
        processes=how["processes"],
        devices=how["devices"],
        resume_processes=how["resume_with"],
        window=None if how["window"] is None else _window(how["window"]),
        quotas=Quotas(disk_bytes=how["disk_quota"], objects=how["object_quota"]),
    )
    launch = planning.planner(wiring.root(), lower=how["lower"]).plan(request)
    written = {} if output is None else planning.write_bundle(output, launch)
    over = launch.forecast.exceeded(launch.quotas)
    facts = {**launch.to_json(), "files": sorted(written), "folder": output, "over_quota": over}
    emit(facts, *_views(launch, output, over), as_json=how["as_json"])
    conclude(holds=not over)


def _window(text: str) -> tuple[int, int]:
    first, _, last = text.partition(":")
    if not all(part.isascii() and part.isdecimal() and len(part) < 12 for part in (first, last)):
        raise Refused(f"--window is {text!r}, not two steps.", remedy="Write it like 450:470.")
    return int(first), int(last)


def _views(launch: Launch, output: Path | None, over: list[str]) -> list[Any]:
    told, window, cluster = launch.forecast, launch.window, launch.cluster
    mesh = " × ".join(f"{axis} {size}" for axis, size in cluster.mesh.items())
    parent = "fresh parameters" if launch.parent is None else f"{launch.parent['name']}, root {launch.parent['root']}"
    values = {
        "run": f"{launch.stage}, steps {window.first} to {window.last}",
        "code": f"{launch.commit[:12]}, lock {launch.lock[:12]}",
        "program": launch.program or "not lowered",
        "devices": f"{cluster.devices} ({launch.platform}) in {cluster.processes} processes: {mesh}",
        "begins from": parent,
        "data": ", ".join(str(one["name"]) for one in launch.inputs) or "none is here",
        "checkpoint": f"{amount(told.checkpoint_bytes)} in {told.checkpoint_objects} objects, {told.kept} stay",
        "at most": f"{amount(told.total_bytes)}, {told.total_objects} objects",
        "bundle": "not written; give -o" if output is None else str(output),
    }
    if told.device_bytes is not None:
        held = ", ".join(f"{name.replace('_', ' ')} {amount(size)}" for name, size in told.device_bytes.items())
        values["on each device"] = f"{amount(sum(told.device_bytes.values()))}: {held}"
    if launch.told:
        values["told by others"] = "; ".join(launch.told)
    marks = [Mark(text, Tone.BAD) for text in over]
    lacks = [
        Mark(f"Lacking, so that it cannot start: {one['name']} ({one['why']}).", Tone.DOUBT) for one in launch.lacking
    ]
    return [Fields(values=values), *lacks, *marks]
