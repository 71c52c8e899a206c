"""Digests of earlier passes, so that an unchanged tree need not be read again. A convenience, never evidence.

A file counts as unchanged when device, inode, size and both times of change are as they were. A file that changed less
than two seconds before it was hashed is not kept: its times could stay the same through another change. A damaged or
foreign database is replaced by an empty one.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from registry.adapters.hashing.files import FileHash
from registry.adapters.hashing.walking import Found
from registry.core.digests import Algorithm, Digest
from registry.errors import MalformedRecord

_SETTLED_NS = 2_000_000_000
_SCHEMA = """
create table if not exists files (
  device integer, inode integer, size_bytes integer, mtime_ns integer, ctime_ns integer, sha256 text not null, md5 text,
  primary key (device, inode)
) without rowid
"""
_LOOK_UP = "select size_bytes, mtime_ns, ctime_ns, sha256, md5 from files where device = ? and inode = ?"
_KEEP = "insert or replace into files values (?, ?, ?, ?, ?, ?, ?)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """A database of digests by file facts. ``now_ns`` is the clock, nanoseconds since the epoch."""

    path: Path
    now_ns: Callable[[], int] = field(default=time.time_ns)

    def look_up(self, files: Sequence[Found], *, with_md5: bool) -> Mapping[str, FileHash]:
        """The hashes of those files that are unchanged, by location."""
        with suppress(sqlite3.Error, OSError), closing(self._open()) as database:
            database.execute("begin")
            return dict(_known(database, files, with_md5=with_md5))
        return {}

    def keep(self, hashed: Sequence[tuple[Found, FileHash]]) -> None:
        """Remember hashes. What cannot be written is not remembered."""
        settled = self.now_ns() - _SETTLED_NS
        kept = [(found, one) for found, one in hashed if max(found.facts[3:]) < settled]
        rows = [(*found.facts, one.digest.hex, one.md5) for found, one in kept]
        with suppress(sqlite3.Error, OSError), closing(self._open()) as database, database:
            database.executemany(_KEEP, rows)

    def _open(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            return self._connected()
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise
            self.path.unlink(missing_ok=True)
            return self._connected()

    def _connected(self) -> sqlite3.Connection:
        database = sqlite3.connect(self.path, timeout=5)
        try:
            database.execute(_SCHEMA)
            database.execute(_LOOK_UP, (0, 0)).fetchone()
        except sqlite3.Error:
            database.close()
            raise
        return database


def _known(database: sqlite3.Connection, files: Sequence[Found], *, with_md5: bool) -> Iterator[tuple[str, FileHash]]:
    for found in files:
        row = database.execute(_LOOK_UP, found.facts[:2]).fetchone()
        if row is None or row[:3] != found.facts[2:] or (with_md5 and row[4] is None):
            continue
        with suppress(MalformedRecord, TypeError):
            digest = Digest(Algorithm.SHA256, row[3])
            yield found.location, FileHash(size_bytes=found.size_bytes, digest=digest, md5=row[4] if with_md5 else None)
