"""The transcript while it is written: nothing is lost by a kill, and a resume cuts exactly to its state's step."""

from __future__ import annotations

from pathlib import Path

import pytest

from registry.core import transcript
from registry.core.transcript import Line
from registry.errors import DoesNotHold, MalformedRecord
from train.transcribing import open_transcript


def line(step: int) -> Line:
    return Line(step=step, loss=step, gradient_norm=step, order=f"{step:064x}", state=f"{step:016x}")


def written(path: Path, first: int, last: int, torn: bytes = b"") -> None:
    path.write_bytes(b"".join(transcript.line(line(step)) for step in range(first, last + 1)) + torn)


def test_lines_are_there_without_closing(tmp_path: Path) -> None:
    writer, reached = open_transcript(tmp_path / "transcript.jsonl", step=0, before=None)
    writer.write(line(1))
    writer.write(line(2))
    assert transcript.parse((tmp_path / "transcript.jsonl").read_bytes()).lines == (line(1), line(2))
    assert (writer.last, reached) == (line(2), 0)
    writer.close()


def test_a_resume_keeps_the_steps_of_its_state_and_tells_what_was_reached(tmp_path: Path) -> None:
    path = tmp_path / "transcript.jsonl"
    written(path, 1, 9, torn=b'{"gradient')
    writer, reached = open_transcript(path, step=6, before=None)
    assert (writer.last, reached) == (line(6), 9)
    writer.write(line(7))
    writer.close()
    assert transcript.parse(path.read_bytes()).lines == tuple(line(step) for step in range(1, 8))


def test_a_segment_begins_after_its_parent(tmp_path: Path) -> None:
    path = tmp_path / "transcript.jsonl"
    writer, reached = open_transcript(path, step=4, before=line(4))
    assert (writer.last, reached) == (line(4), 4)
    writer.write(line(5))
    writer.write(line(6))
    writer.close()
    writer, reached = open_transcript(path, step=5, before=line(4))
    assert (writer.last, reached) == (line(5), 6)
    writer.close()
    writer, _ = open_transcript(path, step=4, before=line(4))
    assert path.read_bytes() == b"", "lines of steps after the parent's are done again"
    writer.close()


@pytest.mark.parametrize(("first", "last", "step"), [(1, 4, 6), (3, 9, 6)])
def test_a_transcript_without_the_states_step_is_refused(tmp_path: Path, first: int, last: int, step: int) -> None:
    written(tmp_path / "transcript.jsonl", first, last)
    with pytest.raises(DoesNotHold, match=f"state is of step {step}"):
        open_transcript(tmp_path / "transcript.jsonl", step=step, before=None)


def test_no_transcript_at_all_is_refused_when_there_should_be_one(tmp_path: Path) -> None:
    with pytest.raises(DoesNotHold):
        open_transcript(tmp_path / "transcript.jsonl", step=3, before=None)


def test_a_damaged_transcript_is_refused(tmp_path: Path) -> None:
    (tmp_path / "transcript.jsonl").write_bytes(b"{}\n")
    with pytest.raises(MalformedRecord):
        open_transcript(tmp_path / "transcript.jsonl", step=1, before=None)
