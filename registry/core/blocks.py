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


def region_shape(shape: tuple[int, ...], grid: tuple[int, ...], most: int, least_run: int) -> tuple[int, ...] | None:
    """A shape of boxes that cover an array, each made of whole cells of ``grid`` and of at most ``most`` elements.

    The boxes are as long as they can be along the last axes, so that their elements lie in long runs of the C order.
    ``None`` when there is no such shape, or it has several runs and one is shorter than ``least_run`` elements.
    """
    extents = [min(step, size) for step, size in zip(grid, shape, strict=True)]
    for axis in reversed(range(len(shape))):
        room = most * extents[axis] // max(1, math.prod(extents))
        if room < shape[axis]:
            extents[axis] = max(extents[axis], room // grid[axis] * grid[axis])
            break
        extents[axis] = shape[axis]
    chosen = tuple(extents)
    several = runs(shape, chosen) > 1 and math.prod(chosen) // runs(shape, chosen) < least_run
    return None if math.prod(chosen) > most or several else chosen


def runs(shape: tuple[int, ...], box: tuple[int, ...]) -> int:
    """In how many runs of the C order the elements of a box of an array lie."""
    return math.prod(box[: _last_cut(shape, box)])


def run_starts(shape: tuple[int, ...], box: Box) -> Iterator[int]:
    """Where the runs of a box begin in the C order of an array, counted in elements."""
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    origin = sum(begin * stride for begin, stride in zip(box.begin, strides, strict=True))
    for at in product(*(range(size) for size in box.shape[: _last_cut(shape, box.shape)])):
        yield origin + sum(index * stride for index, stride in zip(at, strides, strict=False))


def tiled(shape: tuple[int, ...], extents: tuple[int, ...]) -> Iterator[Box]:
    """Boxes of shape ``extents`` that cover an array, in C order; those at its end may be smaller."""
    whole = Box(begin=(0,) * len(shape), end=shape)
    return (overlap(whole, cell, extents) for cell in cells(whole, extents))


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


def _last_cut(shape: tuple[int, ...], box: tuple[int, ...]) -> int:
    """The last axis along which a box is not all of the array; its elements and those after it lie in one run."""
    return max((axis for axis, size in enumerate(shape) if box[axis] != size), default=0)


def _within(shape: tuple[int, ...], row: int, span: tuple[int, int]) -> Iterator[Box]:
    for inner in boxes(shape[1:], *span):
        yield Box(begin=(row, *inner.begin), end=(row + 1, *inner.end))


def _axes(box: Box, grid: tuple[int, ...]) -> Iterator[tuple[int, int, int]]:
    return zip(box.begin, box.end, grid, strict=True)
