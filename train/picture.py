"""The picture of a forecast: rungs, law, interval and the run that is predicted, as a deterministic SVG.

Coordinates are rounded to a tenth of a unit, so that the last bits of floating point do not show. Text is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

from registry.core.forecast import UNIT, Forecast
from train.scaling import Posterior, Prediction

WIDTH, HEIGHT = 640, 400
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 44, 52
SAMPLES = 9
_STYLE = (
    "text{font:12px sans-serif;fill:#222}.h{font-size:14px}.g{stroke:#ddd}.b{fill:#8ab6e8;fill-opacity:.35}"
    ".l{fill:none;stroke:#1f5fa8;stroke-width:2}.p{fill:#222}.f{stroke:#c0392b;stroke-width:2;fill:#c0392b}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The map from (log10 of scale, loss) to the page."""

    scales: tuple[float, float]
    losses: tuple[float, float]

    def x(self, scale: float) -> str:
        """Horizontal position of a scale."""
        share = (log10(scale) - self.scales[0]) / (self.scales[1] - self.scales[0])
        return f"{LEFT + share * (WIDTH - LEFT - RIGHT):.1f}"

    def y(self, loss: float) -> str:
        """Vertical position of a loss."""
        share = (loss - self.losses[0]) / (self.losses[1] - self.losses[0])
        return f"{HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM):.1f}"


def draw(forecast: Forecast, posterior: Posterior) -> bytes:
    """The SVG of ``forecast``: ``posterior`` gives the curve between the smallest rung and the predicted run."""
    scales = [float(run.scale) for run in forecast.runs] + [float(forecast.scale)]
    level = float(forecast.interval.level)
    curve = [(scale, posterior.predict(scale, level)) for scale in _spaced(min(scales), max(scales))]
    losses = [float(run.loss) for run in forecast.runs]
    lowest = min(*losses, *(one.low for _, one in curve))
    highest = max(*losses, *(one.high for _, one in curve))
    frame = Frame(
        scales=(log10(min(scales)) - 0.1, log10(max(scales)) + 0.1),
        losses=(lowest - 0.05 * (highest - lowest), highest + 0.05 * (highest - lowest)),
    )
    parts = [*_axes(frame, forecast.axis), *_curve(frame, curve), *_runs(frame, forecast), _title(forecast)]
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{_STYLE}</style>'
    background = f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>'
    return "\n".join([head, background, *parts, "</svg>", ""]).encode()


def _spaced(low: float, high: float) -> list[float]:
    step = (log10(high) - log10(low)) / (SAMPLES - 1)
    return [10 ** (log10(low) + index * step) for index in range(SAMPLES)]


def _axes(frame: Frame, axis: str) -> Iterable[str]:
    for decade in range(ceil(frame.scales[0]), floor(frame.scales[1]) + 1):
        x = frame.x(10.0**decade)
        yield f'<path class="g" d="M{x} {TOP}V{HEIGHT - BOTTOM}"/>'
        yield _text(x, HEIGHT - BOTTOM + 18, f"1e{decade}", "middle")
    step = _step(frame.losses[1] - frame.losses[0])
    for index in range(ceil(frame.losses[0] / step), floor(frame.losses[1] / step) + 1):
        y = frame.y(index * step)
        yield f'<path class="g" d="M{LEFT} {y}H{WIDTH - RIGHT}"/>'
        yield _text(LEFT - 8, float(y) + 4, f"{index * step:.2f}", "end")
    yield _text(WIDTH / 2, HEIGHT - 12, axis, "middle")
    yield _text(8, TOP - 8, f"held-out loss, {UNIT}", "start")


def _step(span: float) -> float:
    """A round step that gives four to ten lines over ``span``."""
    unit = 10 ** floor(log10(span))
    return float(next(unit * share for share in (0.1, 0.2, 0.5, 1) if span / (unit * share) <= 10))


def _curve(frame: Frame, curve: Sequence[tuple[float, Prediction]]) -> Iterable[str]:
    above = [f"{frame.x(scale)} {frame.y(one.high)}" for scale, one in curve]
    below = [f"{frame.x(scale)} {frame.y(one.low)}" for scale, one in reversed(curve)]
    middle = [f"{frame.x(scale)} {frame.y(one.median)}" for scale, one in curve]
    yield f'<path class="b" d="M{"L".join([*above, *below])}Z"/>'
    yield f'<path class="l" d="M{"L".join(middle)}"/>'


def _runs(frame: Frame, forecast: Forecast) -> Iterable[str]:
    for run in forecast.runs:
        x, y = frame.x(float(run.scale)), frame.y(float(run.loss))
        yield f'<circle class="p" cx="{x}" cy="{y}" r="4"/>'
        yield _text(float(x) + 7, float(y) - 7, run.name, "start")
    interval, x = forecast.interval, frame.x(float(forecast.scale))
    low, high, point = (frame.y(float(value)) for value in (interval.low, interval.high, interval.point))
    yield f'<path class="f" d="M{x} {low}V{high}"/><circle class="f" cx="{x}" cy="{point}" r="4"/>'
    yield _text(float(x) - 7, float(high) - 7, forecast.predicts, "end")


def _title(forecast: Forecast) -> str:
    one = forecast.interval
    share = f"{float(one.level) * 100:g} %"
    return _text(
        8, 20, f"{forecast.predicts}: {one.point:.3f}, {share} within {one.low:.3f} to {one.high:.3f}", "start"
    )


def _text(x: float | str, y: float | str, words: str, anchor: str) -> str:
    place = f'x="{float(x):.1f}" y="{float(y):.1f}" text-anchor="{anchor}"'
    return f"<text {place}>{escape(words)}</text>"
