"""The watchdog of a launch: it runs a command, ends it when nothing moves, and starts it again while it makes progress.

Run as ``python -m train.launch_watch --progress FILE PLAN -- COMMAND …``. Progress is a FILE, or files of a pattern
like ``scratch/*/transcript.jsonl``, whose size changes. A command that
stands still for ``stall_seconds`` gets SIGTERM, and SIGKILL after a while. It is started again ``restarts`` times at
most, and not when it failed without having moved since its last start, nor when it refused (2) or a claim did not hold
(1): doing the same again would end the same. Standard library only.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

STALLED: Final = 3
_GRACE_SECONDS: Final = 600.0
_FINAL: Final = (0, 1, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """When to end and when to start again."""

    stall_seconds: float
    restarts: int
    grace_seconds: float = _GRACE_SECONDS
    look_seconds: float = 1.0


def main(arguments: list[str]) -> None:
    """Watch the command that the arguments name."""
    parser = argparse.ArgumentParser(prog="python -m train.launch_watch", description="Watch a command.")
    parser.add_argument("plan", type=Path)
    parser.add_argument("--progress", type=Path, required=True)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    read = parser.parse_args(arguments)
    told = json.loads(read.plan.read_bytes())["watchdog"]
    policy = Policy(stall_seconds=float(told["stall_seconds"]), restarts=int(told["restarts"]))
    command = read.command[1:] if read.command[:1] == ["--"] else read.command
    raise SystemExit(watch(command, read.progress, policy))


def watch(command: list[str], progress: Path, policy: Policy) -> int:
    """Run ``command`` under ``policy``; returns its last status (3 when it stood still)."""
    for attempt in range(policy.restarts + 1):
        before = _size(progress)
        status = _once(command, progress, policy)
        moved = _size(progress) != before
        if status in _FINAL or not moved or attempt == policy.restarts:
            return status
        sys.stderr.write(f"watchdog: ended with {status} after progress; starting again ({attempt + 1})\n")
    return STALLED


def _once(command: list[str], progress: Path, policy: Policy) -> int:
    """One start. Signals that would end us are handed on."""
    process = subprocess.Popen(command, start_new_session=True)
    before = signal.signal(signal.SIGTERM, lambda number, frame: _signal(process, number))
    try:
        size, since = _size(progress), time.monotonic()
        while process.poll() is None:
            time.sleep(policy.look_seconds)
            if _size(progress) != size:
                size, since = _size(progress), time.monotonic()
            elif time.monotonic() - since > policy.stall_seconds:
                sys.stderr.write(f"watchdog: no progress for {policy.stall_seconds:.0f} s; ending it\n")
                _end(process, policy)
                return STALLED
        return process.returncode if process.returncode >= 0 else 128 - process.returncode
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(process: subprocess.Popen[bytes], policy: Policy) -> None:
    _signal(process, signal.SIGTERM)
    try:
        process.wait(policy.grace_seconds)
    except subprocess.TimeoutExpired:
        _signal(process, signal.SIGKILL)
        process.wait()


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    if process.poll() is None:
        os.killpg(process.pid, number)


def _size(path: Path) -> int:
    """Bytes of the file, or of the files of a pattern; -1 when there is none."""
    found = [path] if path.is_file() else list(Path(path.anchor).glob(str(path.relative_to(path.anchor))))
    return sum(one.stat().st_size for one in found) if found else -1


if __name__ == "__main__":
    main(sys.argv[1:])
