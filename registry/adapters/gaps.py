"""How far tensors lie apart, value by value, read in pieces so that no tensor has to fit into memory twice.

Refuses nothing: a dtype whose values cannot be read here gets no distance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from registry.core.distances import TensorDistance
from registry.core.tensors import TensorSpec
from registry.ports import Tensors

_PIECE_BYTES: Final = 32 * 2**20
_PLAIN: Final = frozenset(
    ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64")
)


def distances(recorded: Tensors, found: Tensors, names: Sequence[str]) -> tuple[TensorDistance, ...]:
    """The distances of the tensors called ``names``, which both containers hold with one spec."""
    mine = {spec.name: spec for spec in recorded.specs}
    return tuple(_distance(recorded, found, mine[name]) for name in names)


def _distance(recorded: Tensors, found: Tensors, spec: TensorSpec) -> TensorDistance:
    differing, largest, apart, norm = 0, 0.0, 0.0, 0.0
    known = spec.dtype in _PLAIN or spec.dtype == "bfloat16"
    for left, right in _pieces(recorded, found, spec):
        differing += int(np.count_nonzero((_words(left, spec) != _words(right, spec)).any(axis=1)))
        if known and len(left):
            mine, theirs = _values(left, spec.dtype), _values(right, spec.dtype)
            gaps = _gaps(mine, theirs)
            largest = max(largest, float(gaps.max()))
            apart, norm = apart + float(np.square(gaps).sum()), norm + _square(mine)
    return TensorDistance(
        name=spec.name,
        dtype=spec.dtype,
        elements=spec.size_bytes // spec.item_bytes,
        differing=differing,
        largest=largest if known else None,
        apart=math.sqrt(apart) if known else None,
        norm=math.sqrt(norm) if known else None,
    )


def _pieces(recorded: Tensors, found: Tensors, spec: TensorSpec) -> Iterator[tuple[bytes, bytes]]:
    piece = _PIECE_BYTES // spec.item_bytes * spec.item_bytes
    for start in range(0, spec.size_bytes, piece):
        stop = min(start + piece, spec.size_bytes)
        yield recorded.read(spec, start, stop), found.read(spec, start, stop)


def _words(data: bytes, spec: TensorSpec) -> Any:
    """The bytes of each element as a row."""
    return np.frombuffer(data, np.uint8).reshape(-1, spec.item_bytes)


def _values(data: bytes, dtype: str) -> Any:
    """Elements as 64-bit floats. The upper half of a float32 is what a bfloat16 is."""
    if dtype == "bfloat16":
        return (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return np.frombuffer(data, np.dtype(dtype).newbyteorder("<")).astype(np.float64)


def _gaps(mine: Any, theirs: Any) -> Any:
    """Distances by element. Equal infinities and a NaN on both sides are none; on one side alone they are infinite."""
    with np.errstate(invalid="ignore", over="ignore"):
        gaps = np.abs(mine - theirs)
    same = (mine == theirs) | (np.isnan(mine) & np.isnan(theirs))
    return np.where(same, 0.0, np.where(np.isnan(gaps), np.inf, gaps))


def _square(mine: Any) -> float:
    """The sum of squares of the finite values."""
    return float(np.square(mine[np.isfinite(mine)]).sum())


def measure(recorded: Tensors, found: Tensors) -> Callable[[Sequence[str]], Sequence[TensorDistance]]:
    """What measures tensors of these two containers by name."""
    return lambda names: distances(recorded, found, names)
