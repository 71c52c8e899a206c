"""Memory for bytes that are read from files, at the beginning of a page.

Where Python's own large buffers begin, 16 bytes into a page, some processors copy out of the page cache at a sixth of
their speed: a copy to a place less than 32 bytes further into its page than the source is slow there. Measured in
``registry/decisions/0026-hashing-speed.md``. Refuses a size that is not positive.
"""

from __future__ import annotations

import mmap

from registry.errors import MalformedRecord


def page_aligned(size_bytes: int) -> memoryview:
    """``size_bytes`` of zeroed memory to write to, beginning with a page. It is given back with its last view.

    Raises ``MalformedRecord`` for a size that is not positive.
    """
    if size_bytes <= 0:
        raise MalformedRecord(f"A buffer of {size_bytes} bytes holds nothing.")
    return memoryview(mmap.mmap(-1, size_bytes))
