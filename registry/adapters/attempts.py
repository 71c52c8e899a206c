"""What stage processes left under ``artifacts/runs/``, and whether one of them still runs.

Run logs are hostile bytes: ``registry.core.runlog`` reads them. A log that cannot be read is named, not skipped in
silence.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

from registry.core import runlog
from registry.core.runlog import RunLog
from registry.errors import MalformedRecord


class RunFolder:
    """Attempts by stage: ``<root>/<stage>/<attempt>/run.jsonl``."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def stages(self) -> Iterator[str]:
        """Stages that were ever attempted here, sorted."""
        found = {path.parent.parent.relative_to(self._root).as_posix() for path in self._root.rglob("run.jsonl")}
        yield from sorted(found)

    def of_stage(self, stage: str) -> Sequence[RunLog]:
        """All attempts of a stage, oldest first. Raises ``MalformedRecord`` naming the log that cannot be read."""
        return tuple(_read(path) for path in sorted((self._root / stage).glob("*/run.jsonl")) if path.stat().st_size)

    def folder(self, log: RunLog) -> Path:
        """Where the attempt's other files lie."""
        return self._root / log.started.stage / log.started.attempt

    def alive(self, log: RunLog) -> bool:
        """Whether the attempt's process still runs on this host."""
        if log.finished is not None or log.started.host != socket.gethostname():
            return False
        try:
            os.kill(log.started.pid, 0)
            command = Path(f"/proc/{log.started.pid}/cmdline").read_bytes()
        except ProcessLookupError:
            return False
        except (PermissionError, FileNotFoundError):
            return True
        return b"train." in command


def _read(path: Path) -> RunLog:
    if path.stat().st_size > runlog.MAXIMUM_BYTES:
        raise MalformedRecord(f"The run log of {path.parent.name} is over the size limit.")
    try:
        return runlog.parse(path.read_bytes())
    except MalformedRecord as error:
        raise MalformedRecord(
            f"The run log of attempt {path.parent.name} is malformed: {error.message}",
            remedy="Move that folder out of artifacts/runs/ and keep it as evidence.",
        ) from error
