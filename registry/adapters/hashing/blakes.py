"""BLAKE3 of large files, each on all cores: quicker than SHA-256, which has one core a file.

Refuses a file that changes while it is read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from blake3 import blake3

from registry.adapters.hashing.files import feed
from registry.adapters.hashing.walking import Found
from registry.core.buffers import page_aligned
from registry.core.digests import Algorithm, Digest

_BLOCK_BYTES: Final = 2**21


def blake3_digests(files: Sequence[Found], advance: Callable[[int], None]) -> Mapping[str, Digest]:
    """BLAKE3 of ``files`` by path; ``advance`` is told of bytes as they are done.

    Two files are read at a time, so that one is hashed while the other's bytes are copied. Raises ``OutsideFailed``
    when a file changes while it is read.
    """
    pool = ThreadPoolExecutor(max(2, len(os.sched_getaffinity(0))), thread_name_prefix="hashing")
    try:
        ordered = sorted(files, key=lambda found: -found.size_bytes)
        digests = pool.map(lambda found: _digest(found, advance), ordered)
        return {found.path: digest for found, digest in zip(ordered, digests, strict=True)}
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _digest(found: Found, advance: Callable[[int], None]) -> Digest:
    hasher = blake3(max_threads=blake3.AUTO)
    feed(found, [hasher], advance, page_aligned(_BLOCK_BYTES))
    return Digest(Algorithm.BLAKE3, hasher.hexdigest())
