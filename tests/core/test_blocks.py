"""Boxes in C order, against numpy's own indexing."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from registry.core.blocks import Box, boxes, cells, overlap, region_shape, run_starts, runs, tiled, touched

SHAPES = st.lists(st.integers(0, 5), max_size=4).map(tuple)


@st.composite
def ranges(draw):
    shape = draw(SHAPES)
    elements = math.prod(shape)
    start = draw(st.integers(0, elements))
    return shape, start, draw(st.integers(start, elements))


def region(box):
    return tuple(slice(begin, end) for begin, end in zip(box.begin, box.end, strict=True))


@given(ranges())
def test_boxes_hold_exactly_the_range_in_c_order(case):
    shape, start, stop = case
    array = np.arange(math.prod(shape)).reshape(shape)
    found = [array[region(box)] for box in boxes(shape, start, stop)]
    assert np.concatenate([np.empty(0, int), *(part.reshape(-1) for part in found)]).tolist() == list(
        range(start, stop)
    )
    assert len(found) <= max(1, 2 * len(shape))


@given(ranges())
def test_boxes_know_their_shape(case):
    shape, start, stop = case
    found = list(boxes(shape, start, stop))
    assert sum(box.elements for box in found) == stop - start
    assert all(box.elements == math.prod(box.shape) > 0 for box in found)


@given(ranges(), st.lists(st.integers(1, 4), min_size=4, max_size=4))
def test_the_cells_of_a_grid_cut_a_box_without_gap_or_overlap(case, sizes):
    shape, start, stop = case
    grid = tuple(sizes[: len(shape)])
    for box in boxes(shape, start, stop):
        seen = np.zeros(shape, int)
        for cell in cells(box, grid):
            seen[region(overlap(box, cell, grid))] += 1
        inside = np.zeros(shape, int)
        inside[region(box)] = 1
        assert (seen == inside).all()
        assert touched(box, grid) == len(list(cells(box, grid)))


def test_a_scalar_is_one_box():
    assert list(boxes((), 0, 1)) == [Box(begin=(), end=())]
    assert list(cells(Box(begin=(), end=()), ())) == [()]


@given(ranges(), st.lists(st.integers(1, 4), min_size=4, max_size=4), st.integers(1, 300), st.integers(1, 20))
def test_a_region_is_bounded_and_made_of_whole_cells(case, sizes, most, least_run):
    shape, _, _ = case
    grid = tuple(sizes[: len(shape)])
    extents = region_shape(shape, grid, most, least_run)
    if extents is None or not math.prod(shape):
        return
    assert math.prod(extents) <= most
    assert all(extent == size or extent % step == 0 for extent, size, step in zip(extents, shape, grid, strict=True))
    assert runs(shape, extents) == 1 or math.prod(extents) // runs(shape, extents) >= least_run


@given(ranges(), st.lists(st.integers(1, 4), min_size=4, max_size=4))
def test_tiles_and_their_runs_are_the_whole_array(case, sizes):
    shape, _, _ = case
    array = np.arange(math.prod(shape)).reshape(shape)
    seen = np.zeros(array.size, int)
    for box in tiled(shape, tuple(sizes[: len(shape)])):
        elements = array[region(box)].reshape(-1)
        length = len(elements) // runs(shape, box.shape)
        for number, start in enumerate(run_starts(shape, box)):
            assert elements[number * length : (number + 1) * length].tolist() == list(range(start, start + length))
            seen[start : start + length] += 1
    assert (seen == 1).all()


def test_experts_stored_across_each_other_are_read_in_long_runs():
    """As tensorstore cuts a large array of experts: rows of one expert lie together, and each block is read once."""
    extents = region_shape((384, 6144, 2048), (96, 96, 64), 2**25, 2**15)
    assert extents == (96, 96, 2048)
    assert runs((384, 6144, 2048), extents) == 96
