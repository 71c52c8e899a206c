"""A file while its bytes arrive: private, bounded, hashed, and either moved to its final name or gone."""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path
from types import TracebackType
from typing import Self

from registry.adapters.hub_server.problems import Full, TooLarge, is_full


class Incoming:
    """Takes at most ``limit_bytes`` under a name that no one else has. Use it as a context manager.

    Leaving the context removes the file unless it was given a name. Writing raises
    ``TooLarge`` beyond the limit and ``Full`` when the disk has no room.
    """

    def __init__(self, folder: Path, limit_bytes: int, start: Path | None = None) -> None:
        self._path = folder / f"{secrets.token_hex(16)}.tmp"
        self._limit_bytes = limit_bytes
        self._hasher = hashlib.sha256()
        self.received_bytes = 0
        if start is not None:
            start.rename(self._path)  # from now on it is ours alone
        self._file = self._path.open("ab", buffering=0)
        if start is not None:
            self._take_over()

    def _take_over(self) -> None:
        with self._path.open("rb") as file:
            while block := file.read(2**20):
                self._hasher.update(block)
                self.received_bytes += len(block)

    @property
    def sha256(self) -> str:
        """Hex SHA-256 of what arrived so far."""
        return self._hasher.hexdigest()

    def write(self, data: bytes) -> None:
        """Append ``data``."""
        if self.received_bytes + len(data) > self._limit_bytes:
            raise TooLarge(f"More than the announced {self._limit_bytes} bytes arrived.")
        try:
            view = memoryview(data)
            while view:
                view = view[self._file.write(view) :]
        except OSError as error:
            if is_full(error):
                raise Full from error
            raise
        self._hasher.update(data)
        self.received_bytes += len(data)

    def settle(self, target: Path) -> None:
        """Give the file its final name, on disk before this returns. An equal file there before is replaced."""
        os.fsync(self._file.fileno())
        self._path.replace(target)
        sync_folder(target.parent)

    def put_down(self, target: Path) -> None:
        """Give the file a name for a while: a loss of power may take it back."""
        target.parent.mkdir(parents=True, exist_ok=True)
        self._path.replace(target)

    def set_aside(self, target: Path) -> None:
        """Keep what arrived under ``target``, to go on from later, unless as much lies there already."""
        if self.received_bytes and (not target.exists() or target.stat().st_size < self.received_bytes):
            self._path.replace(target)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        self._path.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make the names in ``folder`` survive a loss of power."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
