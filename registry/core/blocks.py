"""C order as arithmetic: which boxes of an array hold a range of its elements, and which cells of a grid they touch.

Refuses nothing: callers check their ranges.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """The part ``[begin, end)`` of an array, axis by axis. Its elements follow each other in C order."""

    begin: tuple[int, ...]
    end: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements along each axis."""
        return tuple(end - begin for begin, end in zip(self.begin, self.end, strict=True))

    @property
    def elements(self) -> int:
        """Elements in all."""
        return math.prod(self.shape)


def boxes(shape: tuple[int, ...], start: int, stop: int) -> Iterator[Box]:
    """The fewest boxes that hold the elements ``start`` to ``stop`` of an array, in C order.

    A box is one index on its leading axes, a range on one axis and all of every axis after it.
    """
    if start >= stop:
        return
    if not shape:
        yield Box(begin=(), end=())
        return
    row = math.prod(shape[1:])
    first, into_first = divmod(start, row)
    last, into_last = divmod(stop, row)
    if first == last:
        yield from _within(shape, first, (into_first, into_last))
        return
    if into_first:
        yield from _within(shape, first, (into_first, row))
        first += 1
    if first < last:
        yield Box(begin=(first, *(0 for _ in shape[1:])), end=(last, *shape[1:]))
    yield from _within(shape, last, (0, into_last))


def cells(box: Box, grid: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The cells of a regular grid with cells of shape ``grid`` that a box touches, in C order."""
    return product(*(range(begin // size, -(-end // size)) for begin, end, size in _axes(box, grid)))


def touched(box: Box, grid: tuple[int, ...]) -> int:
    """How many cells :func:`cells` gives."""
    return math.prod(-(-end // size) - begin // size for begin, end, size in _axes(box, grid))


def overlap(box: Box, cell: tuple[int, ...], grid: tuple[int, ...]) -> Box:
    """The part of a box that lies in one cell of a grid."""
    return Box(
        begin=tuple(max(begin, at * size) for begin, at, size in zip(box.begin, cell, grid, strict=True)),
        end=tuple(min(end, (at + 1) * size) for end, at, size in zip(box.end, cell, grid, strict=True)),
    )


def _within(shape: tuple[int, ...], row: int, span: tuple[int, int]) -> Iterator[Box]:
    for inner in boxes(shape[1:], *span):
        yield Box(begin=(row, *inner.begin), end=(row + 1, *inner.end))


def _axes(box: Box, grid: tuple[int, ...]) -> Iterator[tuple[int, int, int]]:
    return zip(box.begin, box.end, grid, strict=True)
