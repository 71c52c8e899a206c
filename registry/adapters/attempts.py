"""What stage processes left under ``artifacts/runs/``, and whether one of them still runs.

Run logs are hostile bytes: ``registry.core.runlog`` reads them. A log that cannot be read is named, not skipped in
silence, and so is one that lies under another stage or attempt than it tells of. A process that died before its first
line was whole left nothing to tell.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from registry.core import runlog
from registry.core.runlog import RunLog
from registry.errors import MalformedRecord

_LOG = "run.jsonl"


class RunFolder:
    """Attempts by stage: ``<root>/<stage>/<attempt>/run.jsonl``."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def stages(self) -> Iterator[str]:
        """Stages that were ever attempted here, sorted."""
        found = {path.parent.parent.relative_to(self._root).as_posix() for path in self._root.rglob(_LOG)}
        yield from sorted(found - {"."})

    def of_stage(self, stage: str) -> Sequence[RunLog]:
        """All attempts of a stage, oldest first. Raises ``MalformedRecord`` naming the log that cannot be read."""
        logs = (_read(path, stage) for path in sorted((self._root / stage).glob(f"*/{_LOG}")))
        return tuple(log for log in logs if log is not None)

    def folder(self, log: RunLog) -> Path:
        """Where the attempt's other files lie."""
        return self._root / log.started.stage / log.started.attempt

    def alive(self, log: RunLog) -> bool:
        """Whether the attempt's process still runs on this host: its id is taken, by a process of its command line."""
        if log.finished is not None or log.started.host != socket.gethostname():
            return False
        try:
            os.kill(log.started.pid, 0)
            command = Path(f"/proc/{log.started.pid}/cmdline").read_bytes()
        except (ProcessLookupError, FileNotFoundError, OverflowError):
            return False
        except PermissionError:
            return True
        arguments = [os.fsencode(argument) for argument in log.started.argv]
        return bool(arguments) and command.split(b"\0")[:-1][-len(arguments) :] == arguments


def _read(path: Path, stage: str) -> RunLog | None:
    """The log in a file, or None when its first line was torn."""
    if path.stat().st_size > runlog.MAXIMUM_BYTES:
        raise _malformed(path, "it is over the size limit.")
    data = path.read_bytes()
    if b"\n" not in data:
        return None
    try:
        log = runlog.parse(data)
    except MalformedRecord as error:
        raise _malformed(path, error.message) from error
    if (log.started.stage, log.started.attempt) != (stage, path.parent.name):
        raise _malformed(path, f"it tells of the attempt {log.started.attempt} of {log.started.stage}.")
    return replace(log, noted=_noted(path.parent / runlog.REACHED))


def _noted(path: Path) -> int | None:
    """The step that the process noted last, if it noted any."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return runlog.marked(file.read(runlog.MARK_BYTES + 1))


def _malformed(path: Path, reason: str) -> MalformedRecord:
    return MalformedRecord(
        f"The run log of attempt {path.parent.name} is malformed: {reason}",
        remedy="Move that folder out of artifacts/runs/ and keep it as evidence.",
    )
