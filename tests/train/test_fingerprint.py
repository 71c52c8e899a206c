"""The fingerprint sees every bit and every place, and is the same on the host and under any sharding."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.errors import Refused
from train import fingerprint
from train.fingerprint import of_arrays, text

pytestmark = pytest.mark.slow  # JAX

RANDOM = np.random.default_rng(0)
ARRAYS: Mapping[str, np.ndarray] = {
    "model/a": RANDOM.normal(size=(3, 5, 7)).astype(np.float32),
    "model/b": RANDOM.normal(size=(3, 5, 7)).astype(np.float32),
    "model/c": RANDOM.normal(size=(6,)).astype(jnp.bfloat16),
    "flags": np.asarray([True, False, True]),
    "bytes": np.arange(5, dtype=np.uint8),
    "step": np.asarray(7, np.int32),
}
EMPTY = {"empty": np.zeros((0, 4), np.float32)}


def lanes(arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    return of_arrays(arrays)


def changed(**arrays: np.ndarray) -> np.ndarray:
    return lanes({**ARRAYS, **{name.replace("__", "/"): value for name, value in arrays.items()}})


def test_the_device_gives_what_the_host_gives() -> None:
    for arrays in (ARRAYS, {**ARRAYS, **EMPTY}):
        on_device = jax.jit(fingerprint.fingerprint)({name: jnp.asarray(value) for name, value in arrays.items()})
        assert text(on_device) == text(lanes(arrays))


@given(place=st.integers(min_value=0, max_value=104), up=st.booleans())
def test_one_ulp_in_one_element_changes_both_lanes(place: int, up: bool) -> None:
    array = ARRAYS["model/a"].copy()
    flat = array.reshape(-1)
    flat[place] = np.nextafter(flat[place], np.float32(np.inf if up else -np.inf))
    assert not np.any(changed(model__a=array) == lanes(ARRAYS))


@given(bit=st.integers(min_value=0, max_value=31), place=st.integers(min_value=0, max_value=104))
def test_any_bit_changes_both_lanes(bit: int, place: int) -> None:
    array = ARRAYS["model/a"].copy()
    array.reshape(-1).view(np.uint32)[place] ^= np.uint32(1 << bit)
    assert not np.any(changed(model__a=array) == lanes(ARRAYS))


@given(pair=st.lists(st.integers(min_value=0, max_value=104), min_size=2, max_size=2, unique=True))
def test_two_elements_in_each_others_place_are_seen(pair: list[int]) -> None:
    array = ARRAYS["model/a"].copy()
    array.reshape(-1)[pair] = array.reshape(-1)[pair[::-1]]
    assert not np.any(changed(model__a=array) == lanes(ARRAYS))


def test_two_leaves_in_each_others_place_are_seen() -> None:
    swapped = changed(model__a=ARRAYS["model/b"], model__b=ARRAYS["model/a"])
    assert not np.any(swapped == lanes(ARRAYS))


def test_name_shape_and_dtype_of_a_leaf_count() -> None:
    array = ARRAYS["model/a"]
    variants = [
        {"w": array},
        {"v": array},
        {"w": array.reshape(5, 3, 7)},
        {"w": array.reshape(-1)},
        {"w": array.view(np.int32)},
        {"w": array, **EMPTY},
    ]
    found = [text(lanes(one)) for one in variants]
    assert len(set(found[:-1])) == len(variants) - 1
    assert found[-1] == found[0], "a leaf without words adds nothing"


def test_zero_and_minus_zero_and_kinds_of_nan_differ() -> None:
    words = np.asarray([0, 0x80000000, 0x7FC00000, 0x7FC00001], np.uint32)
    found = {text(lanes({"w": word.reshape(1).view(np.float32)})) for word in words}
    assert len(found) == len(words)


def test_places_beyond_the_low_word_count(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = text(lanes({"w": ARRAYS["model/a"]}))
    monkeypatch.setattr(fingerprint, "_MOST", 35)
    arrays = {"w": ARRAYS["model/a"]}
    split = text(lanes(arrays))
    assert split != whole
    assert text(jax.jit(fingerprint.fingerprint)({"w": jnp.asarray(arrays["w"])})) == split
    array = ARRAYS["model/a"].copy()
    array[[0, 1]] = array[[1, 0]]  # the same low words, other high ones
    assert text(lanes({"w": array})) != split
    monkeypatch.setattr(fingerprint, "_MOST", 4)
    with pytest.raises(Refused, match="too large"):
        lanes(arrays)


def test_items_of_eight_bytes_are_two_words_and_odd_items_are_refused() -> None:
    wide = np.asarray([1, 2**40], np.int64)
    assert text(lanes({"w": wide})) != text(lanes({"w": np.asarray([1, 2**41], np.int64)}))
    with pytest.raises(Refused, match="complex"):
        lanes({"w": np.zeros(2, np.complex64)})


def test_any_sharding_gives_the_same() -> None:
    """Eight devices: one, two and eight of them, along either axis, and Levanter's default mesh give one value."""
    script = """
import json, jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from train.fingerprint import fingerprint, of_arrays, text
random = np.random.default_rng(0)
arrays = {"a": random.normal(size=(16, 24)).astype(np.float32), "b": random.normal(size=(24, 16)).astype(np.float32)}
found = [text(of_arrays(arrays))]
for count in (1, 2, 8):
    mesh = Mesh(np.asarray(jax.devices()[:count]), ("x",))
    for spec in (PartitionSpec("x", None), PartitionSpec(None, "x"), PartitionSpec()):
        placed = {name: jax.device_put(value, NamedSharding(mesh, spec)) for name, value in arrays.items()}
        found.append(text(jax.jit(fingerprint)(placed)))
mesh = Mesh(np.asarray(jax.devices()).reshape(2, 4), ("x", "y"))
placed = {n: jax.device_put(v, NamedSharding(mesh, PartitionSpec("y", "x"))) for n, v in arrays.items()}
found.append(text(jax.jit(fingerprint)(placed)))
print(json.dumps([jax.device_count(), found]))
"""
    variables = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    done = subprocess.run([sys.executable, "-c", script], env=variables, check=True, capture_output=True, text=True)
    count, found = json.loads(done.stdout)
    assert count == 8
    assert len(found) == 11
    assert len(set(found)) == 1
