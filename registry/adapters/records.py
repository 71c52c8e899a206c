"""Records and tables as files under ``manifests/``.

A record appears under its digest whole or not at all: it is written to a temporary name, fsynced, read back, and
linked to its final name, which fails if the name is taken. Two recorders at once therefore lose nothing. Refuses to
return bytes that are not those of their name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from registry.core import canonical, kinds
from registry.core.digests import Algorithm, Digest, sha256
from registry.errors import DoesNotHold, Refused, UnknownName
from registry.keeping import keep_whole

_KIND = re.compile(r"[a-z]+")
_RECORD = re.compile(r"([0-9a-f]{64})\.json")
_TABLE = re.compile(r"(objects|tensors)/[0-9a-f]{64}\.parquet")
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}\.tmp")


class FileRecordStore:
    """Records by kind and digest: ``<root>/<kind>s/<sha256>.json`` (``kinds.folder_of``)."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def put(self, kind: str, data: bytes) -> Digest:
        """Keep canonical bytes. Raises ``OutsideFailed`` when the disk does not keep them."""
        digest = sha256(data)
        keep_whole(self._path(kind, digest), data)
        return digest

    def get(self, kind: str, digest: Digest) -> bytes:
        """The bytes of a record, hashed again."""
        path = self._path(kind, digest)
        if not path.is_file():
            raise UnknownName(
                f"There is no {kind} record {digest}.",
                remedy="Is 'manifests/' complete? See 'git status'.",
            )
        remedy = f"Restore it: git checkout -- {self._shown(path)}"
        if path.stat().st_size > canonical.MAXIMUM_BYTES:
            raise DoesNotHold(f"The {kind} record {digest} is over the limit of a record.", remedy=remedy)
        data = path.read_bytes()
        if sha256(data) != digest:
            raise DoesNotHold(f"The {kind} record {digest} does not have the bytes of its name.", remedy=remedy)
        return data

    def digests(self, kind: str) -> Sequence[Digest]:
        """All record names of a kind, sorted; temporary files do not count."""
        matches = (_RECORD.fullmatch(name) for name in _files(self._folder(kind)))
        return tuple(Digest(Algorithm.SHA256, hexes) for hexes in sorted(match[1] for match in matches if match))

    def kinds(self) -> Sequence[str]:
        """The kinds that have a record, sorted."""
        folders = sorted(entry.name for entry in _entries(self._root) if entry.is_dir())
        named = (kinds.kind_in(folder) for folder in folders)
        return tuple(sorted(kind for kind in named if kind and _KIND.fullmatch(kind) and self.digests(kind)))

    def strays(self) -> Sequence[str]:
        """What is no record, no table and no leftover of a killed recorder, relative to the store."""
        return tuple(sorted(self._relative(entry) for entry in self._root.rglob("*") if self._is_stray(entry)))

    def _is_stray(self, entry: Path) -> bool:
        """Files out of place; and links and folders in the place of a file."""
        path = self._relative(entry)
        if entry.is_symlink():
            return True
        if entry.is_dir():
            return _is_kept(path)
        return not _is_kept(path) and not _TEMPORARY.fullmatch(entry.name)

    def _relative(self, entry: Path) -> str:
        return entry.relative_to(self._root).as_posix()

    def _path(self, kind: str, digest: Digest) -> Path:
        return self._folder(kind) / f"{digest.hex}.json"

    def _folder(self, kind: str) -> Path:
        if not _KIND.fullmatch(kind):
            raise Refused(f"{kind!r} is not a kind of record.")
        return self._root / kinds.folder_of(kind)

    def _shown(self, path: Path) -> str:
        return path.relative_to(self._root.parent).as_posix()


def _entries(folder: Path) -> Sequence[os.DirEntry[str]]:
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        return list(entries)
    return ()


def _files(folder: Path) -> Iterator[str]:
    """The names of the regular files of a folder."""
    return (entry.name for entry in _entries(folder) if entry.is_file(follow_symlinks=False))


def _is_kept(path: str) -> bool:
    """Whether a record or table may stand there."""
    folder, _, name = path.rpartition("/")
    kind = kinds.kind_in(folder)
    of_kind = kind is not None and _KIND.fullmatch(kind)
    return bool(_TABLE.fullmatch(path) or (of_kind and _RECORD.fullmatch(name)))
