"""The map of an export: what works out, what is refused, and what applying it gives."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.core import canonical
from registry.core.codec import Reader
from registry.core.tensor_map import LeftOut, Part, Rule, TensorMap
from registry.core.tensor_operations import Cast, Reshape, Take, Transpose, form_after, perform, read_operation
from registry.core.tensors import TensorSpec
from registry.errors import DoesNotHold, MalformedRecord

STACKED = TensorSpec(name="model/w", dtype="float32", shape=(2, 3, 4))
NORM = TensorSpec(name="model/norm", dtype="float32", shape=(4,))


def rule(name: str, shape: tuple[int, ...], *operations: object, leaf: str = "model/w", dtype: str = "float32") -> Rule:
    part = Part(leaf=leaf, operations=operations)  # type: ignore[arg-type]
    return Rule(target=TensorSpec(name=name, dtype=dtype, shape=shape), parts=(part,))


def good() -> TensorMap:
    return TensorMap(
        leaves=(NORM, STACKED),
        rules=(
            rule("layer.0", (4, 3), Take(0), Transpose((1, 0))),
            rule("layer.1", (4, 3), Take(1), Transpose((1, 0))),
            rule("norm", (2, 2), Reshape((2, 2)), leaf="model/norm"),
        ),
        left_out=(LeftOut(leaf="model/pending", reason="a buffer that is empty after each step"),),
    )


def test_a_map_comes_back_from_its_bytes() -> None:
    data = canonical.encode(good().to_json())
    assert TensorMap.read(Reader(canonical.decode(data), "the map")) == good()


def test_applied_it_gives_what_numpy_gives() -> None:
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    operations = (Take(1), Transpose((1, 0)), Reshape((2, 6)), Cast("float16"))
    found = perform(operations, array, "float32", lambda one, old, new: one.astype(new) if old == "float32" else None)
    assert found.dtype == np.float16
    assert np.array_equal(found, array[1].T.reshape(2, 6))


@given(
    shape=st.lists(st.integers(1, 3), min_size=1, max_size=4).map(tuple),
    seed=st.randoms(use_true_random=False),
)
def test_the_form_is_that_of_the_array(shape: tuple[int, ...], seed) -> None:
    """Whatever the operations, the form told in advance is the one that numpy's array has."""
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    takes = [Take(seed.randrange(size)) for size in shape[: seed.randrange(len(shape))]]
    left = len(shape) - len(takes)
    axes = tuple(seed.sample(range(left), left))
    elements = int(np.prod(shape[len(takes) :]))
    operations = (*takes, Transpose(axes), Reshape((elements,)))
    found = perform(operations, array, "float32", lambda one, _, __: one)
    assert form_after(operations, "float32", shape) == (found.dtype.name, found.shape)
    part = Part(leaf="model/w", operations=operations)
    leaf = TensorSpec(name="model/w", dtype="float32", shape=shape)
    start, size = part.start_byte(leaf), part.sliced(leaf).size_bytes
    piece = np.frombuffer(array.tobytes()[start : start + size], np.float32).reshape(part.sliced(leaf).shape)
    assert np.array_equal(perform(part.rest, piece, "float32", lambda one, _, __: one), found)


def test_parts_are_joined() -> None:
    parts = tuple(Part(leaf="model/w", operations=(Take(layer),)) for layer in range(2))
    target = TensorSpec(name="both", dtype="float32", shape=(6, 4))
    joined = TensorMap(leaves=(STACKED,), rules=(Rule(target=target, parts=parts, axis=0),))
    assert TensorMap.read(Reader(joined.to_json(), "the map")) == joined
    with pytest.raises(MalformedRecord, match="makes"):
        TensorMap(leaves=(STACKED,), rules=(Rule(target=target, parts=parts, axis=1),))
    with pytest.raises(MalformedRecord, match="cannot be joined"):
        TensorMap(leaves=(STACKED,), rules=(Rule(target=target, parts=parts, axis=2),))
    with pytest.raises(MalformedRecord, match="one part, or several and an axis"):
        TensorMap(leaves=(STACKED,), rules=(Rule(target=target, parts=parts),))


