"""The picture of a foreign ladder's law, fitted again: two laws, the rungs, and what is said of the run.

A deterministic SVG: coordinates are rounded to a tenth of a unit, so that the last bits of floating point do not show.
Text is escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

from train.picture import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Frame
from train.refit_ladder import Ladder
from train.scaling import Point, Posterior, Prediction

_SAMPLES = 7
_COLOURS = ("#1f5fa8", "#b9770e", "#7d7d7d")
_DASHES = ("none", "6 3", "2 3")
_STYLE = (
    "text{font:12px sans-serif;fill:#222}.g{stroke:#e4e4e4}.p{fill:#222}.c{fill:none;stroke:#222;stroke-width:1.5}"
    ".b{fill:#8ab6e8;fill-opacity:.35}.x{stroke:#c0392b;stroke-width:2.5}.tx{fill:#c0392b}"
    + "".join(
        f".l{n}{{fill:none;stroke:{colour};stroke-width:2;stroke-dasharray:{_DASHES[n]}}}"
        f".r{n}{{stroke:{colour};stroke-width:3;fill:{colour}}}.t{n}{{fill:{colour}}}"
        for n, colour in enumerate(_COLOURS)
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One law of the picture."""

    name: str
    law: Posterior


def draw(told: Ladder, curves: Sequence[Curve], level: float) -> bytes:
    """The SVG: ``curves`` are at most three, the first with its interval as a band."""
    points = [point for _, point in (*told.finished, *told.cut)]
    scales = [point.scale for point in points]
    drawn = [_sampled(curve.law, min(scales), float(told.scale), level) for curve in curves]
    losses = [point.loss for point in points] + [told.published]
    losses += [bound for line in drawn for _, one in line for bound in (one.low, one.high)]
    room = 0.05 * (max(losses) - min(losses))
    frame = Frame(
        scales=(log10(min(scales)) - 0.15, log10(told.scale) + 0.45),
        losses=(min(losses) - room, max(losses) + room),
    )
    parts = [*_axes(frame)]
    for order, line in enumerate(drawn):
        parts += _curve(frame, order, line)
    parts += [
        *_rungs(frame, told),
        *_answers(frame, told, [line[-1][1] for line in drawn]),
        *_titles(curves, drawn, level),
    ]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}">'
        f"<style>{_STYLE}</style>"
    )
    return "\n".join([head, f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>', *parts, "</svg>", ""]).encode()


def _sampled(law: Posterior, low: float, high: float, level: float) -> list[tuple[float, Prediction]]:
    step = (log10(high) - log10(low)) / (_SAMPLES - 1)
    scales = [*(10 ** (log10(low) + index * step) for index in range(_SAMPLES - 1)), high]
    return [(scale, law.predict(scale, level)) for scale in scales]


def _axes(frame: Frame) -> Iterator[str]:
    for decade in range(ceil(frame.scales[0]), floor(frame.scales[1]) + 1):
        x = frame.x(10.0**decade)
        yield f'<path class="g" d="M{x} {TOP}V{HEIGHT - BOTTOM}"/>'
        yield _text(x, HEIGHT - BOTTOM + 18, f"1e{decade}", "middle")
    for index in range(ceil(frame.losses[0] / 0.2), floor(frame.losses[1] / 0.2) + 1):
        y = frame.y(index * 0.2)
        yield f'<path class="g" d="M{LEFT} {y}H{WIDTH - RIGHT}"/>'
        yield _text(LEFT - 8, float(y) + 4, f"{index * 0.2:.1f}", "end")
    yield _text(WIDTH / 2, HEIGHT - 12, "training FLOPs, by the ladder's arithmetic", "middle")
    yield _text(8, TOP - 10, "final loss, Paloma macro average", "start")


def _curve(frame: Frame, order: int, line: Sequence[tuple[float, Prediction]]) -> Iterator[str]:
    above = [f"{frame.x(scale)} {frame.y(one.high)}" for scale, one in line]
    below = [f"{frame.x(scale)} {frame.y(one.low)}" for scale, one in reversed(line)]
    middle = [f"{frame.x(scale)} {frame.y(one.median)}" for scale, one in line]
    if order == 0:
        yield f'<path class="b" d="M{"L".join([*above, *below])}Z"/>'
    yield f'<path class="l{order}" d="M{"L".join(middle)}"/>'


def _rungs(frame: Frame, told: Ladder) -> Iterator[str]:
    for name, point in told.finished:
        x, y = _at(frame, point)
        yield f'<circle class="p" cx="{x}" cy="{y}" r="4"/>'
        yield _text(x + 7, y - 7, f"{_short(name)} {point.loss:.4f}", "start")
    for name, point in told.cut:
        x, y = _at(frame, point)
        arrow = f"M{x - 5:.1f} {y}h10m-5 0v20m-4 -6l4 6l4 -6"
        yield f'<path class="c" d="{arrow}"/>'
        yield _text(x + 8, y - 6, f"{_short(name)} below {point.loss:.4f}: cut short", "start")


def _answers(frame: Frame, told: Ladder, answers: Sequence[Prediction]) -> Iterator[str]:
    """Intervals of the run side by side, and the published figure across them."""
    x = float(frame.x(float(told.scale)))
    for order, one in enumerate(answers):
        low, high, middle = (float(frame.y(value)) for value in (one.low, one.high, one.median))
        at = round(x + 14 * order, 1)
        yield f'<path class="r{order}" d="M{at} {low}V{high}"/><circle class="r{order}" cx="{at}" cy="{middle}" r="4"/>'
    y = float(frame.y(told.published))
    yield f'<path class="x" d="M{x - 10:.1f} {y}H{x + 24:.1f}"/>'
    yield _text(x - 14, y + 4, f"published {told.published:.2f}", "end", "tx")


def _titles(
    curves: Sequence[Curve], drawn: Sequence[Sequence[tuple[float, Prediction]]], level: float
) -> Iterator[str]:
    right = WIDTH - RIGHT - 6
    yield _text(right, TOP + 14, f"the run's final loss, {level * 100:g} % interval", "end")
    for order, (curve, line) in enumerate(zip(curves, drawn, strict=True)):
        one = line[-1][1]
        words = f"{curve.name.replace('-', ' ')}: {one.median:.3f}, {one.low:.3f} to {one.high:.3f}"
        yield _text(right, TOP + 30 + 16 * order, words, "end", f"t{order}")


def _at(frame: Frame, point: Point) -> tuple[float, float]:
    return float(frame.x(point.scale)), float(frame.y(point.loss))


def _short(name: str) -> str:
    return name.rpartition("/")[2]


def _text(x: float | str, y: float | str, words: str, anchor: str, kind: str = "") -> str:
    chosen = f' class="{kind}"' if kind else ""
    return f'<text{chosen} x="{float(x):.1f}" y="{float(y):.1f}" text-anchor="{anchor}">{escape(words)}</text>'
