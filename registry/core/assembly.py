"""The chunk digests of one tensor from pieces that come in any order.

A piece that continues its chunk is hashed at once; another one waits. So memory depends on how far the order is from C
order: nothing waits when pieces come in order. Refuses to tell digests before every byte was there.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from blake3 import blake3

from registry.core.tensors import CHUNK_BYTES, Buffer, ChunkList, TensorSpec, chunk_hasher
from registry.errors import MalformedRecord


@dataclass(slots=True)
class _Open:
    """A chunk that is not complete: what is hashed from its beginning, and what waits by its place in the chunk."""

    hasher: blake3 = field(default_factory=chunk_hasher)
    filled: int = 0
    waiting: dict[int, bytes] = field(default_factory=dict)

    def add(self, into: int, piece: Buffer) -> None:
        if into != self.filled:
            self.waiting[into] = bytes(piece)
            return
        self.hasher.update(piece)
        self.filled += len(piece)
        self.drain()

    def drain(self) -> None:
        """Hash what waited for the place that is reached now."""
        while self.filled in self.waiting:
            piece = self.waiting.pop(self.filled)
            self.hasher.update(piece)
            self.filled += len(piece)


class Assembly:
    """Takes the bytes of the tensor ``spec``, every byte once."""

    def __init__(self, spec: TensorSpec) -> None:
        self._spec = spec
        self._size_bytes = spec.size_bytes
        self._open: dict[int, _Open] = {}
        self._done: dict[int, bytes] = {}

    def add(self, start_byte: int, data: Buffer) -> None:
        """Take the bytes from ``start_byte``. What has to wait is copied."""
        view = memoryview(data).cast("B")
        while len(view):
            index, into = divmod(start_byte, CHUNK_BYTES)
            piece = view[: CHUNK_BYTES - into]
            if len(piece) == self._length(index):
                self._done[index] = chunk_hasher().update(piece).digest()
            else:
                self._open.setdefault(index, _Open()).add(into, piece)
                self._close(index)
            start_byte, view = start_byte + len(piece), view[len(piece) :]

    def merge(self, other: Assembly) -> None:
        """Take over what another assembly of the same tensor has; that one is of no use afterwards."""
        self._done |= other._done
        for index, theirs in other._open.items():
            mine = self._open.setdefault(index, theirs)
            if mine is not theirs:
                first, second = (theirs, mine) if theirs.filled else (mine, theirs)
                first.waiting |= second.waiting
                self._open[index] = first
                first.drain()
            self._close(index)

    def chunk_list(self) -> ChunkList:
        """The digests of all chunks. Raises ``MalformedRecord`` when bytes are missing."""
        if len(self._done) != self._spec.chunk_count:
            raise MalformedRecord(f"Only {len(self._done)} of {self._spec.chunk_count} chunks are complete.")
        return ChunkList(spec=self._spec, digests=tuple(digest for _, digest in sorted(self._done.items())))

    def _close(self, index: int) -> None:
        if self._open[index].filled == self._length(index):
            self._done[index] = self._open.pop(index).hasher.digest()

    def _length(self, index: int) -> int:
        """Bytes of a chunk."""
        return min(CHUNK_BYTES, self._size_bytes - index * CHUNK_BYTES)
