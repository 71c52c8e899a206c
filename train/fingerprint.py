"""A fingerprint of a whole training state, computed where the state lies, in integer arithmetic.

Two 32-bit lanes. Each is the sum modulo 2**32 over every word of every leaf of a mixer of (bits of the word, its index
in the leaf), keyed by the leaf's name, dtype and shape. Integer sums do not depend on their order, so the value is the
same under any sharding and on any device. It shows divergence; it is no cryptographic hash. The definition, with
constants, is in ``registry/decisions/0006-fingerprint.md``. Refuses leaves whose items are neither 1, 2, 4 nor 8 bytes.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import DTypeLike

from registry.errors import Refused

LANES: Final = 2
MULTIPLIERS: Final = ((0x9E3779B1, 0x85EBCA6B), (0xC2B2AE3D, 0x27D4EB2F))
_MOST: Final = 2**32
_WORDS: Final[Mapping[int, type[np.unsignedinteger[Any]]]] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint32}


def fingerprint(leaves: Mapping[str, jax.Array]) -> jax.Array:
    """The fingerprint of named leaves: uint32 of shape (2,). Runs under ``jit``; the names are static.

    Raises ``Refused`` for a dtype without whole words.
    """
    shares = [_share(name, leaves[name]) for name in sorted(leaves)]
    return sum(shares, start=jnp.zeros((LANES,), jnp.uint32))


def _share(name: str, leaf: jax.Array) -> jax.Array:
    """The share of one leaf. Both lanes are one reduction: one pass over the memory, one kernel to compile."""
    words = _words(name, leaf)
    low, high = _indices(words.shape)
    keys = leaf_keys(name, leaf.dtype, leaf.shape)
    lanes = [_mixed(words, (low, high), key, both) for key, both in zip(keys, MULTIPLIERS, strict=True)]
    zeros = [jnp.uint32(0)] * LANES
    return jnp.stack(lax.reduce(lanes, zeros, _added, tuple(range(words.ndim))))


def _added(left: Sequence[jax.Array], right: Sequence[jax.Array]) -> list[jax.Array]:
    return [one + other for one, other in zip(left, right, strict=True)]


def leaf_keys(name: str, dtype: DTypeLike, shape: tuple[int, ...]) -> tuple[tuple[int, int, int], ...]:
    """Per lane the odd multiplier of the index, that of its high word, and the offset, from the leaf's header."""
    header = f"{name}\0{np.dtype(dtype).name}\0{','.join(map(str, shape))}".encode()
    data = hashlib.sha256(header).digest()
    words = [int.from_bytes(data[at : at + 4], "little") for at in range(0, 4 * 3 * LANES, 4)]
    return tuple((words[3 * lane] | 1, words[3 * lane + 1] | 1, words[3 * lane + 2]) for lane in range(LANES))


def of_arrays(arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """The same fingerprint of arrays on the host: what the device's must be. uint32 of shape (2,)."""
    total = np.zeros(LANES, np.uint32)
    with np.errstate(over="ignore"):
        for name in sorted(arrays):
            total += _of_array(name, arrays[name])
    return total


def _of_array(name: str, array: np.ndarray) -> np.ndarray:
    contiguous = np.ascontiguousarray(array).reshape(array.shape)
    word = np.uint8 if contiguous.dtype == np.bool_ else _word(name, contiguous.dtype)
    words = contiguous.reshape(-1).view(word).astype(np.uint32)
    shape = (*array.shape, 2) if array.dtype.itemsize == 8 else array.shape
    trailing = math.prod(shape[_split(shape) :])
    places = np.arange(words.size, dtype=np.uint64)
    low, high = (places % trailing).astype(np.uint32), (places // trailing).astype(np.uint32)
    lanes = []
    for (index, upper, offset), (first, second) in zip(
        leaf_keys(name, array.dtype, array.shape), MULTIPLIERS, strict=True
    ):
        place = (low * np.uint32(index) + np.uint32(offset)) ^ (high * np.uint32(upper))
        mixed = words ^ place
        mixed = (mixed ^ (mixed >> np.uint32(15))) * np.uint32(first)
        mixed = (mixed ^ (mixed >> np.uint32(13))) * np.uint32(second)
        lanes.append(np.sum(mixed ^ (mixed >> np.uint32(16)), dtype=np.uint32))
    return np.asarray(lanes, np.uint32)


def text(lanes: object) -> str:
    """Sixteen hex digits of a fingerprint, first lane first."""
    return "".join(f"{int(lane):08x}" for lane in np.asarray(lanes))


def _words(name: str, leaf: jax.Array) -> jax.Array:
    """The bits of a leaf as uint32; a leaf of 8-byte items gets a last axis of two words, low word first."""
    if leaf.dtype == jnp.bool_:
        return leaf.astype(jnp.uint32)
    return lax.bitcast_convert_type(leaf, _word(name, leaf.dtype)).astype(jnp.uint32)


def _word(name: str, dtype: np.dtype) -> type[np.unsignedinteger[Any]]:
    word = _WORDS.get(dtype.itemsize)
    if word is None or jnp.issubdtype(dtype, jnp.complexfloating):
        raise Refused(f"The leaf {name} has the dtype {dtype}, which has no fingerprint.")
    return word


def _indices(shape: tuple[int, ...]) -> tuple[jax.Array, jax.Array | None]:
    """The C-order index of every word, as low and high uint32; the high one is None where it is zero everywhere."""
    split = _split(shape)
    low = _flat(shape, range(split, len(shape)))
    high = _flat(shape, range(split)) if split else None
    return low, high


def _split(shape: tuple[int, ...]) -> int:
    """The axis that the low word of the index begins at: trailing axes with a product of at most 2**32."""
    split, count = len(shape), 1
    while split and count * shape[split - 1] <= _MOST:
        split -= 1
        count *= shape[split]
    if math.prod(shape[:split]) > _MOST or max(shape, default=0) > _MOST:
        raise Refused(f"A leaf of shape {shape} is too large for a fingerprint.")
    return split


def _flat(shape: tuple[int, ...], axes: range) -> jax.Array:
    index = jnp.zeros(shape, jnp.uint32)
    stride = 1
    for axis in reversed(axes):
        index = index + lax.broadcasted_iota(jnp.uint32, shape, axis) * jnp.uint32(stride)
        stride *= shape[axis]
    return index


def _mixed(
    words: jax.Array, index: tuple[jax.Array, jax.Array | None], key: tuple[int, int, int], multipliers: tuple[int, int]
) -> jax.Array:
    """What each word adds to a lane."""
    low, high = index
    place = low * jnp.uint32(key[0]) + jnp.uint32(key[2])
    if high is not None:
        place = place ^ (high * jnp.uint32(key[1]))
    mixed = words ^ place
    mixed = (mixed ^ (mixed >> 15)) * jnp.uint32(multipliers[0])
    mixed = (mixed ^ (mixed >> 13)) * jnp.uint32(multipliers[1])
    return mixed ^ (mixed >> 16)
