"""The README of a launch bundle: what it is, how it is started, what it will write, and what it lacks.

Refuses nothing: what is lacking is said first, in words, with how it would be given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from textwrap import fill
from typing import Final

from registry.core.canonical import Json
from registry.core.launch import WATCHDOG, Launch, Target

_START: Final = {
    Target.SLURM: """\
   `RECKON_BUNDLE="$bundle" sbatch "$bundle/launch.sbatch"`, in the same folder. All nodes have to see both folders.""",
    Target.KUBERNETES: """\
   `kubectl apply -f "$bundle/job.json"`, with two words replaced in it: `IMAGE` by the image that was built from the
   `Containerfile`, `CLAIM` by a claim that all pods can write (ReadWriteMany) and whose top is the run's folder.""",
    Target.LOCAL: """\
   `"$bundle/run.sh"`, in the same folder. It calls `preflight.sh` itself.{results}""",
}
_AGAIN: Final = {
    Target.SLURM: "The scheduler starts the job again when a node is lost (`--requeue`).",
    Target.KUBERNETES: "The job starts what the watchdog gave up again in a new pod, unless the status is 1 or 2.",
    Target.LOCAL: "",
}


def readme(launch: Launch) -> str:
    """The text."""
    window = launch.window
    mesh = " × ".join(f"{axis} {size}" for axis, size in launch.cluster.mesh.items())
    processes = f"{launch.cluster.processes} process{'es' if launch.cluster.processes > 1 else ''}"
    return f"""\
# Launch of {launch.name}
{_lacking(launch)}
Steps {window.first} to {window.last} of `{launch.stage}` at commit `{launch.commit}`,
on {launch.cluster.devices} devices in {processes} ({mesh}).
`plan.json` has every fact; the other files are made from it. Below, `$bundle` is this folder.

1. `"$bundle/pull.sh"`, in the folder that the run is to live in (new, or a clone): code, environment by lock, data and
   parent by digest.{_clone(launch)}
2. `"$bundle/preflight.sh"`, there, on every node: commit, lock, wheels, device kind, driver, clock, disk, inputs, and a
   rehearsal of restoring. It ends with 0 when all holds, 1 when something does not, 2 when an input is lacking.
3. Start:
{_start(launch)}
4. `close.sh STATUS` writes down how the run ended; the scripts call it themselves.

{_watchdog(launch)}

{_forecast(launch)}
{_filled(f"Retention: {launch.retention}.")}
"""


def _start(launch: Launch) -> str:
    results = (
        "\n   Results come to `out/` in the bundle's folder; called again it goes on, without `out/` it begins anew."
    )
    return _START[launch.target].format(results="" if launch.recorded else results)


def _clone(launch: Launch) -> str:
    if launch.origin is not None:
        return ""
    return " No address of the code is on record: begin with a clone of it."


def _watchdog(launch: Launch) -> str:
    start, stall, grace, restarts = (
        WATCHDOG[name] for name in ("start_seconds", "stall_seconds", "grace_seconds", "restarts")
    )
    return _filled(
        f"A watchdog (`python -m train.launch_watch`) ends what shows no step for {start} s after its start or for "
        f"{stall} s between two, with {grace} s to end by itself, and starts it again from its last checkpoint: "
        f"{restarts} times at most, only while it makes progress, never after status 1 (does not hold) or 2 (refused). "
        + _AGAIN[launch.target]
    )


def _forecast(launch: Launch) -> str:
    told = launch.forecast
    over = told.exceeded(launch.quotas)
    how = "from its tensors" if told.exact else "estimated from the parameters"
    often = "" if told.copies == 1 else f" It is written {told.copies} times: whole and as shards, each run."
    held = ", ".join(f"{size} bytes of {name.replace('_', ' ')}" for name, size in (told.device_bytes or {}).items())
    device = f" Each device holds {held}, and activations beside." if held else ""
    return _filled(
        f"A checkpoint takes {told.checkpoint_bytes} bytes ({how}) in about {told.checkpoint_objects} objects; "
        f"{told.kept} stay.{often} In all at most {told.total_bytes} bytes and {told.total_objects} objects. "
        f"{' '.join(over) if over else 'No stated quota is broken.'}{device} "
        + (f"Others told of it: {'; '.join(launch.told)}." if launch.told else "")
    )


def _filled(text: str) -> str:
    return fill(text.strip(), 120, break_long_words=False, break_on_hyphens=False)


def _lacking(launch: Launch) -> str:
    if not launch.lacking:
        return ""
    listed = "\n".join(line for one in launch.lacking for line in _one(one))
    return f"""
**This bundle cannot start as it is: an input of its run is not here.** It says how the run is laid out, what it would
write, and which program it is; `preflight.sh` and `pull.sh` end with status 2 (refused), so nothing starts. Lacking:

{listed}
"""


def _one(one: Mapping[str, Json]) -> Iterator[str]:
    told = one["told"]
    listed = f"Told of it: {'; '.join(map(str, told))}. " if isinstance(told, list) and told else ""
    text = (
        f"- {one['what']} `{one['name']}`: {one['digest'] or 'no digest is told'}; {one['why']}. {listed}{one['give']}"
    )
    yield _filled(text).replace("\n", "\n  ")
