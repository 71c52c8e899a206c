"""A launch on this machine: its processes, a resume under another number of them, one process alone, and the grade.

Run as ``python -m train.launch_local PLAN --output FOLDER``. The window's first half is trained by all processes, the
second half by ``resume_processes``; then one process trains the whole window from the same begin, and the transcripts
and roots are compared. ``graded.json`` says what holds, and no more. Started again with the same plan and folder, it
keeps what is done and goes on from the last state; ``starts`` tells how often each part was started. Ends with status 1
when nothing holds, 2 when a process refused, 3 when one failed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from registry.core import transcript
from registry.core.launchgrade import Grade, grade
from registry.errors import OutsideFailed, ReckonError, Refused
from train.launch_mesh import AXES
from train.launch_spec import Spec, read_spec
from train.launch_worker import reached

_POLL_SECONDS: Final = 0.1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Some steps by some processes. ``begin`` is a gathered state, None for the plan's own begin."""

    processes: int
    until: int
    begin: Path | None
    output: Path


def main(arguments: list[str]) -> None:
    """Run the launch that the arguments name."""
    parser = argparse.ArgumentParser(prog="python -m train.launch_local", description="A launch on this machine.")
    parser.add_argument("plan", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    read = parser.parse_args(arguments)
    try:
        graded = launch(read_spec(read.plan), read.plan, read.output)
    except ReckonError as error:
        sys.stderr.write(f"launch: {error}\n")
        raise SystemExit(error.exit_code) from error
    sys.stdout.write(json.dumps(graded, sort_keys=True) + "\n")
    raise SystemExit(0 if graded["holds"] else 1)


def launch(spec: Spec, plan: Path, output: Path) -> dict[str, Any]:
    """Both halves, the reference, and the grade."""
    others = int(spec.facts.get("resume_processes") or spec.processes)
    middle = (spec.first_step + spec.last_step + 1) // 2
    halves = middle < spec.last_step and others != spec.processes
    first = Part(
        processes=spec.processes, until=middle if halves else spec.last_step, begin=None, output=output / "first"
    )
    parts = [first]
    if halves:
        begin = first.output / "gathered" / f"step-{middle}"
        parts.append(Part(processes=others, until=spec.last_step, begin=begin, output=output / "resumed"))
    alone = Part(processes=1, until=spec.last_step, begin=None, output=output / "alone")
    for part in (*parts, alone):
        _run(spec, plan, part)
    lines = [line for part in parts for line in _lines(part)]
    graded = grade(lines, _lines(alone), (_root(parts[-1]), _root(alone)))
    starts = {part.output.name: _starts(part) for part in (*parts, alone)}
    told = {**_told(spec, others if halves else spec.processes, middle, graded), "starts": starts}
    (output / "graded.json").write_text(json.dumps(told, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    (output / "transcript.jsonl").write_bytes(b"".join(transcript.line(line) for line in lines))
    return told


def _run(spec: Spec, plan: Path, part: Part) -> None:
    """All processes of a part, until every one ended well; none where they did. Raises ``OutsideFailed`` when one did
    not. What lies there of another plan is removed."""
    own = part.output / "plan.json"
    facts = json.dumps(_facts(spec, json.loads(plan.read_bytes()), part.processes))
    if not own.is_file() or own.read_text(encoding="utf-8") != facts:
        shutil.rmtree(part.output, ignore_errors=True)
        part.output.mkdir(parents=True)
        own.write_text(facts, encoding="utf-8")
    if reached(part.output) == part.until:
        return
    address = f"127.0.0.1:{_free_port()}"
    words = f"launch: steps to {part.until} in {part.processes} process{'es' if part.processes > 1 else ''}"
    sys.stderr.write(f"{words} …\n")
    began, start = time.monotonic(), _starts(part) + 1
    started = [_process(own, part, address, (number, start)) for number in range(part.processes)]
    try:
        _wait(started, part, start)
    finally:
        for process in started:
            if process.poll() is None:
                process.kill()
            process.wait()
    sys.stderr.write(f"{words}: {time.monotonic() - began:.1f} s\n")


def _starts(part: Part) -> int:
    """How often the part was started: every start has logs of its own."""
    return len(list(part.output.glob("process-0.start-*.log")))


def _log(part: Part, number: int, start: int) -> Path:
    return part.output / f"process-{number}.start-{start}.log"


def _process(plan: Path, part: Part, address: str, which: tuple[int, int]) -> subprocess.Popen[bytes]:
    begin = [] if part.begin is None else ["--begin", str(part.begin)]
    where = [
        "--coordinator",
        address,
        "--process",
        str(which[0]),
        "--output",
        str(part.output),
        "--until",
        str(part.until),
    ]
    with _log(part, *which).open("xb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "train.launch_worker", str(plan), *where, *begin],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=os.environ,
        )


def _wait(started: Sequence[subprocess.Popen[bytes]], part: Part, start: int) -> None:
    """One process that fails ends all: the others would wait for it. One that stands still is the watchdog's to end."""
    while not (failed := _failed(started)) and any(process.poll() is None for process in started):
        time.sleep(_POLL_SECONDS)
    if failed:
        number, status = failed[0]
        said = _log(part, number, start).read_text(encoding="utf-8", errors="replace").strip()[-800:]
        kind = Refused if status == Refused.exit_code else OutsideFailed
        raise kind(f"Process {number} of {part.processes} ended with {status}: {said or 'it said nothing'}")


def _failed(started: Sequence[subprocess.Popen[bytes]]) -> list[tuple[int, int]]:
    """Number and status of the processes that ended badly."""
    return [(number, status) for number, process in enumerate(started) if (status := process.poll())]


def _facts(spec: Spec, facts: dict[str, Any], processes: int) -> dict[str, Any]:
    """The plan for another number of processes: each has the plan's devices, over which batches are spread."""
    devices = processes * spec.devices_per_process
    mesh = {**dict.fromkeys(AXES, 1), "data": devices}
    return {**facts, "cluster": {**facts["cluster"], "processes": processes, "devices": devices, "mesh": mesh}}


def _lines(part: Part) -> tuple[transcript.Line, ...]:
    return transcript.parse((part.output / "transcript.jsonl").read_bytes()).lines


def _root(part: Part) -> str:
    return str(json.loads((part.output / "result.json").read_bytes())["root"])


def _told(spec: Spec, others: int, middle: int, graded: Grade) -> dict[str, Any]:
    return {
        "stage": spec.stage,
        "processes": spec.processes,
        "resumed_with": others,
        "resumed_at": middle if others != spec.processes else None,
        **graded.to_json(),
    }


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


if __name__ == "__main__":
    main(sys.argv[1:])
