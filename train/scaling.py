"""A scaling law through a few finished rungs, and what it says of a larger one.

The law is ``loss(x) = floor + amplitude · (x / reference)^-exponent``. Four points cannot fix three numbers and their
error, so the fit is a posterior, summed over a fixed grid of floors and exponents: no random numbers, no start values,
one answer. Refuses fewer than three points, points that are not positive, and rungs whose loss does not fall.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import stdtr

from registry.errors import Refused

Grid: TypeAlias = NDArray[np.float64]

FLOORS = 240
EXPONENTS = 160
NEGLIGIBLE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A finished rung: its scale (FLOPs or parameters) and its final held-out loss in nats per token."""

    scale: float
    loss: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """What is believed before any rung ran.

    The floor lies anywhere between zero and the lowest loss, the exponent between two bounds with each octave as
    likely. ``noise`` is the expected standard deviation of a rung's loss about the law (another seed, a law that is not
    quite right), believed as firmly as if it had been measured on ``noise_weight`` rungs.
    """

    exponent_low: float
    exponent_high: float
    noise: float
    noise_weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """One law: ``floor + amplitude · (x / reference)^-exponent``."""

    floor: float
    amplitude: float
    exponent: float
    reference: float

    def loss(self, scale: float) -> float:
        """The loss at ``scale``, in nats per token."""
        return self.floor + self.amplitude * float((scale / self.reference) ** -self.exponent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The posterior of a rung's loss: its median, and bounds that leave half of ``1 - level`` on each side."""

    median: float
    low: float
    high: float
    level: float
    deviation: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Posterior:
    """The likely laws with their weights, and a Student's t about each. One entry of every array is one law."""

    floors: Grid
    exponents: Grid
    amplitudes: Grid
    weights: Grid
    variances: Grid
    information: Grid
    freedom: float
    reference: float

    def best(self) -> Law:
        """The law at the mode."""
        at = int(np.argmax(self.weights))
        return Law(
            floor=float(self.floors[at]),
            amplitude=float(self.amplitudes[at]),
            exponent=float(self.exponents[at]),
            reference=self.reference,
        )

    def predict(self, scale: float, level: float) -> Prediction:
        """The loss of another rung at ``scale``, its own noise included."""
        centres, widths = self._spread(scale)
        reach = 60 * float(widths.max())
        bounds = float(centres.min()) - reach, float(centres.max()) + reach

        def quantile(share: float) -> float:
            return float(brentq(lambda loss: self._below(loss, centres, widths) - share, *bounds, xtol=1e-9))

        tail = (1 - level) / 2
        return Prediction(
            median=quantile(0.5),
            low=quantile(tail),
            high=quantile(1 - tail),
            level=level,
            deviation=(quantile(1 - _ONE_SIGMA_BELOW) - quantile(_ONE_SIGMA_BELOW)) / 2,
        )

    def at_most(self, bound: Point) -> Posterior:
        """The posterior after learning only that a rung ends no higher than ``bound``: of a run that was cut short."""
        centres, widths = self._spread(bound.scale)
        weights = self.weights * stdtr(self.freedom, (bound.loss - centres) / widths)
        return replace(self, weights=weights / weights.sum())

    def _spread(self, scale: float) -> tuple[Grid, Grid]:
        basis = (scale / self.reference) ** -self.exponents
        return self.floors + self.amplitudes * basis, np.sqrt(self.variances * (1 + basis**2 / self.information))

    def _below(self, loss: float, centres: Grid, widths: Grid) -> float:
        return float(np.sum(self.weights * stdtr(self.freedom, (loss - centres) / widths)))


_ONE_SIGMA_BELOW = 0.15865525393145707


def fit(points: Sequence[Point], prior: Prior) -> Posterior:
    """The posterior over laws given ``points``.

    For each floor and exponent of the grid the amplitude is a linear coefficient with a flat prior, and the noise a
    variance with a scaled inverse chi-squared one; both are integrated out in closed form (Gelman et al., Bayesian Data
    Analysis, chapter 14). Raises ``Refused`` when the points cannot carry a law.
    """
    scales, losses = _checked(points)
    reference = float(np.exp(np.mean(np.log(scales))))
    floors, exponents = _grid(float(losses.min()), prior)
    basis = np.exp(-exponents[..., None] * np.log(scales / reference))
    information = np.sum(basis**2, axis=-1)
    above = losses - floors[..., None]
    amplitudes = np.sum(basis * above, axis=-1) / information
    squares = np.sum((above - amplitudes[..., None] * basis) ** 2, axis=-1)
    freedom = prior.noise_weight + len(points) - 1
    pooled = prior.noise_weight * prior.noise**2 + squares
    logarithms = -0.5 * np.log(information) - 0.5 * freedom * np.log(pooled)
    weights = np.exp(logarithms - logarithms.max())
    likely = weights > NEGLIGIBLE
    return Posterior(
        floors=floors[likely],
        exponents=exponents[likely],
        amplitudes=amplitudes[likely],
        weights=weights[likely] / weights[likely].sum(),
        variances=pooled[likely] / freedom,
        information=information[likely],
        freedom=freedom,
        reference=reference,
    )


def _grid(lowest_loss: float, prior: Prior) -> tuple[Grid, Grid]:
    floors = lowest_loss * (np.arange(FLOORS) + 0.5) / FLOORS
    octaves = np.linspace(np.log(prior.exponent_low), np.log(prior.exponent_high), EXPONENTS)
    mesh = np.meshgrid(floors, np.exp(octaves), indexing="ij")
    return mesh[0], mesh[1]


def _checked(points: Sequence[Point]) -> tuple[Grid, Grid]:
    ordered = sorted(points, key=lambda point: point.scale)
    scales = np.array([point.scale for point in ordered], dtype=np.float64)
    losses = np.array([point.loss for point in ordered], dtype=np.float64)
    remedy = "Look at the rungs' evaluations; a forecast needs at least three finished rungs of growing size."
    if len(ordered) < 3 or len(set(scales.tolist())) != len(ordered):
        raise Refused(f"{len(ordered)} points of different size cannot carry a scaling law.", remedy=remedy)
    if not (np.isfinite(scales).all() and np.isfinite(losses).all() and scales.min() > 0 and losses.min() > 0):
        raise Refused("A rung has a scale or a loss that is not a positive number.", remedy=remedy)
    if losses[-1] >= losses[0]:
        raise Refused("The largest rung is no better than the smallest.", remedy=remedy)
    return scales, losses
