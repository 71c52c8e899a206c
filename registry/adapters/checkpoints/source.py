"""What every container of tensors can do: tell its tensors, and read them in parts of bounded size."""

from __future__ import annotations

import mmap
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeAlias

from registry.core.blocks import Box
from registry.core.buffers import page_aligned
from registry.core.tensors import CHUNK_BYTES, TensorSpec
from registry.errors import Refused

SPAN_BYTES = 8 * CHUNK_BYTES
Pieces: TypeAlias = Iterator[tuple[int, memoryview]]


class Container(StrEnum):
    """Kinds of containers."""

    SAFETENSORS = "safetensors"
    OCDBT = "ocdbt"
    ZARR3 = "zarr3"


class DamagedTensors(Refused):
    """A container whose bytes cannot be what was saved: cut, altered, or changed while it was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What is read in one go: the bytes of a tensor from ``start_byte``, or the elements of a ``box``."""

    spec: TensorSpec
    size_bytes: int
    start_byte: int = 0
    box: Box | None = None


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

    def read_into(self, name: str, start_byte: int, buffer: memoryview) -> None:
        """Fill ``buffer`` with the C-order little-endian bytes of a tensor from ``start_byte``.

        ``start_byte`` and the length of ``buffer`` are multiples of the tensor's element. Raises ``DamagedTensors``.
        """
        ...

    def parts(self, spec: TensorSpec) -> Iterator[Part]:
        """Parts that together are the tensor, in the order in which they are best read. At least one."""
        ...

    def pieces(self, part: Part) -> Pieces:
        """The bytes of a part with their places in the tensor. A piece is good until the next one is asked for."""
        ...


class Spans:
    """Parts that are ranges of bytes, read in pieces of ``piece_bytes`` into one buffer a thread."""

    def __init__(self, piece_bytes: int) -> None:
        self._piece_bytes = piece_bytes
        self._buffers = threading.local()

    def parts(self, spec: TensorSpec) -> Iterator[Part]:
        """Ranges of ``SPAN_BYTES``; a tensor without bytes is one empty part."""
        for start in range(0, max(spec.size_bytes, 1), SPAN_BYTES):
            yield Part(spec=spec, start_byte=start, size_bytes=min(SPAN_BYTES, spec.size_bytes - start))

    def cut(self, part: Part, position: int = 0) -> Pieces:
        """The places of a range's pieces, each with the buffer to be filled before the next one is asked for.

        ``position`` is where the range begins in its file: the buffer begins as far into a page as that, since a copy
        between places that lie a few bytes apart in their pages is slow.
        """
        into = position % mmap.PAGESIZE
        buffer = self._buffer()[into : into + self._piece_bytes]
        stop = part.start_byte + part.size_bytes
        for start in range(part.start_byte, stop, len(buffer)):
            yield start, buffer[: stop - start]

    def _buffer(self) -> memoryview:
        buffer: memoryview | None = getattr(self._buffers, "buffer", None)
        if buffer is None:
            buffer = self._buffers.buffer = page_aligned(self._piece_bytes + mmap.PAGESIZE)
        return buffer
