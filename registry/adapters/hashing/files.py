"""One file as digests, in one pass over its bytes. Refuses a file that changes while it is read."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from registry.adapters.hashing.walking import Found, facts_of
from registry.core.buffers import page_aligned
from registry.core.digests import Algorithm, Digest
from registry.errors import OutsideFailed

BLOCK_BYTES = 2**20
_buffers = threading.local()


class Hasher(Protocol):
    """What takes bytes one piece after the other."""

    def update(self, data: memoryview, /) -> object:
        """Take the next bytes."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FileHash:
    """Size and SHA-256 of a file; its md5 when that was asked for."""

    size_bytes: int
    digest: Digest
    md5: str | None


def read_hash(found: Found, advance: Callable[[int], None], *, with_md5: bool) -> FileHash:
    """Hash one file; ``advance`` is told of bytes as they are done.

    Raises ``OutsideFailed`` when the file is not the one that was found, or changes while it is read.
    """
    sha256, md5 = hashlib.sha256(), hashlib.md5(usedforsecurity=False)
    feed(found, [sha256, md5] if with_md5 else [sha256], advance, _buffer())
    return FileHash(
        size_bytes=found.size_bytes,
        digest=Digest(Algorithm.SHA256, sha256.hexdigest()),
        md5=md5.hexdigest() if with_md5 else None,
    )


def feed(found: Found, hashers: Sequence[Hasher], advance: Callable[[int], None], buffer: memoryview) -> None:
    """Give every byte of a file to ``hashers``, read through ``buffer``. Raises as :func:`read_hash`."""
    descriptor = os.open(found.location, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        before = facts_of(os.fstat(descriptor))
        size_bytes = 0
        while size_bytes <= found.size_bytes and (count := os.readv(descriptor, [buffer])):
            for hasher in hashers:
                hasher.update(buffer[:count])
            advance(count)
            size_bytes += count
        after = facts_of(os.fstat(descriptor))
    finally:
        os.close(descriptor)
    if not found.facts == before == after or size_bytes != found.size_bytes:
        raise OutsideFailed(
            f"{found.location} changed while it was hashed.", remedy="Wait until nothing writes to it; then try again."
        )


def _buffer() -> memoryview:
    """The thread's own block; threads come and go, so it goes with them."""
    buffer: memoryview | None = getattr(_buffers, "block", None)
    if buffer is None:
        buffer = _buffers.block = page_aligned(BLOCK_BYTES)
    return buffer
