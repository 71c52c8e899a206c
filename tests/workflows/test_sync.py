"""Publishing: nothing twice, nothing lost while a tracker is down, a pointer record for what happened."""

from dataclasses import replace

import pytest
from fakes.archives import POINTS, STAGE, Archive, history
from fakes.trackers import FakeTracker

from registry.adapters.host import LocalHost
from registry.core.digests import sha256
from registry.core.history import compare
from registry.core.pointers import PointerState
from registry.core.records import Outcome
from registry.errors import DoesNotHold, OutsideFailed, Unreachable
from registry.workflows.sync import Syncer, history_of


@pytest.fixture
def archive(tmp_path):
    return Archive(root=tmp_path)


@pytest.fixture
def tracker():
    return FakeTracker()


@pytest.fixture
def sync(archive, tracker):
    def call(*executions, recheck=False):
        syncer = Syncer(
            tracker=tracker,
            records=archive.records,
            tables=archive.tables,
            histories=archive.histories,
            host=LocalHost(),
        )
        ledger = archive.ledger
        return syncer.sync(ledger, archive.pointers, executions or ledger.executions, recheck=recheck)

    return call


def test_every_execution_gets_a_run_and_a_pointer(archive, tracker, sync):
    executions = {archive.execution(1), archive.execution(2, Outcome.FAILED), archive.execution(3, Outcome.INTERRUPTED)}
    done = sync()
    assert done.done
    assert [one.attempt[-1] for one in done.synced] == ["1", "2", "3"]
    assert set(tracker.reports) == executions
    pointers = archive.pointers
    assert {one.execution for one in pointers.readable} == executions
    for execution in executions:
        assert pointers.current(execution, "fake").published == tracker.find(execution)


def test_the_tracker_is_told_of_the_whole_history(archive, tracker, sync):
    execution = archive.execution(1)
    (done,) = sync().synced
    assert done.pointer.points == len(POINTS)
    assert compare(history(), tracker.read_history(done.pointer.run_id).history) == ()
    assert [one.checkpoint for one in done.pointer.models] == [f"{STAGE}@step-2", f"{STAGE}@step-4"]
    assert tracker.reports[execution].datasets[0].name == "tokens/code"


def test_a_second_call_does_nothing(archive, tracker, sync):
    archive.execution(1)
    sync()
    again = sync()
    assert (again.synced, again.waiting, again.done) == ((), 0, True)
    assert tracker.published == 1
    assert len(archive.pointers.readable) == 1


def test_only_what_is_asked_for_is_told(archive, tracker, sync):
    first, _ = archive.execution(1), archive.execution(2)
    sync(first, sha256(b"no execution"))
    assert set(tracker.reports) == {first}


def test_nothing_is_lost_while_the_tracker_is_down(archive, tracker, sync):
    executions = {archive.execution(number) for number in (1, 2, 3)}
    tracker.broken = Unreachable("It does not answer at http://user:secret@host/ for '/srv/me'.")
    down = sync()
    assert ([one.pointer.state for one in down.synced], down.waiting) == ([PointerState.FAILED], 2)
    assert down.synced[0].pointer.reason == "It does not answer at http://host/ for '<path>'."
    assert not down.done
    tracker.broken = None
    assert sync().done
    assert set(tracker.reports) == executions
    pointers = archive.pointers
    assert all(pointers.current(execution, "fake") for execution in executions)


def test_a_tracker_that_is_down_for_long_is_written_down_once(archive, tracker, sync):
    archive.execution(1)
    tracker.broken = Unreachable("It does not answer.")
    for _ in range(3):
        sync()
    assert [one.reason for one in archive.pointers.readable] == ["It does not answer."]
    tracker.broken = Unreachable("It still does not answer.")
    sync()
    assert len(archive.pointers.readable) == 2


def test_a_refusal_of_one_execution_does_not_stop_the_others(archive, tracker, sync):
    archive.execution(1)
    archive.execution(2)
    tracker.broken = OutsideFailed("It refused.")
    done = sync()
    assert len(done.failed) == 2
    assert done.waiting == 0


