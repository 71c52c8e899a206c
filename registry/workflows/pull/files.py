"""Bringing files: several at a time, each resumed where an earlier process stopped, hashed as it comes.

A file that is here already is hashed again and kept. Refuses folders that hold something else, disks without room, and
bytes that are not those that were signed or listed; and says so when a tag moved while its bytes were brought.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Final

from registry.core.pulling import Listing, Reference, Wanted
from registry.errors import DoesNotHold, OutsideFailed, Refused
from registry.ports import Arriving, Landing, Origin
from registry.workflows.pull.looking import Looked

WORKERS: Final = 8
_SPARE_BYTES: Final = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulled:
    """What a pull brought: files (or ``tensors``) that came, those that were here already, and bytes."""

    commit: str
    landed: tuple[str, ...]
    kept: tuple[str, ...]
    fetched_bytes: int
    resumed_bytes: int
    tensors: bool = False


@dataclass(slots=True)
class _Counts:
    fetched_bytes: int = 0
    resumed_bytes: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class _Stopped(Exception):
    """Another file failed; this one stays where it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Puller:
    """Brings files from an origin. ``advance`` is told of bytes as they are done, from any thread."""

    origin: Origin
    advance: Callable[[int], None] = lambda _: None
    workers: int = WORKERS

    def pull(self, looked: Looked, wanted: Sequence[Wanted], landing: Landing, *, whole: bool) -> Pulled:
        """Bring ``wanted``. ``whole``: they are all files of the revision, so that nothing else may lie there.

        Raises ``DoesNotHold``, ``Refused`` or ``OutsideFailed``; what came until then is kept for the next try.
        """
        pinned(looked, landing)
        if whole:
            _check_extras(looked.listing, landing)
        pulled = self.bring(looked.listing, wanted, landing)
        self.settle(looked)
        if whole:
            landing.tidy()
        return pulled

    def bring(self, listing: Listing, wanted: Sequence[Wanted], landing: Landing) -> Pulled:
        """Bring ``wanted`` of a listing, whatever else lies in the folder. Raises as :meth:`pull`."""
        _check_room(wanted, landing)
        counts, stop = _Counts(), threading.Event()
        ordered = sorted(wanted, key=lambda one: -one.file.size_bytes)
        with ThreadPoolExecutor(self.workers, thread_name_prefix="pull") as pool:
            jobs = {pool.submit(self._one, listing, one, landing, (counts, stop)): one for one in ordered}
            try:
                done, _ = wait(jobs, return_when=FIRST_EXCEPTION)
            finally:
                stop.set()
                pool.shutdown(wait=True, cancel_futures=True)
        troubles = [job.exception() for job in jobs if not job.cancelled()]
        for trouble in troubles:
            if trouble is not None and not isinstance(trouble, _Stopped):
                raise trouble
        came = {one.file.path for job, one in jobs.items() if job in done and job.result()}
        return Pulled(
            commit=listing.commit,
            landed=tuple(sorted(came)),
            kept=tuple(sorted(one.file.path for one in wanted if one.file.path not in came)),
            fetched_bytes=counts.fetched_bytes,
            resumed_bytes=counts.resumed_bytes,
        )

    def settle(self, looked: Looked) -> None:
        """Raises ``DoesNotHold`` when the tag that was pulled means another commit by now."""
        if looked.resolved.tag:
            now = self.origin.resolve(looked.reference)
            if now.commit != looked.resolved.commit:
                raise _moved(looked.reference, looked.resolved.commit, now.commit)

    def _one(self, listing: Listing, wanted: Wanted, landing: Landing, shared: tuple[_Counts, threading.Event]) -> bool:
        """Bring one file; False when it was here already."""
        counts, stop = shared
        held = landing.held(wanted.file)
        if held is not None:
            objection = wanted.objection(held)
            if objection is not None:
                raise DoesNotHold(
                    f"{wanted.file.path} lies here and {objection}.",
                    remedy="Take it away to pull it again, or pull into another folder.",
                )
            self.advance(wanted.file.size_bytes)
            return False
        with landing.arriving(wanted.file) as arriving:
            resumed = arriving.size_bytes
            self.advance(resumed)
            self._fill(listing, wanted, arriving, shared)
            if resumed and wanted.objection(arriving.observed()) is not None:
                resumed = 0
                arriving.restart()
                self._fill(listing, wanted, arriving, shared)
            objection = wanted.objection(arriving.observed())
            if objection is not None:
                arriving.restart()
                raise DoesNotHold(
                    f"{wanted.file.path} from {self.origin.where} {objection}.",
                    remedy="Nothing was kept of it. Pull again; if it stays so, do not use this repository.",
                )
            if stop.is_set():
                raise _Stopped
            arriving.land()
            with counts.lock:
                counts.resumed_bytes += resumed
        return True

    def _fill(
        self, listing: Listing, wanted: Wanted, arriving: Arriving, shared: tuple[_Counts, threading.Event]
    ) -> None:
        counts, stop = shared
        file, start = wanted.file, arriving.size_bytes
        pieces = (
            self.origin.read(listing, file, start, file.size_bytes) if wanted.given is None else [wanted.given[start:]]
        )
        for piece in pieces:
            arriving.write(piece)
            self.advance(len(piece))
            with counts.lock:
                counts.fetched_bytes += len(piece)
            if stop.is_set():
                raise _Stopped


def pinned(looked: Looked, landing: Landing) -> None:
    """Hold the folder to one commit of one repository.

    Raises ``DoesNotHold`` when a tag moved since an earlier pull, ``Refused`` when the folder is of something else.
    """
    reference, commit = looked.reference, looked.resolved.commit
    told = landing.pins()
    if told and (told.get("repository"), told.get("kind")) != (reference.repository, str(reference.kind)):
        raise _foreign(f"{told.get('repository')}")
    if told and told.get("commit") != commit:
        if told.get("revision") == reference.revision and looked.resolved.tag:
            raise _moved(reference, str(told.get("commit")), commit)
        raise _foreign(f"{reference.repository} at commit {told.get('commit')}")
    landing.pin(
        {
            "kind": str(reference.kind),
            "repository": reference.repository,
            "revision": reference.revision,
            "commit": commit,
        }
    )


def _moved(reference: Reference, before: str, now: str) -> DoesNotHold:
    return DoesNotHold(
        f"The tag {reference.revision} of {reference.repository} moved: it was {before}, and is {now} now.",
        remedy="Tags of releases never move by themselves: ask its owner; name the commit that you mean after @.",
    )


def _foreign(what: str) -> Refused:
    return Refused(f"This folder holds a pull of {what[:120]}.", remedy="Pull into another folder.")


def _check_extras(listing: Listing, landing: Landing) -> None:
    paths = {file.path for file in listing.files}
    extras = [name for name in landing.names() if name not in paths]
    if extras:
        more = f" and {len(extras) - 3} more" if len(extras) > 3 else ""
        raise Refused(
            f"The folder holds {', '.join(extras[:3])}{more}, which {listing.reference} does not have.",
            remedy="Take it away, or pull into another folder.",
        )


def _check_room(wanted: Sequence[Wanted], landing: Landing) -> None:
    here = set(landing.names())
    needed = sum(one.file.size_bytes for one in wanted if one.file.path not in here)
    room = landing.room_bytes()
    if needed + _SPARE_BYTES > room:
        raise OutsideFailed(
            f"This pull needs {needed} bytes, and the disk has {room} free.",
            remedy="Free some space, or pull elsewhere.",
        )
