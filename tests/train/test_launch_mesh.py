"""Layouts of a cluster: what they divide, what they spread widths over, and what they refuse before anything runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from registry.core.ladder import derive
from registry.core.published import FAMILY, RACKS, SHAPES
from registry.errors import Refused
from train.launch_mesh import RACK_DEVICES, Layout, published_layout

HERO = derive(FAMILY, SHAPES["d6144"])


def layout(replica_dcn: int = 1, data: int = 1, expert: int = 1, model: int = 1) -> Layout:
    return Layout(replica_dcn=replica_dcn, data=data, expert=expert, model=model)


def test_widths_are_spread_over_all_axes_that_divide_them_else_over_the_larger_one() -> None:
    assert layout(expert=64).spreading(6144, "data", "expert") == ("expert",)
    assert layout(data=2, expert=4).spreading(16, "data", "expert") == ("data", "expert")
    assert layout(data=11, expert=64).spreading(6144, "data", "expert") == ("expert",)
    assert layout(data=11, expert=2).spreading(5, "data", "expert") == ()


@pytest.mark.parametrize("name", SHAPES)
def test_a_published_rung_fits_its_published_racks(name: str) -> None:
    held = published_layout(RACKS[name] * RACK_DEVICES, rack_devices=RACK_DEVICES)
    held.require_dividing(FAMILY, derive(FAMILY, SHAPES[name]))


@pytest.mark.parametrize(
    ("held", "complaint"),
    [
        (layout(expert=64), "369098752 assignments to 6 experts a device cannot be ordered by 32-bit numbers"),
        (layout(replica_dcn=7), "11264 sequences of a batch cannot be spread over 7 devices"),
        (layout(expert=11, replica_dcn=11), "11264 sequences of a batch cannot be spread over 121 devices"),
        (layout(expert=256, replica_dcn=11), "384 experts cannot be spread over 256 devices"),
        (layout(replica_dcn=11, expert=64, model=5), "6144 features of all heads cannot be spread over 5 devices"),
    ],
)
def test_what_a_mesh_cannot_hold_is_refused_with_a_sentence(held: Layout, complaint: str) -> None:
    with pytest.raises(Refused, match=complaint):
        held.require_dividing(FAMILY, HERO)


def test_a_vocabulary_that_the_axis_model_does_not_divide_is_refused() -> None:
    with pytest.raises(Refused, match="tokens of the vocabulary"):
        layout(replica_dcn=11, model=2).require_dividing(replace(FAMILY, vocabulary=128257), HERO)
