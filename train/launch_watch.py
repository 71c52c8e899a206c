"""The watchdog of a launch: it runs a command, ends it when nothing moves, and starts it again while it makes progress.

Run as ``python -m train.launch_watch --progress FILE PLAN -- COMMAND …``. Progress is a FILE, or files of a pattern
like ``out/*/transcript.jsonl``, whose size changes. A command that shows none for ``start_seconds`` after its start, or
then stands still for ``stall_seconds``, gets SIGTERM, and SIGKILL after ``grace_seconds``. What a command leaves behind
in its process group, stopped processes too, is killed before the next start. It is started again ``restarts`` times at
most, and not when it failed without having moved since its last start, nor when it refused (2) or a claim did not hold
(1): doing the same again would end the same. Nor when the watchdog itself was told to stop: the signal is handed on to
the command, which has ``grace_seconds`` too, and whose status is then the last. Standard library only.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final

STALLED: Final = 3
_FINAL: Final = (0, 1, 2)
_TOLD: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """When to end and when to start again."""

    start_seconds: float
    stall_seconds: float
    grace_seconds: float
    restarts: int
    look_seconds: float = 1.0

    @classmethod
    def read(cls, plan: Path) -> Policy:
        """The policy that a plan states."""
        told = json.loads(plan.read_bytes())["watchdog"]
        start, stall, grace = (float(told[f"{name}_seconds"]) for name in ("start", "stall", "grace"))
        return cls(start_seconds=start, stall_seconds=stall, grace_seconds=grace, restarts=int(told["restarts"]))


def main(arguments: list[str]) -> None:
    """Watch the command that the arguments name."""
    parser = argparse.ArgumentParser(prog="python -m train.launch_watch", description="Watch a command.")
    parser.add_argument("plan", type=Path)
    parser.add_argument("--progress", type=Path, required=True)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    read = parser.parse_args(arguments)
    command = read.command[1:] if read.command[:1] == ["--"] else read.command
    raise SystemExit(watch(command, read.progress, Policy.read(read.plan)))


@dataclass(slots=True)
class _Told:
    """The signal that told the watchdog to stop, 0 for none yet, and the process that it is handed on to."""

    number: int = 0
    at: float = 0.0
    process: subprocess.Popen[bytes] | None = None

    def hear(self, number: int, _: FrameType | None) -> None:
        """The handler."""
        self.at = self.at if self.number else time.monotonic()
        self.number = number
        if self.process is not None:
            _signal(self.process, number)

    def heard(self) -> int:
        """The signal, or 0."""
        return self.number

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Hear signals, from before the first start until after the last end."""
        before = {number: signal.signal(number, self.hear) for number in _TOLD}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def watch(command: list[str], progress: Path, policy: Policy) -> int:
    """Run ``command`` under ``policy``; returns its last status (3 when it stood still)."""
    told = _Told()
    with told.listening():
        for attempt in range(policy.restarts + 1):
            before = _size(progress)
            status = _once(command, progress, policy, told)
            moved = _size(progress) != before
            if told.heard() or status in _FINAL or not moved or attempt == policy.restarts:
                return status
            sys.stderr.write(f"watchdog: ended with {status} after progress; starting again ({attempt + 1})\n")
    return STALLED


def _once(command: list[str], progress: Path, policy: Policy, told: _Told) -> int:
    """One start; none when a signal came before it."""
    if told.heard():
        return 128 + told.heard()
    size = _size(progress)
    process = told.process = subprocess.Popen(command, start_new_session=True)
    if told.heard():
        _signal(process, told.heard())
    try:
        return _ended(process, progress, size, policy, told)
    finally:
        _sweep(process)


def _ended(process: subprocess.Popen[bytes], progress: Path, size: int, policy: Policy, told: _Told) -> int:
    """The status of the command, once it ended or was ended. ``size`` is that of the progress before its start."""
    since, patience = time.monotonic(), policy.start_seconds
    while process.poll() is None:
        time.sleep(policy.look_seconds)
        if told.heard() and time.monotonic() - told.at > policy.grace_seconds:
            _signal(process, signal.SIGKILL)
            process.wait()
        elif _size(progress) != size:
            size, since, patience = _size(progress), time.monotonic(), policy.stall_seconds
        elif time.monotonic() - since > patience:
            sys.stderr.write(f"watchdog: no progress for {patience:.0f} s; ending it\n")
            _end(process, policy)
            return STALLED
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


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


def _sweep(process: subprocess.Popen[bytes]) -> None:
    """Kill what the command left in its group: it would hold devices, ports and files of the next start."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _size(path: Path) -> int:
    """Bytes of the file, or of the files of a pattern; -1 when there is none."""
    found = [path] if path.is_file() else list(Path(path.anchor).glob(str(path.relative_to(path.anchor))))
    return sum(one.stat().st_size for one in found) if found else -1


if __name__ == "__main__":
    main(sys.argv[1:])
