"""Our history holds every number exactly, and another tracker's fault is told once and stops nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import wandb
from levanter.tracker.tracker import NoopTracker, TrackerConfig

from registry.core import runlog
from registry.core.runlog import TrackerState
from registry.errors import MalformedRecord
from train.attempt import Attempt
from train.history import HistoryConfig, HistoryTracker, cut, write_history
from train.tracking import Guarded, Trackers

pytestmark = pytest.mark.slow


class Failing(NoopTracker):
    """A tracker that works for a while."""

    name = "failing"

    def __init__(self, good: int) -> None:
        self.good = good
        self.calls = 0

    def log(self, metrics: Mapping[str, Any], *, step: int | None, commit: bool | None = None) -> None:
        self.calls += 1
        if self.calls > self.good:
            raise ConnectionError("the service went away")


@pytest.fixture
def attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Attempt:
    monkeypatch.chdir(tmp_path)
    started = Attempt("rung/d16")
    started.start({})
    return started


@pytest.fixture
def trackers(attempt: Attempt, monkeypatch: pytest.MonkeyPatch) -> Iterator[Trackers]:
    monkeypatch.setenv("WANDB_MODE", "offline")
    for name in ("WANDB_DIR", "WANDB_DATA_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_CONSOLE"):
        monkeypatch.setenv(name, "")
    found = Trackers(attempt, attempt.folder / "metrics.jsonl", {"rate": "1"}, "rung/d16")
    yield found
    found.finish()


def told(attempt: Attempt) -> list[tuple[str, TrackerState]]:
    log = runlog.parse((attempt.folder / "run.jsonl").read_bytes())
    return [(one.system, one.state) for one in log.of(runlog.Tracker)]


def rows(path: Path) -> list[tuple[int, str, float]]:
    return [(row["step"], row["metric"], row["value"]) for row in pq.read_table(path).to_pylist()]


def test_every_bit_of_a_number_comes_back(tmp_path: Path) -> None:
    tracker = HistoryTracker(tmp_path / "metrics.jsonl")
    values = {"a": 0.1 + 0.2, "b": -0.0, "c": 5e-324, "d": 1.7976931348623157e308, "e": math.inf}
    tracker.log(values, step=1)
    tracker.log({"a": 1.0}, step=2)
    tracker.log({"late": 2.0}, step=2)
    tracker.finish()
    write_history(tmp_path / "metrics.jsonl", tmp_path / "history.parquet")
    found = rows(tmp_path / "history.parquet")
    assert found == [*((1, name, value) for name, value in values.items()), (2, "a", 1.0), (2, "late", 2.0)]
    assert math.copysign(1, found[1][2]) == -1
    first = (tmp_path / "history.parquet").read_bytes()
    write_history(tmp_path / "metrics.jsonl", tmp_path / "history.parquet")
    assert (tmp_path / "history.parquet").read_bytes() == first


def test_a_resume_cuts_the_lines_of_later_steps_and_the_torn_one(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    tracker = HistoryTracker(path)
    for step in range(1, 6):
        tracker.log({"loss": float(step)}, step=step)
    tracker.finish()
    with path.open("ab") as file:
        file.write(b'{"metrics": {"lo')
    cut(path, 3)
    tracker = HistoryTracker(path)
    tracker.log({"loss": 40.0}, step=4)
    tracker.finish()
    write_history(path, tmp_path / "history.parquet")
    assert [(step, value) for step, _, value in rows(tmp_path / "history.parquet")] == [
        (1, 1.0),
        (2, 2.0),
        (3, 3.0),
        (4, 40.0),
    ]
    cut(tmp_path / "none.jsonl", 3)
    assert (tmp_path / "none.jsonl").read_bytes() == b""


@pytest.mark.parametrize("line", [b"nonsense\n", b"[]\n", b'{"metrics": {}}\n', b'{"step": "one", "metrics": {}}\n'])
def test_damaged_lines_are_refused(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "metrics.jsonl").write_bytes(line)
    with pytest.raises(MalformedRecord, match="line of metrics"):
        cut(tmp_path / "metrics.jsonl", 3)


def test_it_is_a_tracker_that_levanters_configuration_knows(tmp_path: Path) -> None:
    assert TrackerConfig.get_choice_class("history") is HistoryConfig
    tracker = HistoryConfig(path=tmp_path / "metrics.jsonl").init("run")
    assert isinstance(tracker, HistoryTracker)
    tracker.finish()


def test_a_fault_is_heard_once_and_the_tracker_rests() -> None:
    heard: list[BaseException] = []
    inner = Failing(good=2)
    guarded = Guarded(inner, heard.append)
    for step in range(6):
        guarded.log({"loss": 1.0}, step=step)
    guarded.log_summary({"loss": 1.0})
    guarded.log_artifact("x", name="y", type="z")
    guarded.log_hyperparameters({"rate": 1.0})
    guarded.finish()
    assert inner.calls == 3
    assert [str(one) for one in heard] == ["the service went away"]


def test_a_completed_step_is_noted_beside_the_log(attempt: Attempt) -> None:
    for step in (9, 10):
        attempt.reach(step)
        assert runlog.marked((attempt.folder / runlog.REACHED).read_bytes()) == step


def test_wandb_lies_offline_in_the_attempts_folder(attempt: Attempt, trackers: Trackers) -> None:
    trackers.log({"loss": 1.5}, 1)
    trackers.log_clocked({"throughput/step_seconds": 0.1}, 1)
    trackers.finish()
    assert told(attempt) == [("history", TrackerState.OK), ("wandb", TrackerState.OFFLINE)]
    log = runlog.parse((attempt.folder / "run.jsonl").read_bytes())
    event = log.of(runlog.Tracker)[1]
    assert event.location is not None
    assert event.run_id is not None
    [written] = (attempt.folder / event.location).glob("*.wandb")
    assert written.stat().st_size > 0
    assert sorted(path.name for path in Path().iterdir()) == ["artifacts"], "nothing beside the attempt"
    write_history(attempt.folder / "metrics.jsonl", attempt.folder / "history.parquet")
    assert rows(attempt.folder / "history.parquet") == [(1, "loss", 1.5)], "no clock in our history"


def test_a_wandb_that_dies_is_told_and_history_goes_on(
    attempt: Attempt, trackers: Trackers, monkeypatch: pytest.MonkeyPatch
) -> None:
    trackers.log({"loss": 1.0}, 1)

    def gone(*arguments: object, **named: object) -> None:
        raise wandb.Error("the service process is gone")

    monkeypatch.setattr(wandb.run, "log", gone)
    trackers.log({"loss": 2.0}, 2)
    trackers.log({"loss": 3.0}, 3)
    assert told(attempt)[-1] == ("wandb", TrackerState.FAILED)
    assert len(told(attempt)) == 3
    trackers.history.sync()
    write_history(attempt.folder / "metrics.jsonl", attempt.folder / "history.parquet")
    assert [step for step, _, _ in rows(attempt.folder / "history.parquet")] == [1, 2, 3]


def test_our_own_history_may_not_fail_in_silence(trackers: Trackers) -> None:
    trackers.history.finish()
    with pytest.raises(ValueError, match="closed"):
        trackers.log({"loss": 1.0}, 1)
