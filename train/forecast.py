"""Stage ``forecast``: what the hero's held-out loss will be, concluded from the finished rungs before the hero starts.

Writes ``forecast.json``, the canonical bytes of the record that an archive seals under its digest, and a picture. The
numbers are rounded far above the last bit of floating point, so that every host writes the same bytes. Refuses rungs
that carry no law, and settings that it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

from registry.core import decimals
from registry.core.canonical import Json
from registry.core.codec import record_bytes
from registry.core.family import Family, ratio
from registry.core.forecast import PLACES, Backtest, FittedRun, Forecast, Interval
from registry.core.ladder import Shape, derive
from registry.core.pipeline import decimals as plain
from registry.errors import Refused
from train import paths
from train.attempt import Attempt
from train.files import fresh_folder, write_whole
from train.outcomes import Outcome, read_outcome
from train.picture import draw
from train.scaling import Point, Posterior, Prediction, Prior, fit
from train.settings import section, text
from train.stage import told

SECTIONS = ("family", "rungs", "hero", "forecast")
FORM = "floor + amplitude * (scale / reference) ^ -exponent"
METHOD = (
    "Median and equal tails of the posterior predictive distribution over laws on a fixed grid; uniform prior of the "
    "floor, log-uniform of the exponent, scaled inverse chi-squared of the noise; the run's own noise is included."
)
_NUMBERS = ("exponent_low", "exponent_high", "noise", "noise_weight")


def build(sections: Mapping[str, Mapping[str, Json]], target: Path) -> Forecast:
    """Forecast the hero from the rungs under ``artifacts/`` and write the record and its picture to ``target``.

    ``sections`` are those of ``params.yaml`` that ``SECTIONS`` names. Raises ``Refused`` for a rung that is not there,
    rungs that carry no law, and settings that make no sense.
    """
    settings = sections["forecast"]
    axis, level, numbers = text(settings, "axis"), _level(settings), _numbers(settings)
    outcomes = [read_outcome(f"rung/{name}", paths.ARTIFACTS / "rung" / name, axis) for name in sections["rungs"]]
    prior = Prior(**{name: float(number) for name, number in numbers.items()})
    posterior = fit([_point(one) for one in outcomes], prior)
    scale = hero_scale(sections, axis)
    forecast = Forecast(
        predicts=text(settings, "predicts"),
        axis=axis,
        scale=scale,
        runs=tuple(_fitted(one) for one in outcomes),
        law=_law(posterior),
        prior={name: decimals.write(number) for name, number in numbers.items()},
        interval=_interval(posterior.predict(float(scale), float(level)), level),
        backtest=_backtest(outcomes, prior, level),
    )
    folder = fresh_folder(target)
    write_whole(folder / "forecast.json", record_bytes(forecast))
    write_whole(folder / "forecast.svg", draw(forecast, posterior))
    return forecast


def hero_scale(sections: Mapping[str, Mapping[str, Json]], axis: str) -> Decimal:
    """The hero's scale on ``axis`` by the arithmetic of the ladder. Raises ``Refused`` for an axis that it lacks."""
    rung = derive(Family.from_settings(sections["family"]), Shape.from_settings(sections["hero"]))
    value = getattr(rung, axis, None)
    if not isinstance(value, int):
        raise Refused(f"A rung has no scale {axis!r}.", remedy="Choose flops, tokens or active_parameters.")
    return Decimal(value)


def _number(settings: Mapping[str, Json], key: str) -> Decimal:
    exact: Fraction = ratio(settings.get(key), f"forecast.{key}")
    return decimals.round_digits(decimals.divide(exact), 12)


def _level(settings: Mapping[str, Json]) -> Decimal:
    level = _number(settings, "level")
    if not 0 < level < 1:
        raise Refused(f"The forecast's level is {level}, not between 0 and 1.", remedy="Correct forecast.level.")
    return level


def _numbers(settings: Mapping[str, Json]) -> dict[str, Decimal]:
    numbers = {name: _number(settings, name) for name in _NUMBERS}
    if min(numbers.values()) <= 0 or numbers["exponent_low"] >= numbers["exponent_high"]:
        raise Refused(
            "The forecast's prior is not positive, or its exponents are the wrong way round.", remedy="Correct it."
        )
    return numbers


def _point(outcome: Outcome) -> Point:
    return Point(scale=float(outcome.scale), loss=float(outcome.loss))


def _fitted(outcome: Outcome) -> FittedRun:
    return FittedRun(
        name=outcome.name,
        evaluation=outcome.evaluation,
        summary=outcome.summary,
        scale=outcome.scale,
        loss=outcome.loss,
    )


def _law(posterior: Posterior) -> dict[str, Json]:
    law = posterior.best()
    return {
        "form": FORM,
        "floor": decimals.write(decimals.round_places(law.floor, PLACES)),
        "amplitude": decimals.write(decimals.round_places(law.amplitude, PLACES)),
        "exponent": decimals.write(decimals.round_places(law.exponent, PLACES)),
        "reference": decimals.write(decimals.round_digits(Decimal(law.reference), 6)),
    }


def _interval(prediction: Prediction, level: Decimal) -> Interval:
    return Interval(
        point=decimals.round_places(prediction.median, PLACES),
        low=decimals.round_places(prediction.low, PLACES),
        high=decimals.round_places(prediction.high, PLACES),
        deviation=decimals.round_places(prediction.deviation, PLACES),
        level=level,
        method=METHOD,
    )


def _backtest(outcomes: Sequence[Outcome], prior: Prior, level: Decimal) -> Backtest | None:
    """The largest rung predicted from the others, if enough are left to carry a law."""
    *others, largest = sorted(outcomes, key=lambda one: one.scale)
    if len(others) < 3:
        return None
    prediction = fit([_point(one) for one in others], prior).predict(float(largest.scale), float(level))
    return Backtest(name=largest.name, predicted=_interval(prediction, level), observed=largest.loss)


def main() -> None:
    """Run the stage as one attempt."""
    with told(Attempt("forecast")) as attempt:
        sections = {name: section(name) for name in SECTIONS}
        attempt.start({name: plain(found) for name, found in sections.items()})
        build(sections, paths.ARTIFACTS / "forecast")


if __name__ == "__main__":
    main()
