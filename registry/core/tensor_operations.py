"""What a map between tensors may do with an array: slice, transpose, reshape, cast. Each is exact or rounds in one way.

The rules are here, the arrays are the caller's: :func:`perform` asks of an array only what numpy's arrays can do, so
that nothing is imported. Refuses operations that an array of that dtype and shape cannot have.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from registry.core.canonical import Json
from registry.errors import MalformedRecord

CASTS = frozenset({("float32", "bfloat16"), ("float32", "float16"), ("bfloat16", "float32"), ("float16", "float32")})

Shape: TypeAlias = tuple[int, ...]
Form: TypeAlias = tuple[str, Shape]


@dataclass(frozen=True, slots=True)
class Take:
    """The slice ``index`` of the first axis."""

    index: int

    def form(self, dtype: str, shape: Shape) -> Form:
        """Dtype and shape afterwards. Raises ``MalformedRecord``."""
        if not shape or not 0 <= self.index < shape[0]:
            raise MalformedRecord(f"There is no slice {self.index} of an array of shape {list(shape)}.")
        return dtype, shape[1:]

    def to_json(self) -> dict[str, Json]:
        return {"take": self.index}


@dataclass(frozen=True, slots=True)
class Transpose:
    """The axes in another order: axis ``i`` afterwards is axis ``axes[i]`` before."""

    axes: Shape

    def form(self, dtype: str, shape: Shape) -> Form:
        """Dtype and shape afterwards. Raises ``MalformedRecord``."""
        if sorted(self.axes) != list(range(len(shape))):
            raise MalformedRecord(f"{list(self.axes)} is no order of the axes of an array of shape {list(shape)}.")
        return dtype, tuple(shape[axis] for axis in self.axes)

    def to_json(self) -> dict[str, Json]:
        return {"transpose": list(self.axes)}


@dataclass(frozen=True, slots=True)
class Reshape:
    """The same elements in C order under another shape."""

    shape: Shape

    def form(self, dtype: str, shape: Shape) -> Form:
        """Dtype and shape afterwards. Raises ``MalformedRecord``."""
        if min(self.shape, default=0) < 0 or math.prod(self.shape) != math.prod(shape):
            raise MalformedRecord(f"An array of shape {list(shape)} cannot have the shape {list(self.shape)}.")
        return dtype, self.shape

    def to_json(self) -> dict[str, Json]:
        return {"reshape": list(self.shape)}


@dataclass(frozen=True, slots=True)
class Cast:
    """Each element as another dtype: rounded to the nearest, ties to even, or widened exactly."""

    dtype: str

    def form(self, dtype: str, shape: Shape) -> Form:
        """Dtype and shape afterwards. Raises ``MalformedRecord`` for a cast that is not in ``CASTS``."""
        if (dtype, self.dtype) not in CASTS:
            raise MalformedRecord(f"A map cannot cast {dtype} to {self.dtype}.")
        return self.dtype, shape

    def to_json(self) -> dict[str, Json]:
        return {"cast": self.dtype}


Operation: TypeAlias = Take | Transpose | Reshape | Cast


def form_after(operations: Iterable[Operation], dtype: str, shape: Shape) -> Form:
    """Dtype and shape after ``operations``. Raises ``MalformedRecord`` when they do not work out."""
    for operation in operations:
        dtype, shape = operation.form(dtype, shape)
    return dtype, shape


def perform(operations: Iterable[Operation], array: Any, dtype: str, cast: Callable[[Any, str, str], Any]) -> Any:
    """``array``, of ``dtype``, after ``operations``. ``cast(array, old, new)`` gives it another dtype."""
    for operation in operations:
        match operation:
            case Take(index):
                array = array[index]
            case Transpose(axes):
                array = array.transpose(axes)
            case Reshape(shape):
                array = array.reshape(shape)
            case Cast(new):
                array, dtype = cast(array, dtype, new), new
    return array


def read_operation(value: Json) -> Operation:
    """The operation in its JSON form: an object with one key. Raises ``MalformedRecord``."""
    match dict(value) if isinstance(value, Mapping) else value:
        case {"take": int(index), **rest} if not rest and not isinstance(index, bool):
            return Take(index)
        case {"transpose": axes, **rest} if not rest:
            return Transpose(integers(axes))
        case {"reshape": shape, **rest} if not rest:
            return Reshape(integers(shape))
        case {"cast": str(dtype), **rest} if not rest:
            return Cast(dtype)
    raise MalformedRecord(f"{str(value)[:80]} is no operation of a map.")


def integers(value: Json) -> Shape:
    """A list of integers as a tuple. Raises ``MalformedRecord``."""
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(type(item) is int for item in value):
        raise MalformedRecord(f"{str(value)[:80]} is no list of integers.")
    return tuple(item for item in value if isinstance(item, int))
