"""A folder that pulled files land in: whole and proven under their final names, or not at all.

Files on their way lie under ``.cache/reckon`` in the folder, named by path and digest, and outlive the process: their
length is how far they came, and their bytes are hashed again before the rest is added. The folder belongs to one puller
at a time. Refuses to write through links, to put a file in another's place, and a folder that is somebody else's now.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Self

from registry.core import canonical
from registry.core.buffers import page_aligned
from registry.core.canonical import Json
from registry.core.digests import Algorithm, Digest
from registry.core.pulling import KEPT_APART, Observed, RemoteFile
from registry.errors import DoesNotHold, OutsideFailed, Refused

OWN: Final = f"{KEPT_APART}/reckon"
_PINS = "pull.json"
_PINS_BYTES = 2**16
_BLOCK_BYTES = 2**20


class LandingFolder:
    """A folder, made if need be. Close it, or use it in a ``with`` statement."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._own = root / OWN
        _no_links(root, self._own / "parts")
        (self._own / "parts").mkdir(parents=True, exist_ok=True)
        ignore = root / KEPT_APART / ".gitignore"
        with suppress(FileExistsError):
            _create(ignore, b"*\n")
        self._lock = _opened(self._own / "lock", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise Refused(
                f"Another process pulls into {root}.", remedy="Wait until it has ended, or take another folder."
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the folder go."""
        os.close(self._lock)

    def room_bytes(self) -> int:
        """Free bytes of its disk."""
        return shutil.disk_usage(self._root).free

    def names(self) -> Sequence[str]:
        """Files in it, but for what clients and git keep apart; sorted."""
        found = []
        for folder, inner, files in os.walk(self._root):
            place = Path(folder).relative_to(self._root)
            if place == Path():
                inner[:] = [name for name in inner if name not in (KEPT_APART, ".git")]
            found += [(place / name).as_posix() for name in (*files, *_links(folder, inner))]
        return sorted(found)

    def held(self, file: RemoteFile) -> Observed | None:
        """What the file with that final name hashes to; None when there is none. Raises ``Refused`` for a non-file."""
        path = self._root / file.path
        _no_links(self._root, path.parent)
        try:
            descriptor = _opened(path, os.O_RDONLY)
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            hashes = Hashes(file, os.fstat(descriptor).st_size)
            hashes.read(descriptor)
            return hashes.observed()
        finally:
            os.close(descriptor)

    @contextmanager
    def arriving(self, file: RemoteFile) -> Iterator[ArrivingFile]:
        """The file on its way, with what an earlier process left of it."""
        name = hashlib.sha256(f"{file.path}\n{file.claimed}\n{file.size_bytes}".encode()).hexdigest()
        target = self._root / file.path
        _no_links(self._root, target.parent)
        arriving = ArrivingFile(self._own / "parts" / name, target, file)
        try:
            yield arriving
        finally:
            arriving.close()

    def pins(self) -> Mapping[str, Json]:
        """What the last pull wrote down; nothing where it cannot be read."""
        with suppress(OSError, ValueError, RecursionError, Refused):
            with os.fdopen(_opened(self._own / _PINS, os.O_RDONLY), "rb") as file:
                told = json.loads(file.read(_PINS_BYTES))
            return told if isinstance(told, dict) else {}
        return {}

    def pin(self, facts: Mapping[str, Json]) -> None:
        """Write down what is being pulled."""
        temporary = self._own / f"{_PINS}.new"
        temporary.unlink(missing_ok=True)
        _create(temporary, canonical.encode(dict(facts)))
        temporary.replace(self._own / _PINS)

    def tidy(self) -> None:
        """Remove what is left of files on their way."""
        for part in (self._own / "parts").iterdir():
            part.unlink(missing_ok=True)


class Hashes:
    """SHA-256 of bytes as they come, and git's blob id for files that have one as their digest."""

    def __init__(self, file: RemoteFile, size_bytes: int) -> None:
        self.size_bytes = 0
        self._sha256 = hashlib.sha256()
        self._blob = None
        if not file.large:
            self._blob = hashlib.sha1(b"blob %d\0" % size_bytes, usedforsecurity=False)

    def update(self, data: bytes | memoryview) -> None:
        """Add bytes."""
        self._sha256.update(data)
        if self._blob is not None:
            self._blob.update(data)
        self.size_bytes += len(data)

    def read(self, descriptor: int) -> None:
        """Add all bytes of an open file."""
        block = page_aligned(_BLOCK_BYTES)
        while count := os.readv(descriptor, [block]):
            self.update(block[:count])

    def observed(self) -> Observed:
        """The digests of the bytes so far."""
        blob = None if self._blob is None else Digest(Algorithm.GIT, self._blob.hexdigest())
        return Observed(
            size_bytes=self.size_bytes, sha256=Digest(Algorithm.SHA256, self._sha256.hexdigest()), blob=blob
        )


class ArrivingFile:
    """A file on its way."""

    def __init__(self, part: Path, target: Path, file: RemoteFile) -> None:
        self._part = part
        self._target = target
        self._file = file
        self._descriptor = _opened(part, os.O_RDWR | os.O_CREAT)
        self._hashes = Hashes(file, file.size_bytes)
        if os.fstat(self._descriptor).st_size > file.size_bytes:
            self.restart()
        self._hashes.read(self._descriptor)

    @property
    def size_bytes(self) -> int:
        """Bytes that are here."""
        return self._hashes.size_bytes

    def close(self) -> None:
        """Let the file go; its bytes stay for the next process."""
        os.close(self._descriptor)

    def write(self, data: bytes) -> None:
        """Add bytes. Raises ``OutsideFailed`` when the disk does not take them."""
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError as error:
            raise OutsideFailed(
                f"{self._target.name} could not be written: {error.strerror}.",
                remedy="Free some space, then run the same command again; it goes on where it stopped.",
            ) from error
        self._hashes.update(data)

    def restart(self) -> None:
        """Begin anew."""
        os.ftruncate(self._descriptor, 0)
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        self._hashes = Hashes(self._file, self._file.size_bytes)

    def read(self, start_byte: int, stop_byte: int) -> bytes:
        """Bytes that are here, read back from the disk."""
        return os.pread(self._descriptor, stop_byte - start_byte, start_byte)

    def observed(self) -> Observed:
        """The digests of what is here."""
        return self._hashes.observed()

    def land(self) -> None:
        """Give the file its final name: flushed first, and only where no other file has the name."""
        self._target.parent.mkdir(parents=True, exist_ok=True)
        os.fsync(self._descriptor)
        try:
            os.link(self._part, self._target, follow_symlinks=False)
        except FileExistsError as error:
            raise DoesNotHold(
                f"{self._target} appeared while it was pulled.", remedy="Take it away, then run the same command again."
            ) from error
        self._part.unlink()
        handle = os.open(self._target.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _opened(path: Path, how: int) -> int:
    """A plain file, opened. Raises ``Refused`` for a link or anything else that is none."""
    refused = Refused(f"{path} is no plain file.", remedy="Take it away, or pull into another folder.")
    try:
        descriptor = os.open(path, how | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise refused from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise refused
    return descriptor


def _create(path: Path, data: bytes) -> None:
    """A new file with these bytes, on the disk. Raises ``FileExistsError`` when the name is taken, by a link too."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o644), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _links(folder: str, inner: Sequence[str]) -> Iterator[str]:
    """Links to folders: a walk does not enter them, but they are there."""
    return (name for name in inner if (Path(folder) / name).is_symlink())


def _no_links(root: Path, folder: Path) -> None:
    """Raises ``Refused`` when a folder on the way from ``root`` to ``folder`` is a link or no folder."""
    for place in (folder, *folder.parents):
        if place == root:
            return
        if place.is_symlink() or (place.exists() and not place.is_dir()):
            raise Refused(f"{place} is no plain folder.", remedy="Take it away, or pull into another folder.")
