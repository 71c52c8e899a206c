"""All five published rungs, every column, at the precision that was printed."""

import dataclasses

import pytest

from registry.core.ladder import derive
from registry.core.published import COLUMNS, FAMILY, FIGURES, SHAPES, agrees

EVERY_CELL = [(rung, column) for rung in SHAPES for column in COLUMNS]


@pytest.mark.parametrize(("name", "column"), EVERY_CELL)
def test_the_shape_alone_gives_the_published_figure(name: str, column: str) -> None:
    rung = derive(FAMILY, SHAPES[name])
    published = FIGURES[name][column]
    assert agrees(rung, column, published), f"derived {getattr(rung, column)}, published {published}"


@pytest.mark.parametrize(
    ("column", "other"),
    [("steps", "11421"), ("flops", "5.6e19"), ("muonh_lr", "0.01583"), ("epsilon", "1.04e-15"), ("label", "1.6B-A62M")],
)
def test_another_last_digit_is_told_apart(column: str, other: str) -> None:
    assert not agrees(derive(FAMILY, SHAPES["d768"]), column, other)


def test_a_neighbouring_shape_has_other_figures() -> None:
    wider = dataclasses.replace(SHAPES["d768"], layers=9)
    rung = derive(FAMILY, wider)
    assert not any(agrees(rung, column, FIGURES["d768"][column]) for column in ("steps", "flops", "active_parameters"))
