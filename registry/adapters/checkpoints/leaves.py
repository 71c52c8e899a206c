"""Hashing a container: all cores, a few small buffers, whatever the size of a tensor.

The bytes are cut into spans on borders of chunks; threads read and hash spans while the order of submission keeps the
chunk digests of a tensor in order. Memory is one buffer a thread and 32 bytes a chunk.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from registry.adapters.checkpoints.source import SPAN_BYTES, TensorSource
from registry.core.tensors import Chunker, ChunkList, Leaf, TensorSpec

_SPANS_IN_FLIGHT = 4
_LEAST_COST = 2**15


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A range of one tensor that begins on a border of chunks."""

    spec: TensorSpec
    start_byte: int
    stop_byte: int


@dataclass(slots=True, kw_only=True)
class LeafHasher:
    """Makes the leaves of a source. ``advance`` is told the bytes that are done, from the calling thread."""

    source: TensorSource
    workers: int = field(default_factory=available_cores)
    advance: Callable[[int], None] = lambda _: None
    _buffers: threading.local = field(default_factory=threading.local)

    def chunk_lists(self, specs: Sequence[TensorSpec]) -> Iterator[ChunkList]:
        """The chunk lists of ``specs``, in their order. Raises what the source raises."""
        digests: list[bytes] = []
        for span, found in self._hashed(specs):
            digests += found
            if span.stop_byte == span.spec.size_bytes:
                yield ChunkList(spec=span.spec, digests=tuple(digests))
                digests = []

    def leaves(self, specs: Sequence[TensorSpec]) -> tuple[Leaf, ...]:
        """The leaves of ``specs``, in their order."""
        return tuple(chunks.leaf for chunks in self.chunk_lists(specs))

    def _hashed(self, specs: Sequence[TensorSpec]) -> Iterator[tuple[Span, list[bytes]]]:
        window: deque[tuple[list[Span], Future[list[list[bytes]]]]] = deque()
        with ThreadPoolExecutor(self.workers, thread_name_prefix="leaves") as pool:
            try:
                for batch in batches(specs):
                    window.append((batch, pool.submit(self._hash, batch)))
                    if len(window) > self.workers * _SPANS_IN_FLIGHT:
                        yield from self._finished(*window.popleft())
                while window:
                    yield from self._finished(*window.popleft())
            finally:
                pool.shutdown(wait=True, cancel_futures=True)

    def _finished(self, batch: list[Span], future: Future[list[list[bytes]]]) -> Iterator[tuple[Span, list[bytes]]]:
        for span, found in zip(batch, future.result(), strict=True):
            self.advance(span.stop_byte - span.start_byte)
            yield span, found

    def _hash(self, batch: Sequence[Span]) -> list[list[bytes]]:
        return [self._hash_span(span) for span in batch]

    def _hash_span(self, span: Span) -> list[bytes]:
        buffer = self._buffer()
        chunker = Chunker()
        for start in range(span.start_byte, span.stop_byte, len(buffer)):
            piece = buffer[: span.stop_byte - start]
            self.source.read_into(span.spec.name, start, piece)
            chunker.update(piece)
        return chunker.finish()

    def _buffer(self) -> memoryview:
        buffer: memoryview | None = getattr(self._buffers, "buffer", None)
        if buffer is None:
            buffer = self._buffers.buffer = memoryview(bytearray(min(self.source.piece_bytes, SPAN_BYTES)))
        return buffer


def batches(specs: Sequence[TensorSpec]) -> Iterator[list[Span]]:
    """The bytes of ``specs`` as spans, small ones together, so that each batch is worth a thread's while."""
    batch: list[Span] = []
    weight = 0
    for span in _spans(specs):
        cost = max(span.stop_byte - span.start_byte, _LEAST_COST)
        if batch and weight + cost > SPAN_BYTES:
            yield batch
            batch, weight = [], 0
        batch.append(span)
        weight += cost
    if batch:
        yield batch


def _spans(specs: Sequence[TensorSpec]) -> Iterator[Span]:
    """Spans in order. A tensor without bytes is one empty span."""
    for spec in specs:
        for start in range(0, max(spec.size_bytes, 1), SPAN_BYTES):
            yield Span(spec=spec, start_byte=start, stop_byte=min(start + SPAN_BYTES, spec.size_bytes))
