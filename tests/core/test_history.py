"""Histories compared point by point: every difference is found, named with both sides, and nothing else is."""

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.core.history import (
    Differing,
    Extra,
    Fidelity,
    Gap,
    History,
    Missing,
    Repeated,
    Side,
    compare,
    gaps,
    spelled,
)
from registry.errors import MalformedRecord

POINTS = [(step, metric, step / 3 + shift) for step in range(10) for metric, shift in (("train/loss", 0.1), ("z", 7.0))]
VALUES = st.floats(width=64)
HISTORIES = st.lists(
    st.tuples(st.integers(0, 50), st.sampled_from(["a", "b/c", "ü"]), VALUES), unique_by=lambda point: point[:2]
)


def history(points=POINTS):
    return History.of(points)


def test_a_history_keeps_every_point_by_metric_and_step():
    ours = history(reversed(POINTS))
    assert sorted(ours) == sorted(POINTS)
    assert ours.points == 20
    assert ours.last_step == 9
    assert list(ours.series) == ["train/loss", "z"]
    assert list(ours.series["z"].steps) == list(range(10))


def test_an_empty_history_has_no_last_step():
    assert history([]).last_step is None
    assert history([]).points == 0


@pytest.mark.parametrize("step", [-1, 2**53])
def test_steps_that_no_run_has_are_refused(step):
    with pytest.raises(MalformedRecord, match="train/loss"):
        history([(step, "train/loss", 1.0)])


def test_only_and_within_leave_out_the_rest():
    assert set(history().only(["z", "absent"]).series) == {"z"}
    late = history([*POINTS, (3, "early", 1.0)]).within(7, 8)
    assert sorted(late) == sorted(point for point in POINTS if 7 <= point[0] <= 8)
    assert "early" not in late.series


def test_the_digest_depends_on_every_bit_and_not_on_the_order_of_points():
    assert history().digest == history(reversed(POINTS)).digest
    step, metric, value = POINTS[0]
    assert history([(step, metric, math.nextafter(value, 9)), *POINTS[1:]]).digest != history().digest
    assert history([(step, metric + "x", value), *POINTS[1:]]).digest != history().digest
    assert history([(0, "a", 0.0)]).digest != history([(0, "a", -0.0)]).digest


@given(HISTORIES)
def test_a_history_equals_itself_in_every_bit(points):
    assert compare(history(points), history(reversed(points))) == ()


@given(HISTORIES, st.sampled_from(Fidelity))
def test_a_copy_of_the_stated_fidelity_holds(points, fidelity):
    copy = [(step, metric, fidelity.held(value)) for step, metric, value in points]
    assert compare(history(points), history(copy), fidelity) == ()


@given(HISTORIES, st.data())
def test_one_flipped_bit_is_found_where_it_is(points, data):
    candidates = [index for index, point in enumerate(points) if math.isfinite(point[2])]
    if not candidates:
        return
    index = data.draw(st.sampled_from(candidates))
    step, metric, value = points[index]
    bits = struct.unpack("<Q", struct.pack("<d", value))[0] ^ 1 << data.draw(st.integers(0, 62))
    other = struct.unpack("<d", struct.pack("<Q", bits))[0]
    changed = [*points[:index], (step, metric, other), *points[index + 1 :]]
    expected = Differing(metric=metric, first_step=step, points=1, ours=spelled(value), theirs=spelled(other))
    assert compare(history(points), history(changed)) == (expected,)


def test_a_lost_point_is_missing_and_an_added_one_is_extra():
    lost = [point for point in POINTS if point[:2] not in {(4, "z"), (6, "z")}]
    missing = Missing(metric="z", first_step=4, last_step=6, points=2, ours=10, theirs=8)
    assert compare(history(), history(lost)) == (missing,)
    extra = Extra(metric="z", first_step=4, last_step=6, points=2, ours=8, theirs=10)
    assert compare(history(lost), history()) == (extra,)
    assert "lacks 2 of our 10 points, between steps 4 and 6" in missing.sentence
    assert "2 points that we lack" in extra.sentence


def test_a_lost_metric_is_missing_as_a_whole():
    (finding,) = compare(history(), history().only(["z"]))
    assert finding == Missing(metric="train/loss", first_step=0, last_step=9, points=10, ours=10, theirs=0)


def test_the_first_differing_step_is_named_with_both_values():
    changed = [(step, metric, value + (metric == "z" and step >= 5)) for step, metric, value in POINTS]
    (finding,) = compare(history(), history(changed))
    assert finding == Differing(metric="z", first_step=5, points=5, ours=spelled(5 / 3 + 7), theirs=spelled(5 / 3 + 8))
    assert "5 values differ, first at step 5" in finding.sentence


def test_what_a_system_cannot_hold_is_a_finding_when_its_fidelity_says_that_it_can():
    ours = history([(0, "a", -0.0), (1, "a", math.inf), (2, "a", math.nan)])
    json = history([(0, "a", 0.0), (1, "a", math.inf), (2, "a", math.nan)])
    sql = history([(0, "a", 0.0), (1, "a", 1.7976931348623157e308), (2, "a", math.nan)])
    assert compare(ours, json, Fidelity.JSON) == ()
    assert compare(ours, sql, Fidelity.SQL) == ()
    assert [type(one) for one in compare(ours, json, Fidelity.BITS)] == [Differing]
    (finding,) = compare(ours, sql, Fidelity.JSON)
    assert (finding.first_step, finding.ours, finding.theirs) == (1, "inf", "1.7976931348623157e+308")


def test_a_nan_in_place_of_a_number_is_found():
    (finding,) = compare(history([(0, "a", 1.5)]), history([(0, "a", math.nan)]))
    assert (finding.ours, finding.theirs) == ("1.5", "nan")


def test_a_repeated_step_is_found_on_its_side():
    twice = history([*POINTS, (3, "z", 8.0)])
    assert compare(history(), twice) == (Repeated(side=Side.THEIRS, metric="z", first_step=3, points=1),)


def test_no_gap_in_a_regular_history():
    assert gaps(history()) == ()
    evaluated = [(step, "eval", 1.0) for step in (0, 4, 8, 9)]
    assert gaps(history([*POINTS, *evaluated, (5, "once", 2.0)])) == ()


def test_a_gap_is_found_within_and_at_the_end():
    holey = [point for point in POINTS if point[1] != "z" or point[0] not in {4, 5, 8, 9}]
    inside = Gap(side=Side.OURS, metric="z", last_step=3, next_step=6, stride=1)
    early = Gap(side=Side.OURS, metric="z", last_step=7, next_step=None, stride=1)
    assert gaps(history(holey)) == (inside, early)
    assert "goes on at step 6" in inside.sentence
    assert "the history goes on" in early.sentence


def test_a_gap_of_a_rare_metric_is_measured_by_its_own_stride():
    evaluated = [(step, "eval", 1.0) for step in (0, 2, 4, 8)]
    assert gaps(history([*POINTS, *evaluated]), Side.THEIRS) == (
        Gap(side=Side.THEIRS, metric="eval", last_step=4, next_step=8, stride=2),
    )
