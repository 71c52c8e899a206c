"""Hashing a container: all cores, a few parts in memory, whatever the size of a tensor.

Threads read and hash parts; what a part leaves open of a chunk is put together here. Memory is that of the parts being
read, and 32 bytes a chunk.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from registry.adapters.checkpoints.source import SPAN_BYTES, Part, TensorSource
from registry.core.assembly import Assembly
from registry.core.tensors import ChunkList, Leaf, TensorSpec

_BATCHES_IN_FLIGHT = 3
_LEAST_COST = 2**15


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafHasher:
    """Makes the leaves of a source. ``advance`` is told the bytes that are done, from the calling thread."""

    source: TensorSource
    workers: int = field(default_factory=available_cores)
    advance: Callable[[int], None] = lambda _: None

    def chunk_lists(self, specs: Sequence[TensorSpec]) -> Iterator[ChunkList]:
        """The chunk lists of ``specs``, in their order. Raises what the source raises."""
        whole, done = None, 0
        for part, found in self._hashed(specs):
            if whole is None:
                whole, done = found, 0
            else:
                whole.merge(found)
            self.advance(part.size_bytes)
            done += part.size_bytes
            if done == part.spec.size_bytes:
                yield whole.chunk_list()
                whole = None

    def leaves(self, specs: Sequence[TensorSpec]) -> tuple[Leaf, ...]:
        """The leaves of ``specs``, in their order."""
        return tuple(chunks.leaf for chunks in self.chunk_lists(specs))

    def _hashed(self, specs: Sequence[TensorSpec]) -> Iterator[tuple[Part, Assembly]]:
        """All parts, in order. Few are on their way at once."""
        window: deque[Future[list[tuple[Part, Assembly]]]] = deque()
        pool = ThreadPoolExecutor(self.workers, thread_name_prefix="leaves")
        try:
            for batch in self._batches(specs):
                window.append(pool.submit(self._hash, batch))
                if len(window) >= self.workers * _BATCHES_IN_FLIGHT:
                    yield from window.popleft().result()
            while window:
                yield from window.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _hash(self, batch: Sequence[Part]) -> list[tuple[Part, Assembly]]:
        return [(part, self._hash_part(part)) for part in batch]

    def _hash_part(self, part: Part) -> Assembly:
        assembly = Assembly(part.spec)
        for start_byte, piece in self.source.pieces(part):
            assembly.add(start_byte, piece)
        return assembly

    def _batches(self, specs: Sequence[TensorSpec]) -> Iterator[list[Part]]:
        """Parts, small ones together, so that each batch is worth a thread's while."""
        batch: list[Part] = []
        weight = 0
        for part in (part for spec in specs for part in self.source.parts(spec)):
            cost = max(part.size_bytes, _LEAST_COST)
            if batch and weight + cost > SPAN_BYTES:
                yield batch
                batch, weight = [], 0
            batch.append(part)
            weight += cost
        if batch:
            yield batch
