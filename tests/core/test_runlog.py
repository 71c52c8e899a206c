"""The run log is read back as it was written, and refuses what a stage cannot have written."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.core import canonical, runlog
from registry.errors import MalformedRecord

STARTED = runlog.Started(
    stage="rung/d32",
    attempt="20261130t150000z-0123abcd",
    time="2026-11-30T15:00:00.000001Z",
    pid=42,
    host="somewhere",
    argv=("python", "-m", "train.rung", "d32"),
    settings={"steps": 10, "rate": "0.003"},
    determinism={"nproc": 2},
    resumed=None,
    parent={"name": "hero/1", "step": 40, "root": "sha256:" + "0" * 64},
)
ENVIRONMENT = runlog.Environment(
    distributions=({"name": "jax", "version": "0.10.2", "record": "sha256:" + "1" * 64},),
    python="3.11.7",
    platform={"machine": "x86_64"},
    accelerator={"kind": "cpu"},
)
CHECKPOINT = runlog.Checkpoint(step=5, location="artifacts/scratch/rung/d32/k/step-5")
INCIDENT = runlog.Incident(incident="nan", first_step=6, last_step=6, text="the loss is NaN")
TRACKER = runlog.Tracker(
    system="wandb", state=runlog.TrackerState.OFFLINE, run_id="abc", location="wandb/x", reason=None
)
FINISHED = runlog.Finished(time="2026-11-30T15:01:00.000001Z", outcome=runlog.Outcome.COMPLETE, cause=None, step=10)
ALL = (STARTED, ENVIRONMENT, TRACKER, CHECKPOINT, INCIDENT, FINISHED)


def log(*events: runlog.Event) -> bytes:
    return b"".join(runlog.line(event) for event in events)


def altered(event: runlog.Event, **changes: object) -> bytes:
    facts = {**json.loads(runlog.line(event)), **changes}
    return canonical.encode({key: value for key, value in facts.items() if value != "DROP"}) + b"\n"


def test_every_event_is_read_back_as_it_was_written() -> None:
    read = runlog.parse(log(*ALL))
    assert read.events == ALL
    assert not read.torn
    assert log(*read.events) == log(*ALL)


def test_unknown_fields_are_kept_and_written_back() -> None:
    data = altered(STARTED, later="field")
    read = runlog.parse(data)
    assert read.started.unknown == {"later": "field"}
    assert log(*read.events) == data


@given(cut=st.integers(min_value=0, max_value=len(log(*ALL))))
def test_a_log_cut_anywhere_is_a_prefix_or_refused(cut: int) -> None:
    data = log(*ALL)[:cut]
    if cut < len(log(STARTED)):
        with pytest.raises(MalformedRecord):
            runlog.parse(data)
        return
    read = runlog.parse(data)
    assert read.events == ALL[: len(read.events)]
    assert read.torn == (not data.endswith(b"\n"))


def test_an_interrupted_attempt_tells_its_last_checkpoint() -> None:
    read = runlog.parse(log(STARTED, CHECKPOINT))
    assert read.finished is None
    assert read.last_step == 5
    assert runlog.parse(log(STARTED)).last_step is None


def test_a_finished_attempt_tells_its_own_last_step() -> None:
    assert runlog.parse(log(*ALL)).last_step == 10
    assert replace(runlog.parse(log(*ALL)), noted=11).last_step == 10


def test_a_noted_step_is_later_than_the_checkpoint_that_is_kept() -> None:
    read = replace(runlog.parse(log(STARTED, CHECKPOINT)), noted=8)
    assert (read.last_step, read.kept_step) == (8, 5)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "begin with"),
        (log(ENVIRONMENT), "begin with"),
        (log(STARTED, STARTED), "two 'started'"),
        (log(STARTED, FINISHED, CHECKPOINT), "after 'finished'"),
        (log(STARTED, FINISHED) + b"{", "after 'finished'"),
        (log(STARTED) + b'{"event": "checkpoint"}\n', "Line 2"),
        (log(STARTED) + b'{"event":"party"}\n', "not known"),
        (log(STARTED) + b"\n", "Line 2"),
        (altered(STARTED, stage="../etc"), "stage name"),
        (altered(STARTED, attempt="yesterday"), "attempt name"),
        (altered(STARTED, pid=True), "pid"),
        (altered(STARTED, argv="ls"), "argv"),
        (altered(STARTED, argv=[1]), "argv"),
        (altered(STARTED, host="DROP"), "lacks host"),
        (altered(STARTED, resumed={"attempt": "x"}), "resumed"),
        (altered(STARTED, parent={"name": "hero/1", "step": -1, "root": "sha256:" + "0" * 64}), "parent.step"),
        (log(STARTED) + altered(CHECKPOINT, location="a/../../b"), "relative path"),
        (log(STARTED) + altered(CHECKPOINT, location="/etc"), "relative path"),
        (log(STARTED) + altered(INCIDENT, last_step=1), "before step"),
        (log(STARTED) + altered(TRACKER, state="fine"), "state"),
        (log(STARTED) + altered(FINISHED, outcome="failed"), "cause"),
        (log(STARTED) + altered(FINISHED, step="ten"), "step"),
    ],
)
def test_what_no_stage_can_have_written_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(MalformedRecord, match=words):
        runlog.parse(data)


def test_limits_are_checked_before_the_bytes_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runlog, "MAXIMUM_BYTES", 10)
    with pytest.raises(MalformedRecord, match="over the limit"):
        runlog.parse(log(STARTED))
    monkeypatch.undo()
    monkeypatch.setattr(runlog, "MAXIMUM_LINE_BYTES", 10)
    with pytest.raises(MalformedRecord, match="over 10 bytes"):
        runlog.parse(log(STARTED))
    monkeypatch.undo()
    monkeypatch.setattr(runlog, "MAXIMUM_EVENTS", 2)
    with pytest.raises(MalformedRecord, match="more than 2"):
        runlog.parse(log(STARTED, CHECKPOINT, CHECKPOINT))


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        runlog.parse(log(STARTED) + data)
    except MalformedRecord:
        return
