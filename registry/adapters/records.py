"""Records and tables as files under ``manifests/``.

A record appears under its digest whole or not at all: it is written to a temporary name, fsynced, read back, and linked to its final
name, which fails if the name is taken. Two recorders at once therefore lose nothing. Refuses to return bytes that are not those of their name.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Sequence
from pathlib import Path

from registry.core.digests import Algorithm, Digest, sha256
from registry.errors import DoesNotHold, OutsideFailed, Refused, UnknownName

_KIND = re.compile(r"[a-z]+")
_RECORD = re.compile(r"([0-9a-f]{64})\.json")


class FileRecordStore:
    """Records by kind and digest: ``<root>/<kind>s/<sha256>.json``."""

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
        data = path.read_bytes()
        if sha256(data) != digest:
            raise DoesNotHold(
                f"The {kind} record {digest} does not have the bytes of its name.",
                remedy=f"Restore it: git checkout -- {self._shown(path)}",
            )
        return data

    def digests(self, kind: str) -> Sequence[Digest]:
        """All record names of a kind, sorted; temporary files do not count."""
        folder = self._folder(kind)
        if not folder.is_dir():
            return ()
        matches = (_RECORD.fullmatch(entry.name) for entry in folder.iterdir())
        return tuple(
            Digest(Algorithm.SHA256, hexes)
            for hexes in sorted(match[1] for match in matches if match)
        )

    def _path(self, kind: str, digest: Digest) -> Path:
        return self._folder(kind) / f"{digest.hex}.json"

    def _folder(self, kind: str) -> Path:
        if not _KIND.fullmatch(kind):
            raise Refused(f"{kind!r} is not a kind of record.")
        return self._root / f"{kind}s"

    def _shown(self, path: Path) -> str:
        return path.relative_to(self._root.parent).as_posix()


def keep_whole(path: Path, data: bytes) -> None:
    """Put ``data`` at ``path``, whole or not at all. The same bytes there already are fine, others are not.

    Raises ``DoesNotHold`` when other bytes stand at ``path`` and ``OutsideFailed`` when the disk refuses or returns other bytes.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            _write_and_link(path, data)
        found = path.read_bytes()
    except OSError as error:
        raise OutsideFailed(
            f"{path.name} could not be kept: {error.strerror or error}.",
            remedy="Free some space or make the folder writable, then run the same command again; nothing half-written remains.",
        ) from error
    if found != data:
        raise DoesNotHold(
            f"{path.name} exists with other bytes.",
            remedy=f"Restore it: git checkout -- {path.parent.name}",
        )


def _write_and_link(path: Path, data: bytes) -> None:
    temporary = path.parent / f".{path.name}.{secrets.token_hex(4)}.tmp"
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, path)
        except FileExistsError:
            return  # Another recorder was quicker; the caller compares the bytes.
        _sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
