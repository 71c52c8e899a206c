"""An excerpt: some tensors of a container in a safetensors file of their own, and where each comes from.

The file follows from the specs alone: names in their order, no metadata, a header padded to eight bytes. Refuses an
excerpt of nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from registry.core.safetensors import DTYPES, PREFIX_BYTES
from registry.core.tensors import TensorSpec
from registry.errors import Refused

_CODES: Final[Mapping[str, str]] = {name: code for code, name in DTYPES.items()}
_ALIGNMENT: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A tensor where it is now: ``path`` of the file and the position of its first byte there."""

    spec: TensorSpec
    path: str
    start_byte: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """The tensors of an excerpt, in the order of their names."""

    tensors: tuple[Placed, ...]

    def __post_init__(self) -> None:
        if not self.tensors:
            raise Refused("An excerpt of no tensors is none.")

    @property
    def header(self) -> bytes:
        """The bytes of the file before the tensors."""
        fields, position = {}, 0
        for one in self.tensors:
            stop = position + one.spec.size_bytes
            fields[one.spec.name] = {
                "dtype": _CODES[one.spec.dtype],
                "shape": list(one.spec.shape),
                "data_offsets": [position, stop],
            }
            position = stop
        text = json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()
        text += b" " * (-len(text) % _ALIGNMENT)
        return len(text).to_bytes(PREFIX_BYTES, "little") + text

    @property
    def size_bytes(self) -> int:
        """The size of the whole file."""
        return len(self.header) + sum(one.spec.size_bytes for one in self.tensors)

    def places(self) -> Iterator[tuple[int, Placed]]:
        """Each tensor with the position of its first byte in the excerpt."""
        position = len(self.header)
        for one in self.tensors:
            yield position, one
            position += one.spec.size_bytes


def excerpt(placed: Sequence[Placed]) -> Excerpt:
    """An excerpt of these tensors."""
    return Excerpt(tensors=tuple(sorted(placed, key=lambda one: one.spec.name)))
