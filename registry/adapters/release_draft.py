"""The folder of a release while it is built: beside its place, and moved there whole.

Files are hashed as they are written, and read back once when all are there. A rename puts the folder in place when
nothing is left to do; whatever fails leaves nothing. Refuses a place that is taken, files that two parts of a release
would write, paths that leave the folder, and a disk that gives back other bytes.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from blake3 import blake3

from registry.core import twins
from registry.core.digests import Algorithm, Digest, FileEntry
from registry.core.names import checked_path
from registry.core.secrecy import secrets_in
from registry.errors import OutsideFailed, Refused

_PIECE: Final = 4 * 2**20
# Of a file of weights, whose numbers are proved to be the checkpoint's, only both ends are searched when it is large.
_SEARCHED: Final = 256 * 2**20


class _Hashed:
    """Both digests of the same bytes."""

    def __init__(self) -> None:
        self._sha256, self._blake3 = hashlib.sha256(), blake3()
        self.size_bytes = 0

    def add(self, piece: bytes) -> None:
        """Take the next bytes."""
        self._sha256.update(piece)
        self._blake3.update(piece)
        self.size_bytes += len(piece)

    @property
    def sha256(self) -> Digest:
        return Digest(Algorithm.SHA256, self._sha256.hexdigest())

    @property
    def blake3(self) -> Digest:
        return Digest(Algorithm.BLAKE3, self._blake3.hexdigest())


class Draft:
    """A release that is being built in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._entries: dict[str, FileEntry] = {}
        self._blakes: dict[str, Digest] = {}

    @property
    def entries(self) -> Sequence[FileEntry]:
        """All files so far, as they were written, sorted by path."""
        return [self._entries[name] for name in sorted(self._entries)]

    @property
    def blakes(self) -> Mapping[str, Digest]:
        """BLAKE3 of the large files so far, by path; taken of the same bytes as the SHA-256."""
        return dict(self._blakes)

    def take(self, source: Path, name: str) -> None:
        """Copy a file. Raises ``Refused`` when the release has one of that name."""
        with source.open("rb") as file:
            self._put(name, iter(lambda: file.read(_PIECE), b""))

    def write(self, name: str, data: bytes) -> None:
        """Write a file. Raises ``Refused`` when the release has one of that name."""
        self._put(name, [data])

    def adopt(self, name: str) -> None:
        """Count a file that something else wrote into the folder."""
        hashed = _Hashed()
        with self.at(name).open("rb") as file:
            for piece in iter(lambda: file.read(_PIECE), b""):
                hashed.add(piece)
        self._keep(name, hashed)

    def at(self, name: str) -> Path:
        """Where a file lies or would lie; its folder is made."""
        target = self.folder / checked_path(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        return target

    def secrets(self) -> Iterator[str]:
        """A sentence for everything in any file that looks like a secret; the secret itself is not shown."""
        for name in self._entries:
            for found in secrets_in(_pieces(self.folder / name)):
                yield f"{name} holds {found.kind} at byte {found.at}."

    def _put(self, name: str, pieces: Iterator[bytes] | Sequence[bytes]) -> None:
        target = self.at(name)
        if target.exists():
            raise Refused(f"Two parts of the release would write {name}.", remedy="Rename the file in the export.")
        hashed = _Hashed()
        with target.open("xb") as file:
            for piece in pieces:
                hashed.add(piece)
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        self._keep(name, hashed)

    def _keep(self, name: str, hashed: _Hashed) -> None:
        self._entries[name] = FileEntry(path=name, size_bytes=hashed.size_bytes, digest=hashed.sha256)
        if hashed.size_bytes >= twins.LEAST_BYTES:
            self._blakes[name] = hashed.blake3


@contextmanager
def draft(target: Path) -> Iterator[Draft]:
    """A new release that appears at ``target`` when the block ends well, and leaves nothing when it does not.

    Raises ``Refused`` when something is there, ``OutsideFailed`` when the disk refuses.
    """
    if target.exists() or target.is_symlink():
        raise Refused(f"{target} exists; a release is never overwritten.", remedy="Take it away, or choose another -o.")
    temporary = target.parent / f".{target.name}.{secrets.token_hex(4)}.building"
    try:
        temporary.mkdir(parents=True)
        yield Draft(temporary)
        if target.exists():
            raise Refused(f"{target} was made by somebody else meanwhile.", remedy="Compare both, then try again.")
        temporary.rename(target)
        _sync(target.parent)
    except OSError as error:
        raise OutsideFailed(
            f"The release could not be written: {error.strerror or error}.",
            remedy="Free some space or choose a folder that can be written, then run the same command again.",
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        while piece := file.read(_PIECE):
            yield piece
            if path.suffix == ".safetensors" and _SEARCHED < file.tell() < size - _SEARCHED:
                file.seek(size - _SEARCHED)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
