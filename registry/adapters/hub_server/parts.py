"""Uploads in parts: each part is kept by its number and digest until all of them make up the object.

A part that arrived survives a cut connection and a killed server. The whole is hashed once more when it is put
together, so that parts of two senders can never make an object that is not what its name says.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from registry.adapters.hub_server.incoming import Incoming
from registry.adapters.hub_server.problems import Differs, Problem
from registry.adapters.hub_server.settings import CHUNK_BYTES, MOST_PARTS, PARTIAL_SECONDS, Settings
from registry.adapters.hub_server.store import BlobStore, checked_oid, checked_size


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How an object is cut: parts of ``part_bytes``, the last one shorter."""

    oid: str
    size_bytes: int
    part_bytes: int

    def __post_init__(self) -> None:
        checked_oid(self.oid)
        if checked_size(self.size_bytes) == 0 or self.part_bytes <= 0 or self.count > MOST_PARTS:
            raise Problem("An object cannot be cut like that.")

    @property
    def count(self) -> int:
        """Number of parts."""
        return -(-self.size_bytes // self.part_bytes)

    def bytes_of(self, number: int) -> int:
        """Size of part ``number``, counted from one. Raises ``Problem`` when there is no such part."""
        if not 1 <= number <= self.count:
            raise Problem(f"There are parts 1 to {self.count}.")
        return min(self.part_bytes, self.size_bytes - (number - 1) * self.part_bytes)

    @classmethod
    def of(cls, oid: str, size_bytes: int, settings: Settings) -> Plan | None:
        """The plan for an object, or None when it goes in one piece."""
        if size_bytes < max(settings.multipart_from_bytes, 1):
            return None
        least = -(-size_bytes // MOST_PARTS)
        return cls(oid=oid, size_bytes=size_bytes, part_bytes=max(settings.part_bytes, least))


class Parts:
    """Parts under ``incoming/`` of the store, one folder for each way of cutting an object."""

    def __init__(self, store: BlobStore) -> None:
        self._store = store
        self._turns: dict[Plan, threading.Lock] = {}
        self._guard = threading.Lock()

    def _folder(self, plan: Plan) -> Path:
        return self._store.arrivals / f"{plan.oid}-{plan.size_bytes}-{plan.part_bytes}.parts"

    def receive(self, plan: Plan, number: int) -> Incoming:
        """A file for the bytes of one part."""
        self._store.require_room(plan.bytes_of(number))
        return Incoming(self._store.arrivals, plan.bytes_of(number))

    def keep(self, plan: Plan, number: int, arrived: Incoming) -> str:
        """Keep a part and return its tag, the SHA-256. Raises ``Differs`` when it is short."""
        if arrived.received_bytes != plan.bytes_of(number):
            raise Differs(f"{arrived.received_bytes} of {plan.bytes_of(number)} bytes arrived.")
        arrived.put_down(self._folder(plan) / f"{number}.{arrived.sha256}")  # the whole will be hashed again
        return arrived.sha256

    def tags(self, plan: Plan, number: int) -> list[str]:
        """The tags under which part ``number`` is here: none, one, or more when senders disagree."""
        return sorted(path.suffix[1:] for path in self._folder(plan).glob(f"{number}.*"))

    def complete(self, plan: Plan, tags: Sequence[str]) -> None:
        """Put the parts together. Raises ``Problem`` when one is missing and ``Differs`` for a wrong whole."""
        with self._turn(plan):
            if self._store.size(plan.oid) != plan.size_bytes:
                self._join(plan, [self._part(plan, number, tag) for number, tag in enumerate(tags, start=1)])
            shutil.rmtree(self._folder(plan), ignore_errors=True)

    def _part(self, plan: Plan, number: int, tag: str) -> Path:
        path = self._folder(plan) / f"{number}.{checked_oid(tag)}"
        if not path.is_file():
            raise Problem(f"Part {number} of {plan.oid} is not here.")
        return path

    def _join(self, plan: Plan, paths: Sequence[Path]) -> None:
        if len(paths) != plan.count:
            raise Problem(f"{len(paths)} of {plan.count} parts are named.")
        first, *others = paths
        with Incoming(self._store.arrivals, plan.size_bytes, start=first) as whole:
            for path in others:
                with path.open("rb") as file:
                    while block := file.read(CHUNK_BYTES):
                        whole.write(block)
                path.unlink()  # so that the disk needs room for one part more, not for all of them again
            try:
                self._store.admit(plan.oid, plan.size_bytes, whole)
            except Differs:
                shutil.rmtree(self._folder(plan), ignore_errors=True)  # which part is wrong cannot be told
                raise

    def _turn(self, plan: Plan) -> threading.Lock:
        with self._guard:
            return self._turns.setdefault(plan, threading.Lock())

    def tidy(self) -> None:
        """Remove parts of uploads that nobody went on with."""
        oldest = time.time() - PARTIAL_SECONDS
        for folder in self._store.arrivals.glob("*.parts"):
            if folder.stat().st_mtime < oldest:
                shutil.rmtree(folder, ignore_errors=True)
