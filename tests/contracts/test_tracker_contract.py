"""What every tracker must do, run against the fake and against MLflow on sqlite."""

from dataclasses import replace

import pytest
from fakes.archives import POINTS, report
from fakes.mlflow_stores import place
from fakes.trackers import FakeTracker

from registry.adapters.mlflow_store import MlflowTracker
from registry.core.history import History, compare
from registry.core.records import Outcome
from registry.errors import UnknownName


@pytest.fixture(params=["fake", pytest.param("mlflow", marks=pytest.mark.slow)])
def tracker(request, tmp_path):
    if request.param == "fake":
        return FakeTracker()
    return MlflowTracker(place(tmp_path))


def test_an_unknown_execution_is_not_found(tracker):
    assert tracker.find(report().execution) is None


def test_what_was_published_is_found_with_its_models(tracker):
    told = report()
    published = tracker.publish(told)
    assert tracker.find(told.execution) == published
    assert published.points == len(POINTS)
    first, last = published.models
    assert (first.checkpoint, first.name, first.version) == ("rung/d32@step-2", None, None)
    assert (last.checkpoint, last.name, last.version) == ("rung/d32@step-4", "rung-d32", "1")
    assert first.model_id != last.model_id


def test_publishing_again_changes_nothing(tracker):
    told = report()
    first = tracker.publish(told)
    assert tracker.publish(told) == first
    assert tracker.publish(replace(told, history=None)) == first
    assert compare(told.history, tracker.read_history(first.run_id).history) == ()


def test_every_point_comes_back_with_every_bit(tracker):
    points = [(0, "a", 0.1), (1, "a", 5e-324), (2, "a", float("nan")), (2**40, "b c/d-e:f.g", 1.7976931348623157e308)]
    special = [(0, "special", -0.0), (1, "special", float("inf")), (2, "special", float("-inf"))]
    ours = History.of([*points, *special])
    published = tracker.publish(replace(report(), history=ours))
    copy = tracker.read_history(published.run_id)
    assert copy.damage == ()
    assert compare(ours, copy.history, copy.fidelity) == ()
    assert compare(ours.only("ab"), copy.history.only("ab")) == ()


def test_a_history_that_comes_later_is_added(tracker):
    told = report()
    without = tracker.publish(replace(told, history=None))
    assert without.points == 0
    published = tracker.publish(told)
    assert published.run_id == without.run_id
    assert published.points == len(POINTS)
    assert compare(told.history, tracker.read_history(published.run_id).history) == ()


def test_executions_of_one_product_share_its_version_and_others_get_the_next(tracker):
    first, again, other = report(1), report(2), report(3, tree=b"other")
    versions = [tracker.publish(told).models[-1].version for told in (first, again, other)]
    assert versions == ["1", "1", "2"]
    assert tracker.find(first.execution).run_id != tracker.find(again.execution).run_id


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.INTERRUPTED])
def test_executions_without_a_product_are_published_too(tracker, outcome):
    published = tracker.publish(report(outcome=outcome))
    assert (published.points, published.models) == (0, ())


def test_segments_of_the_hero_are_versions_of_one_model(tracker):
    names = [tracker.publish(report(stage=f"hero/{number}", attempt=number)).models[-1] for number in (0, 1)]
    assert [(one.name, one.version) for one in names] == [("hero", "1"), ("hero", "2")]


def test_what_a_run_says_of_its_execution_can_be_read_back(tracker):
    told = report()
    facts = tracker.facts(tracker.publish(told).run_id)
    assert facts["execution"] == str(told.execution)
    assert {key: facts[key] for key in ("recipe", "product", "commit", "dirty")} == {
        key: told.tags[key] for key in ("recipe", "product", "commit", "dirty")
    }


def test_a_run_that_is_not_there_is_unknown(tracker):
    for read in (tracker.read_history, tracker.facts):
        with pytest.raises(UnknownName):
            read("0" * 32)
