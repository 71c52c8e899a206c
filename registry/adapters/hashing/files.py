"""One file as digests, in one pass over its bytes. Refuses a file that changes while it is read."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass

from registry.adapters.hashing.walking import Found, facts_of
from registry.core.buffers import page_aligned
from registry.core.digests import Algorithm, Digest
from registry.errors import OutsideFailed

BLOCK_BYTES = 2**20
_buffers = threading.local()


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
    sha256 = hashlib.sha256()
    hashers = [sha256, hashlib.md5(usedforsecurity=False)] if with_md5 else [sha256]
    descriptor = os.open(found.location, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        before = facts_of(os.fstat(descriptor))
        size_bytes = _feed(descriptor, hashers, advance)
        after = facts_of(os.fstat(descriptor))
    finally:
        os.close(descriptor)
    if not found.facts == before == after or size_bytes != found.size_bytes:
        raise OutsideFailed(
            f"{found.location} changed while it was hashed.", remedy="Wait until nothing writes to it; then try again."
        )
    return FileHash(
        size_bytes=size_bytes,
        digest=Digest(Algorithm.SHA256, sha256.hexdigest()),
        md5=hashers[1].hexdigest() if with_md5 else None,
    )


def _feed(descriptor: int, hashers: list[hashlib._Hash], advance: Callable[[int], None]) -> int:
    buffer = _buffer()
    total = 0
    while count := os.readv(descriptor, [buffer]):
        for hasher in hashers:
            hasher.update(buffer[:count])
        advance(count)
        total += count
    return total


def _buffer() -> memoryview:
    """The thread's own block; threads come and go, so it goes with them."""
    buffer: memoryview | None = getattr(_buffers, "block", None)
    if buffer is None:
        buffer = _buffers.block = page_aligned(BLOCK_BYTES)
    return buffer