@pytest.mark.parametrize(
    ("rules", "complaint"),
    [
        ((rule("a", (3, 4), Take(0)),), "does not use all of the leaf 'model/w'"),
        ((rule("a", (4,), Take(0), Take(0)), rule("b", (3, 4), Take(1))), "does not use all"),
        ((rule("a", (3, 4), Take(2)),), "no slice 2"),
        ((rule("a", (3, 4), Take(-1)),), "no slice -1"),
        ((rule("a", (2, 3, 4), Transpose((0, 1))),), "no order of the axes"),
        ((rule("a", (2, 3, 4), Transpose((0, 1, 1))),), "no order of the axes"),
        ((rule("a", (5, 5), Reshape((5, 5))),), r"cannot have the shape \[5, 5\]"),
        ((rule("a", (24,), Reshape((-1, -24))),), "cannot have the shape"),
        ((rule("a", (2, 3, 4), Cast("int8"), dtype="int8"),), "cannot cast float32 to int8"),
        ((rule("a", (2, 3, 4), dtype="bfloat16"),), "makes float32"),
        ((rule("a", (2, 4, 3)),), r"makes float32\[2, 3, 4\]"),
        ((rule("a", (4,), leaf="model/other"),), "leaves that are not listed: model/other"),
        ((rule("b", (2, 3, 4)), rule("a", (2, 3, 4))), "twice or out of order"),
        ((rule("a", (2, 3, 4)), rule("a", (2, 3, 4))), "twice or out of order"),
        ((), "does not use all"),
    ],
)
def test_a_map_that_does_not_work_out_is_refused(rules: tuple[Rule, ...], complaint: str) -> None:
    with pytest.raises(MalformedRecord, match=complaint):
        TensorMap(leaves=(STACKED,), rules=rules)


def test_slices_come_first() -> None:
    with pytest.raises(MalformedRecord, match="after other operations"):
        Part(leaf="model/w", operations=(Transpose((1, 0)), Take(0)))


def test_a_leaf_is_used_or_left_out_not_both() -> None:
    with pytest.raises(MalformedRecord, match="twice"):
        TensorMap(
            leaves=(STACKED,), rules=(rule("a", (2, 3, 4)),), left_out=(LeftOut(leaf="model/w", reason="a mistake"),)
        )


@pytest.mark.slow
def test_nothing_of_a_checkpoint_is_left_out_in_silence() -> None:
    pending = TensorSpec(name="model/pending", dtype="int32", shape=())
    other = TensorSpec(name="opt_state/mu", dtype="float32", shape=(2, 3, 4))
    good().require_all_of([NORM, STACKED, pending, other])
    bias = TensorSpec(name="model/router_bias", dtype="float32", shape=(8,))
    with pytest.raises(DoesNotHold, match="says nothing of model/router_bias"):
        good().require_all_of([NORM, STACKED, pending, bias])
    with pytest.raises(DoesNotHold, match="speaks of model/pending that is not there"):
        good().require_all_of([NORM, STACKED])
    with pytest.raises(DoesNotHold, match="other dtypes or shapes than the map: model/w"):
        good().require_all_of([NORM, replace(STACKED, shape=(2, 4, 3)), pending])


@pytest.mark.parametrize(
    "text",
    [
        '{"take": true}', '{"take": "0"}', '{"take": 0, "more": 1}', '{"transpose": 1}', '{"transpose": [0, "1"]}',
        '{"reshape": "12"}', '{"reshape": [true]}', '{"cast": 1}', '{"flip": 0}', "[]", "null", "{}", '"take"',
    ],
)  # fmt: skip
def test_a_foreign_operation_is_refused(text: str) -> None:
    with pytest.raises(MalformedRecord):
        read_operation(json.loads(text))


def test_hostile_sizes_are_told_apart_at_once() -> None:
    """A leaf of 2**40 slices of which one is used: nothing counts to 2**40."""
    leaf = TensorSpec(name="model/w", dtype="float32", shape=(2**40, 1))
    with pytest.raises(MalformedRecord, match="does not use all"):
        TensorMap(leaves=(leaf,), rules=(rule("a", (1,), Take(2**39)),))
