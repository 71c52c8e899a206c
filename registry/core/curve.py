"""The picture of a run: its loss by step, where one segment ends and the next begins, and what happened, as an SVG.

Deterministic: the losses are the bits of the transcripts, averaged over the steps that fall into one column, and every
coordinate is rounded to a tenth of a unit. Text is escaped. Refuses a run of fewer than two steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, isfinite, log10
from typing import Final

from registry.core import transcript
from registry.core.transcript import Transcript
from registry.errors import DoesNotHold

WIDTH, HEIGHT = 720, 360
LEFT, RIGHT, TOP, BOTTOM = 56, 20, 40, 48
COLUMNS: Final = 300
_STYLE = (
    "text{font:12px sans-serif;fill:#222}.g{stroke:#ddd}.l{fill:none;stroke:#1f5fa8;stroke-width:1.5}"
    ".s{stroke:#222;stroke-dasharray:4 3}.i{fill:#c0392b;fill-opacity:.25}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """Something on a range of steps, both included."""

    first: int
    last: int
    text: str


@dataclass(frozen=True, slots=True)
class _Frame:
    steps: tuple[int, int]
    losses: tuple[float, float]

    def x(self, step: float) -> str:
        share = (step - self.steps[0]) / (self.steps[1] - self.steps[0])
        return f"{LEFT + share * (WIDTH - LEFT - RIGHT):.1f}"

    def y(self, loss: float) -> str:
        share = (loss - self.losses[0]) / (self.losses[1] - self.losses[0])
        return f"{HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM):.1f}"


def draw(title: str, run: Transcript, borders: Sequence[int], marked: Sequence[Marked]) -> bytes:
    """The SVG of a run. ``borders`` are the last steps of its segments; losses are in nats per token."""
    points = list(_columns(run))
    if len(points) < 2:
        raise DoesNotHold("A run of fewer than two steps has no curve.")
    low, high = min(loss for _, loss in points), max(loss for _, loss in points)
    room = max(0.05 * (high - low), 1e-6 * abs(high), 1e-3)
    frame = _Frame((run.lines[0].step, run.lines[-1].step), (low - room, high + room))
    parts = [*_axes(frame), *_marks(frame, marked), *_borders(frame, borders), _line(frame, points)]
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{_STYLE}</style>'
    background = f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>'
    return "\n".join([head, background, *parts, _text(8, 18, title, "start"), "</svg>", ""]).encode()


def _columns(run: Transcript) -> Iterator[tuple[float, float]]:
    """Mean step and mean loss of every column; losses that are no numbers leave a gap."""
    count = min(COLUMNS, len(run.lines))
    for column in range(count):
        part = run.lines[len(run.lines) * column // count : len(run.lines) * (column + 1) // count]
        losses = [loss for loss in (transcript.number(one.loss) for one in part) if isfinite(loss)]
        if losses:
            yield sum(one.step for one in part) / len(part), sum(losses) / len(losses)


def _axes(frame: _Frame) -> Iterable[str]:
    for value, y in _ticks(frame.losses):
        yield f'<path class="g" d="M{LEFT} {frame.y(y)}H{WIDTH - RIGHT}"/>'
        yield _text(LEFT - 6, float(frame.y(y)) + 4, value, "end")
    for value, x in _ticks((float(frame.steps[0]), float(frame.steps[1]))):
        yield _text(float(frame.x(x)), HEIGHT - BOTTOM + 18, value, "middle")
    yield _text(WIDTH / 2, HEIGHT - 10, "completed updates", "middle")
    yield _text(8, TOP - 4, "training loss, nats per token", "start")


def _ticks(bounds: tuple[float, float]) -> Iterator[tuple[str, float]]:
    """Round values within the bounds, four to ten of them, as they are written."""
    unit = 10 ** floor(log10(bounds[1] - bounds[0]))
    step = next(unit * share for share in (0.1, 0.2, 0.5, 1) if (bounds[1] - bounds[0]) / (unit * share) <= 10)
    for index in range(ceil(bounds[0] / step), floor(bounds[1] / step) + 1):
        yield f"{index * step:.{max(0, -floor(log10(step)))}f}", index * step


def _marks(frame: _Frame, marked: Sequence[Marked]) -> Iterable[str]:
    for one in marked:
        first, last = max(one.first, frame.steps[0]), min(one.last, frame.steps[1])
        if first <= last:
            left, right = float(frame.x(first)), float(frame.x(last))
            place = f'x="{left:.1f}" y="{TOP}" width="{max(right - left, 2.0):.1f}" height="{HEIGHT - TOP - BOTTOM}"'
            yield f'<rect class="i" {place}><title>{escape(one.text)}</title></rect>'


def _borders(frame: _Frame, borders: Sequence[int]) -> Iterable[str]:
    for step in borders[:-1]:
        yield f'<path class="s" d="M{frame.x(step)} {TOP}V{HEIGHT - BOTTOM}"/>'


def _line(frame: _Frame, points: Sequence[tuple[float, float]]) -> str:
    return f'<path class="l" d="M{"L".join(f"{frame.x(step)} {frame.y(loss)}" for step, loss in points)}"/>'


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'
