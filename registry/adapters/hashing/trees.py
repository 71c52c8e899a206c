"""Many files side by side: threads over files, since hashing releases the interpreter; the largest files go first."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from registry.adapters.hashing.files import FileHash, read_hash
from registry.adapters.hashing.remembered import Remembered
from registry.adapters.hashing.walking import Found, found_tree
from registry.core.digests import FileEntry

_SMALL_BYTES = 2**20
_BATCH = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeHasher:
    """Hashes files. ``advance`` is told of bytes as they are done, from any thread.

    ``remembered`` holds digests of earlier passes; without it every byte is read. ``with_md5`` takes DVC's md5 along.
    """

    workers: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))
    advance: Callable[[int], None] = lambda _: None
    remembered: Remembered | None = None
    with_md5: bool = False

    def entries(self, root: Path) -> tuple[FileEntry, ...]:
        """All files of a folder, sorted by path."""
        hashes = self.hashes(found_tree(root))
        return tuple(FileEntry(path=found.path, size_bytes=one.size_bytes, digest=one.digest) for found, one in hashes)

    def hashes(self, files: Sequence[Found]) -> list[tuple[Found, FileHash]]:
        """The hashes of ``files``, in their order. Raises what the first file that fails raises."""
        known = self.remembered.look_up(files, with_md5=self.with_md5) if self.remembered else {}
        unknown = [found for found in files if found.location not in known]
        fresh = dict(self._read(sorted(unknown, key=lambda found: -found.size_bytes)))
        if self.remembered:
            self.remembered.keep([(found, fresh[found.location]) for found in unknown])
        every = {**known, **fresh}
        return [(found, every[found.location]) for found in files]

    def _read(self, files: Sequence[Found]) -> Iterator[tuple[str, FileHash]]:
        pool = ThreadPoolExecutor(self.workers, thread_name_prefix="hashing")
        try:
            for batch in pool.map(self._read_batch, _batches(files)):
                yield from batch
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _read_batch(self, files: Sequence[Found]) -> list[tuple[str, FileHash]]:
        return [(found.location, read_hash(found, self.advance, with_md5=self.with_md5)) for found in files]


def _batches(files: Sequence[Found]) -> Iterator[Sequence[Found]]:
    """Large files one by one, small ones together."""
    large = sum(found.size_bytes > _SMALL_BYTES for found in files)
    yield from ([found] for found in files[:large])
    yield from (files[start : start + _BATCH] for start in range(large, len(files), _BATCH))
