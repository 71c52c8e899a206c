"""The scaling law: known laws are found again, and the published ladder's forecast is met."""

from __future__ import annotations

import dataclasses

import pytest

from registry.core.ladder import derive
from registry.core.published import FAMILY, SHAPES
from registry.errors import Refused
from train.scaling import Law, Point, Prior, fit

PRIOR = Prior(exponent_low=0.02, exponent_high=0.6, noise=0.005, noise_weight=4)
TRUTH = Law(floor=1.7, amplitude=1.2, exponent=0.12, reference=1e20)
SCALES = (1e19, 1e20, 1e21, 1e22)
PUBLISHED_FINAL = {"d768": 3.0154, "d1024": 2.7809, "d1536": 2.5638}
PUBLISHED_PARTIAL = {"d2048": 2.4745}


def flops(name: str) -> float:
    return float(derive(FAMILY, SHAPES[name]).flops)


def published(losses: dict[str, float]) -> list[Point]:
    return [Point(scale=flops(name), loss=loss) for name, loss in losses.items()]


def noiseless(scales: tuple[float, ...] = SCALES) -> list[Point]:
    return [Point(scale=scale, loss=TRUTH.loss(scale)) for scale in scales]


def test_a_known_law_is_found_and_continued() -> None:
    posterior = fit(noiseless(), PRIOR)
    assert posterior.best().exponent == pytest.approx(0.12, abs=0.01)
    assert posterior.best().floor == pytest.approx(1.7, abs=0.1)
    prediction = posterior.predict(1e24, 0.9)
    assert prediction.low < TRUTH.loss(1e24) < prediction.high
    assert prediction.median == pytest.approx(TRUTH.loss(1e24), abs=0.03)


@pytest.mark.slow
def test_the_interval_is_wider_further_away_with_more_noise_and_at_a_higher_level() -> None:
    posterior = fit(noiseless(), PRIOR)
    noisy = fit(noiseless(), dataclasses.replace(PRIOR, noise=0.02))
    width = {
        name: one.high - one.low
        for name, one in {
            "near": posterior.predict(1e23, 0.9),
            "far": posterior.predict(1e25, 0.9),
            "noisy": noisy.predict(1e23, 0.9),
            "sure": posterior.predict(1e23, 0.99),
        }.items()
    }
    assert width["near"] < min(width["far"], width["noisy"], width["sure"])


def test_even_at_a_fitted_rung_another_run_has_its_own_noise() -> None:
    assert fit(noiseless(), PRIOR).predict(SCALES[1], 0.9).deviation > 0.003


def test_order_of_the_points_does_not_matter() -> None:
    assert fit(noiseless()[::-1], PRIOR).predict(1e24, 0.9) == fit(noiseless(), PRIOR).predict(1e24, 0.9)


def test_the_published_ladder_predicts_the_published_hero() -> None:
    posterior = fit(published(PUBLISHED_FINAL), PRIOR).at_most(published(PUBLISHED_PARTIAL)[0])
    prediction = posterior.predict(flops("d6144"), 0.9)
    assert 2.0 < prediction.median < 2.1
    assert prediction.low < 2.04 < prediction.high


def test_a_loss_at_eighty_percent_is_not_a_final_loss() -> None:
    naive = fit(published(PUBLISHED_FINAL | PUBLISHED_PARTIAL), PRIOR).predict(flops("d6144"), 0.9)
    assert naive.median > 2.15, "taking the cut run at face value bends the law upwards"


@pytest.mark.parametrize(
    "points",
    [
        noiseless()[:2],
        [*noiseless()[:2], noiseless()[0]],
        [Point(scale=1.0, loss=2.0), Point(scale=2.0, loss=2.1), Point(scale=3.0, loss=2.2)],
        [Point(scale=0.0, loss=3.0), *noiseless()[:2]],
        [Point(scale=1e18, loss=float("nan")), *noiseless()[:2]],
    ],
)
def test_points_that_carry_no_law_are_refused(points: list[Point]) -> None:
    with pytest.raises(Refused) as refusal:
        fit(points, PRIOR)
    assert refusal.value.remedy
