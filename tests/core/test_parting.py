"""Where two results part, how far they are apart, and which step a search by halves finds."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.core import canonical, transcript
from registry.core.digests import sha256
from registry.core.distances import (
    LossDistance,
    TensorDistance,
    decimal,
    heldout_losses,
    within,
    within_noise,
)
from registry.core.histories import Kept, Result, last_shared, shared_step
from registry.core.parting import Side, part
from registry.core.tensors import TensorSpec, leaf_of
from registry.core.transcript import Line, Transcript
from registry.errors import Refused

FAR = TensorDistance(name="w", dtype="float32", elements=4, differing=1, largest=0.5, apart=0.5, norm=2.0)
LOSS = LossDistance(name="step 1", recorded=3.0, found=3.5)


def lines(last: int, *, other_from: int | None = None) -> Transcript:
    told = [
        Line(
            step=step,
            loss=transcript.bits(3.0 / step),
            gradient_norm=1,
            order=f"{step:064x}",
            state=f"{step + (1000 if other_from is not None and step >= other_from else 0):016x}",
        )
        for step in range(1, last + 1)
    ]
    return Transcript(lines=tuple(told))


def leaves(**values: bytes) -> tuple:
    named = ((name, TensorSpec(name=name, dtype="uint8", shape=(len(data),)), data) for name, data in values.items())
    return tuple(leaf_of(spec, data) for _, spec, data in sorted(named))


def test_equal_sides_have_no_distance_and_are_not_measured() -> None:
    side = Side(label="a", transcript=lines(9), leaves=leaves(w=b"abc"), contents={"x": "1"})
    parting = part(side, replace(side, label="b"), lambda _: pytest.fail("measured"))
    assert (parting.equal, parting.first_step, parting.first_tensor, parting.furthest) == (True, None, None, None)


def test_nothing_compared_is_not_equal() -> None:
    assert not part(Side(label="a"), Side(label="b")).equal
    assert not part(Side(label="a", transcript=lines(2)), Side(label="b", leaves=leaves(w=b"a"))).compared


def test_the_first_step_and_tensor_are_named_and_distances_measured() -> None:
    mine = Side(label="a", transcript=lines(9), leaves=leaves(a=b"same", b=b"left", c=b"old"))
    theirs = Side(label="b", transcript=lines(9, other_from=4), leaves=leaves(a=b"same", b=b"lift", d=b"new"))
    parting = part(mine, theirs, lambda names: [replace(FAR, name=name) for name in names])
    assert (parting.first_step, parting.first_tensor) == (4, "b")
    assert [one.key for one in parting.tensors or ()] == ["b", "c", "d"]
    assert [one.name for one in parting.distances] == ["b"], "only what both have can be measured"
    assert parting.to_json()["largest_relative"] == "0.25"
    canonical.encode(parting.to_json())


def test_other_outputs_part_two_sides() -> None:
    parting = part(Side(label="a", contents={"x": "1", "y": "1"}), Side(label="b", contents={"x": "2"}))
    assert ([one.key for one in parting.contents], parting.equal) == (["x"], False)


@pytest.mark.parametrize(
    ("tensors", "losses", "tolerance", "holds"),
    [
        ([FAR], [LOSS], "0.5", True),
        ([FAR], [LOSS], "0.4", False),
        ([FAR], [], "0.25", True),
        ([FAR], [], "0.2", False),
        ([], [], "1000", False),
        ([replace(FAR, apart=None, largest=None)], [LOSS], "1000", False),
        ([replace(FAR, apart=math.inf)], [], "1000", False),
        ([replace(FAR, norm=0.0)], [], "1000", False),
        ([], [replace(LOSS, found=math.nan)], "1000", False),
        ([replace(FAR, apart=0.0, norm=0.0)], [], "0", True),
    ],
)
def test_a_tolerance_holds_for_all_or_not_at_all(tensors, losses, tolerance, holds) -> None:
    assert within(Decimal(tolerance), tensors, losses) is holds


def test_noise_is_about_the_macro_loss_alone() -> None:
    mine, theirs = (
        canonical.encode({"domains": {"code": {"loss": code}}, "macro": {"loss": macro}}) + b"\n"
        for code, macro in (("3", "2.5"), ("9", "2.51"))
    )
    losses = heldout_losses(mine, theirs)
    assert [one.name for one in losses] == ["heldout/code", "heldout/macro"]
    assert within_noise(Decimal("0.02"), losses)
    assert not within_noise(Decimal("0.001"), losses)
    assert not within_noise(Decimal(9), losses[:1])
    assert heldout_losses(b"no json", theirs) == ()


@pytest.mark.parametrize("text", ["", "x", "-1", "nan", "inf"])
def test_odd_tolerances_are_refused(text: str) -> None:
    with pytest.raises(Refused):
        decimal(text, "tolerance")


@given(st.lists(st.integers(min_value=1, max_value=10**6), unique=True).map(sorted), st.integers(0, 10**6))
def test_the_search_by_halves_finds_the_border(steps: list[int], border: int) -> None:
    asked = []

    def same(step: int) -> bool:
        asked.append(step)
        return step < border

    low, high = last_shared(steps, same)
    assert low == max((one for one in steps if one < border), default=None)
    assert high == min((one for one in steps if one >= border), default=None)
    assert len(asked) <= len(steps).bit_length()


def history(label: str, *steps: int | None, step: int | None = None) -> Result:
    kept = {one: Kept(place=None, root=sha256(b"x")) for one in steps}
    return Result(side=Side(label=label), step=step, kept=kept)


def test_two_histories_are_compared_at_a_step_of_both() -> None:
    assert shared_step(history("a", 3, 6, 9), history("b", 3, 6)) == 6
    assert shared_step(history("a", 3, 6, 9, step=3), history("b", 3, 6)) == 3
    assert shared_step(history("a", 3, 6, step=6), history("b", None)) == 6
    assert shared_step(history("a", None), history("b", None)) is None
    for other in (history("b", 4, 5), history("b", 6, step=4)):
        with pytest.raises(Refused, match="no step"):
            shared_step(history("a", 3, 6, 9, step=6), other)
