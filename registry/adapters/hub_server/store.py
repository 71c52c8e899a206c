"""Large files by their SHA-256. What has a name here was hashed by this server and equals its name.

An object is written once, under a private name, hashed as it arrives, and renamed only if the digest is the announced
one. Bytes of a cut upload are set aside so that the sender can go on. Refuses names that are not 64 hex digits.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import time
from pathlib import Path

from registry.adapters.hub_server.incoming import Incoming, sync_folder
from registry.adapters.hub_server.problems import Conflict, Differs, Full, Problem
from registry.adapters.hub_server.settings import OBJECT_BYTES, PARTIAL_SECONDS

_OID = re.compile(r"[0-9a-f]{64}")


def checked_oid(oid: object) -> str:
    """Return ``oid`` when it is the hex form of a SHA-256; raises ``Problem`` otherwise."""
    if not isinstance(oid, str) or not _OID.fullmatch(oid):
        raise Problem("An object id is 64 lowercase hex digits.")
    return oid


def checked_size(size: object) -> int:
    """Return ``size`` when an object may have so many bytes; raises ``Problem`` otherwise."""
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= OBJECT_BYTES:
        raise Problem(f"The size of an object is a number of bytes up to {OBJECT_BYTES}.")
    return size


class BlobStore:
    """Objects under ``objects/``, arriving ones under ``incoming/``, both in ``root``."""

    def __init__(self, root: Path) -> None:
        self._objects = root / "objects"
        self.arrivals = root / "incoming"
        self._checked: dict[str, tuple[int, int, int]] = {}
        for folder in (self.arrivals, *(self._objects / f"{number:02x}" for number in range(256))):
            folder.mkdir(parents=True, exist_ok=True)
        sync_folder(self._objects)

    def path(self, oid: str) -> Path:
        """Where the object lies, or would lie."""
        return self._objects / checked_oid(oid)[:2] / oid

    def size(self, oid: str) -> int | None:
        """Bytes of the object, or None when it is not here."""
        try:
            return self.path(oid).stat().st_size
        except FileNotFoundError:
            return None

    def require_room(self, size_bytes: int) -> None:
        """Raise ``Full`` when the disk cannot take so many bytes more."""
        if shutil.disk_usage(self._objects).free < size_bytes:
            raise Full(f"The hub's disk has no room for {size_bytes} bytes more.")

    def receive(self, oid: str, size_bytes: int, offset: int = 0) -> Incoming:
        """A file for the bytes of ``oid`` from ``offset`` on. Raises ``Conflict`` when no cut upload ended there."""
        self.require_room(size_bytes - offset)
        if offset == 0:
            return Incoming(self.arrivals, size_bytes)
        if self.partial_bytes(oid) != offset:
            here = self.partial_bytes(oid)
            raise Conflict(f"The upload goes on at byte {here}.", headers={"Upload-Offset": str(here)})
        try:
            return Incoming(self.arrivals, size_bytes, start=self.partial(oid))
        except FileNotFoundError as error:
            raise Conflict(f"Another sender goes on with {oid}.") from error

    def admit(self, oid: str, size_bytes: int, arrived: Incoming) -> None:
        """Make the arrived bytes the object ``oid``. Raises ``Differs`` unless size and digest are as announced."""
        if arrived.received_bytes != size_bytes:
            raise Differs(f"{arrived.received_bytes} of {size_bytes} bytes arrived.")
        if arrived.sha256 != checked_oid(oid):
            raise Differs(f"The bytes have the SHA-256 {arrived.sha256}, not {oid}.")
        arrived.settle(self.path(oid))
        self.path(oid).chmod(0o444)
        self._checked[oid] = self._identity(oid)

    def partial(self, oid: str) -> Path:
        """Where the bytes of a cut upload lie."""
        return self.arrivals / f"{checked_oid(oid)}.partial"

    def partial_bytes(self, oid: str) -> int:
        """How many bytes of a cut upload lie here."""
        try:
            return self.partial(oid).stat().st_size
        except FileNotFoundError:
            return 0

    def require(self, oid: str, size_bytes: int | None = None) -> int:
        """The object's size, after making sure that its bytes still have its digest.

        They are hashed unless this process wrote or hashed this very file. Raises ``Problem`` when the object never
        arrived, has another size, or rotted.
        """
        found = self.size(oid)
        if found is None:
            raise Problem(f"The LFS object {oid} was never uploaded.")
        if size_bytes is not None and found != size_bytes:
            raise Problem(f"The LFS object {oid} has {found} bytes, not {size_bytes}.")
        if self._checked.get(oid) != self._identity(oid):
            self._hash(oid)
        return found

    def _hash(self, oid: str) -> None:
        identity = self._identity(oid)
        with self.path(oid).open("rb") as file:
            observed = hashlib.file_digest(file, "sha256").hexdigest()
        if observed != oid:
            self.path(oid).rename(self.arrivals / f"{oid}.damaged")
            raise Problem(f"The LFS object {oid} was damaged on the hub's disk; upload it again.")
        self._checked[oid] = identity

    def _identity(self, oid: str) -> tuple[int, int, int]:
        status = self.path(oid).stat()
        return status.st_ino, status.st_size, status.st_mtime_ns

    def tidy(self) -> None:
        """Remove what a killed server left: nameless files at once, cut uploads when they are old."""
        oldest = time.time() - PARTIAL_SECONDS
        for path in self.arrivals.iterdir():
            if path.suffix == ".tmp" or (path.suffix == ".partial" and path.stat().st_mtime < oldest):
                path.unlink()
