"""Forecast records: one byte string, nothing without its evidence, nothing that contradicts itself."""

from __future__ import annotations

import copy
import dataclasses
from decimal import Decimal
from typing import Any

import pytest

from registry.core import canonical, kinds
from registry.core.codec import name_of, record_bytes
from registry.core.digests import sha256
from registry.core.forecast import Backtest, FittedRun, Forecast, Interval, forecast_record
from registry.core.scoring import Observed, Score, compare
from registry.errors import DoesNotHold, MalformedRecord, Refused

INTERVAL = Interval(
    point=Decimal("4.1"),
    low=Decimal("4.05"),
    high=Decimal("4.2"),
    deviation=Decimal("0.04"),
    level=Decimal("0.9"),
    method="posterior on a grid",
)


def fitted(name: str, scale: str, loss: str) -> FittedRun:
    return FittedRun(
        name=name,
        evaluation=sha256(f"{name} evaluation".encode()),
        summary=sha256(f"{name} summary".encode()),
        scale=Decimal(scale),
        loss=Decimal(loss),
    )


FORECAST = Forecast(
    predicts="hero/2",
    axis="flops",
    scale=Decimal("8e14"),
    runs=(fitted("rung/a", "1e12", "5.5"), fitted("rung/b", "1e13", "5"), fitted("rung/c", "1e14", "4.6")),
    law={"form": "floor + amplitude * (scale / reference)^-exponent", "floor": "2.5"},
    prior={"noise": "0.01"},
    interval=INTERVAL,
    backtest=Backtest(name="rung/c", predicted=INTERVAL, observed=Decimal("4.6")),
)
OUTCOME = Observed(name="hero/2", evaluation=sha256(b"outcome"), scale=Decimal("8e14"), loss=Decimal("4.18"))


def altered(*path: str | int, value: object) -> bytes:
    """The forecast's bytes with one field changed, still canonical."""
    document: Any = copy.deepcopy(canonical.decode(record_bytes(FORECAST)))
    target = document
    for part in path[:-1]:
        target = target[part]
    target[path[-1]] = value
    return canonical.encode(document)


def test_a_forecast_is_read_and_written_back_byte_for_byte() -> None:
    data = record_bytes(FORECAST)
    assert forecast_record(data) == FORECAST
    assert record_bytes(kinds.read("forecast", data)) == data


def test_it_has_no_clock_and_no_float() -> None:
    assert b"time" not in record_bytes(FORECAST)
    canonical.decode(record_bytes(FORECAST))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("interval", "point"), "4.11"),
        (("runs", 0, "loss"), "5.51"),
        (("runs", 2, "evaluation"), str(sha256(b"another evaluation"))),
        (("prior", "noise"), "0.02"),
        (("scale",), "900000000000000"),
    ],
)
def test_whatever_is_altered_gives_another_name(path: tuple[str | int, ...], value: str) -> None:
    assert name_of(forecast_record(altered(*path, value=value))) != name_of(FORECAST)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema",), 2),
        (("kind",), "score"),
        (("quantity",), "training_loss"),
        (("unit",), "bits per byte"),
        (("interval", "point"), "4.10"),
        (("interval", "point"), "9"),
        (("interval", "low"), "4.3"),
        (("interval", "level"), "1"),
        (("interval", "deviation"), "0"),
        (("interval", "surprise"), "1"),
        (("backtest", "inside"), True),
        (("runs",), []),
        (("runs", 1, "name"), "rung/a"),
        (("predicts",), "rung/b"),
        (("predicts",), "../hero"),
        (("predicts",), "hero/2@step-3"),
        (("runs", 0, "name"), "rung//a"),
        (("runs", 0, "scale"), 12),
        (("law",), "a straight line"),
    ],
)
def test_a_forecast_that_contradicts_itself_is_refused(path: tuple[str | int, ...], value: object) -> None:
    with pytest.raises(Refused):
        forecast_record(altered(*path, value=value))


def test_fields_of_a_later_writer_are_kept() -> None:
    data = altered("remark", value="kept")
    assert record_bytes(forecast_record(data)) == data


def test_a_forecast_needs_no_backtest() -> None:
    without = dataclasses.replace(FORECAST, backtest=None)
    assert forecast_record(record_bytes(without)) == without


def test_the_score_tells_error_bounds_and_deviations() -> None:
    score = compare(FORECAST, OUTCOME)
    assert (score.error, score.inside, score.deviations) == (Decimal("0.08"), True, Decimal(2))
    assert score.forecast == name_of(FORECAST)
    worse = compare(FORECAST, dataclasses.replace(OUTCOME, loss=Decimal("4.201")))
    assert not worse.inside


def test_a_score_is_read_and_written_back_byte_for_byte() -> None:
    score = compare(FORECAST, OUTCOME)
    data = record_bytes(score)
    assert record_bytes(Score.from_json(canonical.decode(data))) == data


@pytest.mark.parametrize(
    ("field", "value"), [("inside", False), ("error", "0.01"), ("deviations", "1"), ("observed", "4.1")]
)
def test_a_score_that_does_not_follow_is_refused(field: str, value: object) -> None:
    document: Any = canonical.decode(record_bytes(compare(FORECAST, OUTCOME)))
    document[field] = value
    with pytest.raises(MalformedRecord, match="does not follow"):
        Score.from_json(document)


@pytest.mark.parametrize(
    "other",
    [dataclasses.replace(OUTCOME, name="hero/1"), dataclasses.replace(OUTCOME, scale=Decimal("8.1e14"))],
)
def test_another_run_or_another_size_is_not_scored(other: Observed) -> None:
    with pytest.raises(DoesNotHold):
        compare(FORECAST, other)