def test_recheck_brings_back_what_was_deleted_and_writes_nothing_new_for_the_rest(archive, tracker, sync):
    kept, gone = archive.execution(1), archive.execution(2)
    sync()
    del tracker.reports[gone]
    assert not sync().synced
    done = sync(recheck=True)
    assert {one.execution for one in done.synced} == {kept, gone}
    assert set(tracker.reports) == {kept, gone}
    assert len(archive.pointers.readable) == 2


def test_a_run_elsewhere_gets_a_new_pointer(archive, tracker, sync):
    execution = archive.execution(1)
    sync()
    tracker.uri = "http://other.example"
    sync(recheck=True)
    assert archive.pointers.current(execution, "fake").uri == "http://other.example"
    assert len(archive.pointers.readable) == 2


def test_a_history_that_lies_here_later_is_told_then(archive, tracker, sync):
    execution = archive.execution(1)
    file = archive.root / f"artifacts/{STAGE}/history.parquet"
    data = file.read_bytes()
    file.write_bytes(data + b"x")
    assert sync().synced[0].pointer.points == 0
    assert sync().synced == ()
    file.write_bytes(data)
    assert sync().synced[0].pointer.points == len(POINTS)
    assert archive.pointers.current(execution, "fake").points == len(POINTS)
    assert sync().synced == ()


def test_an_execution_whose_recipe_is_gone_fails_with_a_reason_and_the_others_do_not(archive, tracker, sync):
    archive.execution(1)
    broken = archive.execution(2, recipe=sha256(b"gone"))
    done = sync()
    assert [one.execution for one in done.failed] == [broken]
    assert "cannot be read" in done.failed[0].pointer.reason
    assert len(tracker.reports) == 1


def test_a_recorded_file_that_is_no_history_is_told_as_such(archive, tracker, sync, monkeypatch):
    monkeypatch.setattr("fakes.archives.parquet", lambda points: b"not parquet")
    archive.execution(1)
    done = sync()
    assert "is not a history" in done.failed[0].pointer.reason


def test_two_syncs_at_once_leave_pointers_that_say_the_same(archive, tracker, sync):
    execution = archive.execution(1)
    before = archive.pointers
    sync()
    syncer = Syncer(
        tracker=tracker, records=archive.records, tables=archive.tables, histories=archive.histories, host=LocalHost()
    )
    syncer.sync(archive.ledger, before, [execution])
    first, second = archive.pointers.of(execution, "fake")
    assert replace(second, time=first.time) == first


def product_of_first(archive):
    execution = archive.execution(1)
    ledger = archive.ledger
    return ledger.products[ledger.executions[execution].product]


def test_stages_without_steps_have_no_history(archive):
    product = product_of_first(archive)
    assert history_of(product, archive.tables, archive.histories) == history()
    plain = replace(product, outputs=product.outputs[:1])
    assert history_of(plain, archive.tables, archive.histories) is None
    untold = replace(product, outputs=(replace(product.outputs[0], digest=sha256(b"none")), *product.outputs[1:]))
    assert history_of(untold, archive.tables, archive.histories) is None


def test_a_damaged_table_is_not_taken_for_an_absent_history(archive):
    product = product_of_first(archive)
    (table,) = (archive.root / "manifests/objects").iterdir()
    table.write_bytes(b"")
    with pytest.raises(DoesNotHold):
        history_of(product, archive.tables, archive.histories)


def test_a_history_that_was_damaged_since_is_told_with_its_reason(archive, sync):
    archive.execution(1)
    file = archive.root / f"artifacts/{STAGE}/history.parquet"
    data = file.read_bytes()
    file.unlink()
    sync()
    file.write_bytes(data)
    (table,) = (archive.root / "manifests/objects").iterdir()
    table.write_bytes(b"")
    assert "cannot be read" in sync().failed[0].pointer.reason
