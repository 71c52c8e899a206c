"""Copies of histories: what a tracker lost, added or altered is found; what cannot be read is said, never passed."""

from dataclasses import dataclass, field, replace

import pytest
from fakes.archives import POINTS, STAGE, Archive, history
from fakes.trackers import FakeTracker

from registry.adapters.host import LocalHost
from registry.core.history import Copy, Differing, Fidelity, Gap, History, Missing
from registry.errors import UnknownName, Unreachable
from registry.workflows.curves import CurveChecker
from registry.workflows.sync import Syncer, history_of


@dataclass
class FakeCopies:
    """Client files by their place."""

    held: dict[str, Copy] = field(default_factory=dict)

    def read(self, location: str) -> Copy:
        if location not in self.held:
            raise UnknownName(f"Nothing lies at {location}.")
        return self.held[location]


LOCATION = "wandb/offline-run-1"
WANDB = {"system": "wandb", "state": "offline", "run_id": "x", "location": LOCATION, "reason": None}


@pytest.fixture
def archive(tmp_path):
    return Archive(root=tmp_path)


@pytest.fixture
def tracker():
    return FakeTracker()


@pytest.fixture
def copies():
    return FakeCopies()


@pytest.fixture
def check(archive, tracker, copies):
    def call():
        checker = CurveChecker(
            history=lambda product: history_of(product, archive.tables, archive.histories),
            tracker=tracker,
            files=copies,
        )
        ledger = archive.ledger
        return checker.check(ledger, archive.pointers, ledger.executions)

    return call


@pytest.fixture
def published(archive, tracker):
    """An execution that the tracker and a W&B file hold; its place of W&B's file."""

    def call(**changes):
        execution = archive.execution(1, **{"trackers": (WANDB,), **changes})
        syncer = Syncer(
            tracker=tracker,
            records=archive.records,
            tables=archive.tables,
            histories=archive.histories,
            host=LocalHost(),
        )
        syncer.sync(archive.ledger, archive.pointers, [execution])
        return execution, f"artifacts/runs/{STAGE}/{archive.ledger.executions[execution].attempt}/{LOCATION}"

    return call


def copy_of(points, damage=()):
    return Copy(history=History.of(points), fidelity=Fidelity.JSON, damage=damage)


def test_equal_copies_hold(check, published, copies):
    _, place = published()
    copies.held[place] = copy_of([*POINTS, (0, "throughput/tokens", 5.0)])
    curves = check()
    assert curves.holds
    assert [(one.system, one.points, one.findings) for one in curves.compared] == [
        ("history", len(POINTS), ()),
        ("fake", len(POINTS), ()),
        ("wandb", len(POINTS), ()),
    ]


def test_a_lost_point_in_a_client_file_is_found(check, published, copies):
    _, place = published()
    copies.held[place] = copy_of(POINTS[:-1])
    curves = check()
    assert not curves.holds
    step, metric, _ = POINTS[-1]
    assert curves.compared[-1].findings == (
        Missing(metric=metric, first_step=step, last_step=step, points=1, ours=4, theirs=3),
    )


def test_an_altered_value_in_the_tracker_is_found(check, published, tracker):
    execution, _ = published()
    step, metric, value = POINTS[0]
    altered = History.of([(step, metric, value + 1), *POINTS[1:]])
    tracker.reports[execution] = replace(tracker.reports[execution], history=altered)
    curves = check()
    assert not curves.holds
    assert [type(found) for found in curves.compared[1].findings] == [Differing]


def test_damage_of_a_file_does_not_hold_although_every_point_is_there(check, published, copies):
    _, place = published()
    copies.held[place] = copy_of(POINTS, damage=("skipped corrupt data",))
    assert not check().holds


def test_a_copy_that_cannot_be_read_is_told(check, published, tracker):
    _, place = published()
    tracker.broken = Unreachable("It does not answer.")
    curves = check()
    assert [(one.system, one.where, one.reason) for one in curves.unread][1:] == [
        ("wandb", place, f"Nothing lies at {place}.")
    ]
    assert curves.unread[0].reason == "It does not answer."
    assert not curves.holds, "our own history alone proves nothing"


def test_a_client_file_of_a_resumed_attempt_begins_where_it_resumed(check, published, copies):
    _, place = published(resumed={"attempt": "20260102t030400z-00000000", "step": 2})
    copies.held[place] = copy_of([point for point in POINTS if point[0] > 2])
    curves = check()
    assert curves.holds
    assert [one.points for one in curves.compared] == [len(POINTS), len(POINTS), len(POINTS) // 4]


def test_an_attempt_that_resumed_after_the_last_step_has_nothing_in_its_file(check, published):
    published(resumed={"attempt": "20260102t030400z-00000000", "step": 3})
    curves = check()
    assert curves.holds
    assert curves.unread == ()


def test_a_file_that_is_told_twice_is_compared_once(check, published, copies):
    _, place = published(trackers=(WANDB, {**WANDB, "state": "failed", "reason": "full"}))
    copies.held[place] = copy_of(POINTS)
    assert [one.system for one in check().compared] == ["history", "fake", "wandb"]


def test_a_gap_in_our_own_history_is_found(check, published, monkeypatch):
    holey = [(step, "train/loss", 1.0) for step in (0, 1, 2, 5, 6)]
    monkeypatch.setattr("fakes.archives.POINTS", holey)
    published(trackers=())
    curves = check()
    assert not curves.holds
    assert [type(found) for found in curves.compared[0].findings] == [Gap]


@pytest.mark.parametrize("location", [None, "https://wandb.example/run", 5])
def test_a_run_that_lies_elsewhere_is_no_file_here(check, published, location):
    published(trackers=({**WANDB, "location": location}, {**WANDB, "system": "history"}))
    curves = check()
    assert [one.system for one in curves.compared] == ["history", "fake"]
    assert curves.unread == ()


def test_nothing_compared_does_not_hold(check, archive):
    assert not check().holds
    archive.execution(1)
    (archive.root / f"artifacts/{STAGE}/history.parquet").unlink()
    assert check().compared == ()
    assert history().points == len(POINTS)
