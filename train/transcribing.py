"""The transcript of a run while it is written: appended line by line, cut back when a run resumes.

Every line reaches the system when it is written, and the disk whenever a state is kept. Refuses to go on from a
transcript that does not reach the step of the state.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO

from registry.core import transcript
from registry.core.transcript import Line
from registry.errors import DoesNotHold


class TranscriptWriter:
    """Appends lines to ``path``. ``last`` is the line before the next one, or None at the beginning of a run."""

    def __init__(self, path: Path, last: Line | None) -> None:
        self._file: IO[bytes] = path.open("ab")
        self.last = last

    def write(self, line: Line) -> None:
        """Append a line; a kill does not lose it when this returns."""
        self._file.write(transcript.line(line))
        self._file.flush()
        self.last = line

    def sync(self) -> None:
        """Make all lines durable: a power cut does not lose them when this returns."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Make all lines durable and close the file."""
        self.sync()
        self._file.close()


def open_transcript(path: Path, *, step: int, before: Line | None) -> tuple[TranscriptWriter, int]:
    """Open the transcript at ``path`` to go on after ``step``, and the last step that it told before it was cut.

    ``before`` is the parent's last line, None at the beginning of a run. Raises ``DoesNotHold`` when the file does not
    reach ``step``.
    """
    found = transcript.parse(path.read_bytes()) if path.is_file() else transcript.Transcript(lines=())
    start = 0 if before is None else before.step
    if step == start:
        kept: tuple[Line, ...] = ()
    else:
        if found.at(step) is None or found.first != start + 1:
            raise DoesNotHold(
                f"The transcript tells steps {found.first} to {found.last}, but the state is of step {step}.",
                remedy="Remove the stage's scratch folder to begin anew.",
            )
        kept = found.lines[: step - start]
    aside = path.with_name(f".{path.name}.partial")
    aside.write_bytes(b"".join(transcript.line(line) for line in kept))
    aside.replace(path)
    reached = found.last if found.last is not None else step
    return TranscriptWriter(path, kept[-1] if kept else before), max(reached, step)
