"""Digests with their algorithm in their name, and the digest of a tree of files.

SHA-256 names files, records and trees; BLAKE3 names tensor leaves; git's SHA-1 object ids and DVC's MD5 occur only as
locators. A digest without an algorithm, or with upper-case letters, is refused: one value, one spelling. A tree digest
commits to a Merkle tree over the files, so that one file can be proved to be in it (``registry.core.inclusion``).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Self

from registry.core import canonical
from registry.core.names import checked_path
from registry.errors import MalformedRecord


class Algorithm(StrEnum):
    """Digest algorithms that a record may name."""

    SHA256 = "sha256"
    BLAKE3 = "blake3"
    GIT = "git"
    MD5 = "md5"


_LENGTHS = {Algorithm.SHA256: 64, Algorithm.BLAKE3: 64, Algorithm.GIT: 40, Algorithm.MD5: 32}
_HEX = {algorithm: re.compile(rf"[0-9a-f]{{{length}}}") for algorithm, length in _LENGTHS.items()}
_ALGORITHMS = {algorithm.value: algorithm for algorithm in Algorithm}
PAGE_FILES = 16
_SPELLING = re.compile(r"([a-z0-9]+):([0-9a-f]+)(\.dir)?")


@dataclass(frozen=True, slots=True, order=True)
class Digest:
    """A digest, spelled ``algorithm:hex``."""

    algorithm: Algorithm
    hex: str

    def __post_init__(self) -> None:
        if not _HEX[self.algorithm].fullmatch(self.hex):
            raise MalformedRecord(f"{self.hex!r} is not the hex form of a {self.algorithm} digest.")

    def __str__(self) -> str:
        return f"{self.algorithm}:{self.hex}"

    @property
    def short(self) -> str:
        """The first twelve hex digits, for tables; never for identity."""
        return self.hex[:12]

    @classmethod
    def parse(cls, text: object) -> Self:
        """Read ``algorithm:hex``. Raises ``MalformedRecord`` for anything else."""
        match = _SPELLING.fullmatch(text) if isinstance(text, str) else None
        algorithm = None if match is None or match[3] else _ALGORITHMS.get(match[1])
        if match is None or algorithm is None:
            raise MalformedRecord(f"{text!r} is not a digest; write it as 'sha256:' and 64 hex digits.")
        return cls(algorithm, match[2])


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class FileEntry:
    """One file of a tree: its relative POSIX path, size and SHA-256.

    Raises ``Refused`` for a path that could leave the tree, a negative size or a digest of another algorithm.
    """

    path: str
    size_bytes: int
    digest: Digest

    def __post_init__(self) -> None:
        checked_path(self.path)
        if self.size_bytes < 0 or self.digest.algorithm is not Algorithm.SHA256:
            raise MalformedRecord(f"The file {self.path!r} needs a size of zero or more bytes and a SHA-256.")


def sha256(data: bytes) -> Digest:
    """SHA-256 of ``data``."""
    return Digest(Algorithm.SHA256, hashlib.sha256(data).hexdigest())


def record_digest(value: canonical.Json) -> Digest:
    """SHA-256 of the canonical bytes of ``value``: the name of a record."""
    return sha256(canonical.encode(value))


def tree_digest(entries: Iterable[FileEntry]) -> Digest:
    """The digest of a tree: of its number of files and the Merkle root over them, sorted by path, a page to a leaf.

    It does not depend on the order of ``entries`` or on anything but paths and contents. Raises ``MalformedRecord``
    when a path stands twice.
    """
    ordered = sorted(entries, key=lambda entry: entry.path)
    if any(one.path == other.path for one, other in pairwise(ordered)):
        raise MalformedRecord("A path stands twice in one tree.")
    pages = (ordered[start : start + PAGE_FILES] for start in range(0, len(ordered), PAGE_FILES))
    return digest_of_tree(len(ordered), merkle_root([leaf_hash(page_bytes(page)) for page in pages]))


def digest_of_tree(files: int, root: bytes) -> Digest:
    """The digest of a tree of ``files`` files with that Merkle root (32 bytes)."""
    return record_digest({"kind": "tree", "schema": 1, "files": files, "root": f"sha256:{root.hex()}"})


def page_bytes(entries: Sequence[FileEntry]) -> bytes:
    """The bytes of a page of a tree: the canonical list of ``[path, size, digest]``."""
    return canonical.encode([[entry.path, entry.size_bytes, str(entry.digest)] for entry in entries])


def leaf_hash(data: bytes) -> bytes:
    """SHA-256 of a zero byte and ``data``: a leaf, which no node can be taken for (RFC 6962, 2.1)."""
    return hashlib.sha256(b"\0" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """SHA-256 of a one byte and two hashes: a node (RFC 6962, 2.1)."""
    return hashlib.sha256(b"\1" + left + right).digest()


def merkle_root(leaves: Sequence[bytes]) -> bytes:
    """The root over leaf hashes in their order (RFC 6962, 2.1). Level by level, so that depth costs no stack."""
    level = list(leaves)
    if not level:
        return hashlib.sha256(b"").digest()
    while len(level) > 1:
        odd = level[-1:] if len(level) % 2 else []
        level = [node_hash(level[at], level[at + 1]) for at in range(0, len(level) - 1, 2)] + odd
    return level[0]


def git_blob(data: bytes) -> Digest:
    """The object id that git gives a file with these bytes."""
    return Digest(Algorithm.GIT, hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest())
