"""Attempts are told by stage, oldest first, and only a process that runs is alive. Fake and folder alike."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from fakes.workshop import FakeAttempts

from registry.adapters.attempts import RunFolder
from registry.core import runlog
from registry.errors import MalformedRecord
from registry.ports import Attempts

STARTED = runlog.Started(
    stage="rung/d32",
    attempt="20261130t120000z-00000001",
    time="2026-11-30T12:00:00.000001Z",
    pid=os.getpid(),
    host=socket.gethostname(),
    argv=("-m", "train.rung", "d32"),
    settings={},
    determinism={},
    resumed=None,
    parent=None,
)
FINISHED = runlog.Finished(time="2026-11-30T12:01:00.000001Z", outcome=runlog.Outcome.COMPLETE, cause=None, step=None)


@dataclass
class Subject:
    """Attempts, and how a stage adds one."""

    attempts: Attempts
    tell: Callable[..., runlog.RunLog]


@pytest.fixture(params=["fake", "folder"])
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Subject:
    fake = FakeAttempts()

    def tell_fake(*events: runlog.Event) -> runlog.RunLog:
        log = runlog.RunLog(events=events, torn=False)
        fake.logs.setdefault(log.started.stage, []).append(log)
        return log

    def tell_folder(*events: runlog.Event) -> runlog.RunLog:
        log = runlog.RunLog(events=events, torn=False)
        write(tmp_path, log.started.stage, log.started.attempt, b"".join(map(runlog.line, events)))
        return log

    if request.param == "fake":
        return Subject(attempts=fake, tell=tell_fake)
    return Subject(attempts=RunFolder(tmp_path), tell=tell_folder)


def write(root: Path, stage: str, attempt: str, data: bytes) -> None:
    folder = root / stage / attempt
    folder.mkdir(parents=True)
    (folder / "run.jsonl").write_bytes(data)


def test_attempts_are_told_oldest_first(subject: Subject) -> None:
    later = subject.tell(replace(STARTED, attempt="20261130t130000z-00000000"))
    early = subject.tell(STARTED, FINISHED)
    subject.tell(replace(STARTED, stage="shards"))
    assert list(subject.attempts.of_stage("rung/d32")) == [early, later]
    assert list(subject.attempts.stages()) == ["rung/d32", "shards"]
    assert list(subject.attempts.of_stage("rung")) == []


def test_nothing_was_attempted(subject: Subject) -> None:
    assert list(subject.attempts.stages()) == []
    assert list(subject.attempts.of_stage("rung/d32")) == []


def test_what_finished_is_not_alive(subject: Subject) -> None:
    assert not subject.attempts.alive(subject.tell(STARTED, FINISHED))


class TestFolder:
    """Logs on disk are hostile, and process ids are used again."""

    @pytest.fixture
    def process(self) -> Iterator[subprocess.Popen]:
        """A process with the command line of a stage."""
        program = "import sys; print(flush=True); sys.stdin.read()"
        with subprocess.Popen(
            [sys.executable, "-c", program, "train.rung"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process:
            process.stdout.readline()
            yield process
            process.stdin.close()

    def started(self, process: subprocess.Popen) -> runlog.Started:
        return replace(STARTED, pid=process.pid, argv=tuple(process.args[1:]))

    def alive(self, root: Path, started: runlog.Started) -> bool:
        return RunFolder(root).alive(runlog.RunLog(events=(started,), torn=False))

    def test_a_running_process_is_alive_until_it_ends(self, tmp_path: Path, process: subprocess.Popen) -> None:
        started = self.started(process)
        assert self.alive(tmp_path, started)
        process.stdin.close()
        process.wait()
        assert not self.alive(tmp_path, started)

    def test_a_zombie_is_not_alive(self, tmp_path: Path, process: subprocess.Popen) -> None:
        started = self.started(process)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not self.alive(tmp_path, started)

    def test_another_process_of_the_same_id_is_not_it(self, tmp_path: Path, process: subprocess.Popen) -> None:
        assert not self.alive(tmp_path, replace(self.started(process), argv=("-m", "train.rung", "d48")))
        assert not self.alive(tmp_path, replace(self.started(process), argv=()))

    def test_a_process_of_another_host_is_not_known_to_run(self, tmp_path: Path, process: subprocess.Popen) -> None:
        assert not self.alive(tmp_path, replace(self.started(process), host="elsewhere"))

    def test_an_impossible_id_is_not_alive(self, tmp_path: Path) -> None:
        assert not self.alive(tmp_path, replace(STARTED, pid=2**40))

    @pytest.mark.parametrize("data", [b"", runlog.line(STARTED)[:40]])
    def test_a_process_that_died_in_its_first_line_left_nothing(self, tmp_path: Path, data: bytes) -> None:
        write(tmp_path, STARTED.stage, STARTED.attempt, data)
        assert list(RunFolder(tmp_path).of_stage(STARTED.stage)) == []

    def test_a_torn_last_line_is_no_event(self, tmp_path: Path) -> None:
        write(tmp_path, STARTED.stage, STARTED.attempt, runlog.line(STARTED) + runlog.line(FINISHED)[:-1])
        [log] = RunFolder(tmp_path).of_stage(STARTED.stage)
        assert log.torn
        assert log.finished is None

    @pytest.mark.parametrize(
        ("data", "step"), [(runlog.mark(130), 130), (b"", None), (b"\0" * 16, None), (runlog.mark(1) * 2, None)]
    )
    def test_the_step_beside_a_log_outlives_a_kill(self, tmp_path: Path, data: bytes, step: int | None) -> None:
        write(tmp_path, STARTED.stage, STARTED.attempt, runlog.line(STARTED))
        (tmp_path / STARTED.stage / STARTED.attempt / runlog.REACHED).write_bytes(data)
        [log] = RunFolder(tmp_path).of_stage(STARTED.stage)
        assert (log.noted, log.last_step, log.kept_step) == (step, step, None)

    @pytest.mark.parametrize("data", [b"\n", b"{}\n", runlog.line(FINISHED), runlog.line(STARTED) * 2])
    def test_a_log_that_cannot_be_read_is_named(self, tmp_path: Path, data: bytes) -> None:
        write(tmp_path, STARTED.stage, STARTED.attempt, data)
        with pytest.raises(MalformedRecord, match=STARTED.attempt):
            RunFolder(tmp_path).of_stage(STARTED.stage)

    @pytest.mark.parametrize(
        ("stage", "attempt"), [("rung/d48", STARTED.attempt), ("rung/d32", "20261130t120000z-00000002")]
    )
    def test_a_log_in_the_place_of_another_is_named(self, tmp_path: Path, stage: str, attempt: str) -> None:
        write(tmp_path, stage, attempt, runlog.line(STARTED))
        with pytest.raises(MalformedRecord, match="tells of the attempt"):
            RunFolder(tmp_path).of_stage(stage)

    def test_a_log_over_the_limit_is_not_read(self, tmp_path: Path) -> None:
        write(tmp_path, STARTED.stage, STARTED.attempt, b"")
        with (tmp_path / STARTED.stage / STARTED.attempt / "run.jsonl").open("r+b") as file:
            file.truncate(runlog.MAXIMUM_BYTES + 1)
        with pytest.raises(MalformedRecord, match="size limit"):
            RunFolder(tmp_path).of_stage(STARTED.stage)
