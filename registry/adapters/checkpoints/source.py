"""What every container of tensors can do: tell its tensors, and read a range of one."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from registry.core.tensors import CHUNK_BYTES, TensorSpec
from registry.errors import Refused

SPAN_BYTES = 8 * CHUNK_BYTES


class Container(StrEnum):
    """Kinds of containers."""

    SAFETENSORS = "safetensors"
    OCDBT = "ocdbt"
    ZARR3 = "zarr3"


class DamagedTensors(Refused):
    """A container whose bytes cannot be what was saved: cut, altered, or changed while it was read."""


class TensorSource(Protocol):
    """An open container. Reading is safe from several threads at once."""

    @property
    def container(self) -> Container:
        """The kind of the container."""
        ...

    @property
    def specs(self) -> tuple[TensorSpec, ...]:
        """Its tensors, sorted by name. Never empty."""
        ...

    @property
    def piece_bytes(self) -> int:
        """How many bytes are best read at once, a power of two."""
        ...

    def read_into(self, name: str, start_byte: int, buffer: memoryview) -> None:
        """Fill ``buffer`` with the C-order little-endian bytes of a tensor from ``start_byte``.

        ``start_byte`` and the length of ``buffer`` are multiples of the tensor's element. Raises ``DamagedTensors``.
        """
        ...
