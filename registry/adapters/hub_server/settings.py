"""Bounds of the embedded hub: how much of anything one request may bring or get."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MEBIBYTE: Final = 2**20

CHUNK_BYTES: Final = MEBIBYTE  # read, hashed and written in one step
JSON_BYTES: Final = 8 * MEBIBYTE  # 256 files of a pre-upload with their samples, 1000 objects of an LFS batch
COMMIT_BYTES: Final = 1024 * MEBIBYTE  # regular files travel inside a commit
REGULAR_BYTES: Final = 10 * MEBIBYTE  # a larger file must be an LFS object
LINE_BYTES: Final = REGULAR_BYTES * 4 // 3 + 64 * 1024
COMMIT_OPERATIONS: Final = 25_000
CARD_BYTES: Final = 128 * 1024  # of the metadata block of a README.md
OBJECT_BYTES: Final = 500 * 10**9
BATCH_OBJECTS: Final = 1000
PREUPLOAD_FILES: Final = 1000
MOST_PARTS: Final = 1000

COMMITS_A_PAGE: Final = 50
ENTRIES_A_PAGE: Final = 1000
EXPANDED_ENTRIES_A_PAGE: Final = 50
MOST_A_PAGE: Final = 1000

DRAIN_BYTES: Final = 256 * MEBIBYTE  # of a refused body are read, so that its sender hears the reason
STALL_SECONDS: Final = 60  # a sender that is silent for so long is given up
LINK_SECONDS: Final = 6 * 3600  # life of a signed address of an upload or download
PARTIAL_SECONDS: Final = 7 * 24 * 3600  # life of an unfinished upload


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What differs between a site and a test: when an upload goes in parts, and the size of a page."""

    part_bytes: int = 64 * MEBIBYTE
    multipart_from_bytes: int = 256 * MEBIBYTE
    entries_a_page: int = ENTRIES_A_PAGE
    commits_a_page: int = COMMITS_A_PAGE
