"""Bringing files to a hub and proving that it has them, on a branch of their own that nobody reads.

The branch gets one commit whose files are ours and no others; then every byte is pulled back from that commit and
hashed. Done again, it goes on from what the hub holds. Refuses a commit that holds anything else than our files.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeVar

from registry.core.digests import Algorithm, Digest
from registry.core.publications import MAIN
from registry.core.pulling import Kind, Listing, Reference, RemoteFile
from registry.core.pushing import Access, Busy, Change, Overtaken, Parcel
from registry.errors import DoesNotHold, Refused, UnknownName
from registry.ports import Origin, Outlet

T = TypeVar("T")
_PAUSES: Final = (1.0, 2.0, 4.0, 8.0, 16.0)
_LONGEST_PAUSE: Final = 120.0
_READERS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A repository to publish to: written through ``outlet``, read through ``origin``.

    ``advance`` is told of bytes that went up or came back, ``say`` of what is waited for; ``pauses`` are the seconds
    before each further try while the hub is busy.
    """

    outlet: Outlet
    origin: Origin
    advance: Callable[[int], None]
    say: Callable[[str], None]
    pauses: tuple[float, ...] = _PAUSES

    @property
    def repository(self) -> str:
        """Its name, ``owner/name``."""
        return self.outlet.place.repository

    def reference(self, revision: str) -> Reference:
        """A revision of the repository."""
        return Reference(kind=Kind.MODEL, repository=self.repository, revision=revision)

    def commit_of(self, revision: str) -> str | None:
        """The commit that a branch or tag means now, or None when there is none."""
        with suppress(UnknownName):
            return self.origin.resolve(self.reference(revision)).commit
        return None

    def need(self, revision: str) -> str:
        """The commit of a branch that must be there. Raises ``Overtaken`` when it is not."""
        found = self.commit_of(revision)
        if found is None:
            raise Overtaken(f"{self.repository} has no {revision}.", remedy="Run the command again.")
        return found

    def listing(self, commit: str) -> Listing:
        """Every file at a commit."""
        return self.origin.listing(self.reference(commit), commit)

    def small(self, listing: Listing, path: str, most_bytes: int) -> bytes | None:
        """The bytes of a small file at a commit, None when there is none. Raises ``DoesNotHold`` for a large one."""
        file = listing.find(path)
        if file is None:
            return None
        if file.size_bytes > most_bytes:
            raise DoesNotHold(f"{path} of {self.repository} has {file.size_bytes} bytes, beyond all sense.")
        return b"".join(self.origin.read(listing, file, 0, file.size_bytes))

    def patiently(self, work: Callable[[], T]) -> T:
        """Do ``work``, which goes on from what the hub holds, again after a pause while the hub is busy."""
        for pause in self.pauses:
            try:
                return work()
            except Busy as busy:
                wait = min(max(pause, busy.wait_seconds), _LONGEST_PAUSE)
                self.say(f"{busy.message} Trying again in {wait:.0f} s.")
                time.sleep(wait)
        return work()


def allowed(site: Site) -> Access:
    """Who we are on the hub. Raises ``Refused`` for a token that may not write to the repository."""
    access = site.outlet.access()
    if not access.writes:
        raise Refused(
            f"The token of {access.user} ({access.role}) may not write to {site.repository}.",
            remedy="Make a token with the scope 'write' for this repository, and set HF_TOKEN to it.",
        )
    return access


def made(site: Site, *, private: bool) -> None:
    """Make the repository unless it is there."""
    if site.commit_of(MAIN) is None:
        site.outlet.create(private=private)


def stage(site: Site, parcel: Parcel, branch: str, title: str) -> str:
    """The commit on ``branch`` that holds the parcel and nothing else, made in one step if it is not there.

    Raises ``DoesNotHold`` when the commit that we made holds something else.
    """
    tip = site.commit_of(branch)
    if tip is None:
        with suppress(Overtaken):
            site.outlet.branch(branch, site.need(MAIN))
        tip = site.need(branch)
    listing = site.listing(tip)
    if not parcel.differences(listing):
        return tip
    change = Change(
        branch=branch,
        parent=tip,
        title=title,
        added=dict(parcel.paths),
        removed=parcel.superfluous(listing),
    )
    commit = site.outlet.commit(change, site.advance)
    check_list(parcel, site.listing(commit))
    return commit


def check_list(parcel: Parcel, listing: Listing) -> None:
    """Raise ``DoesNotHold`` unless the hub lists our files, with our digests, and no others."""
    found = parcel.differences(listing)
    if found:
        told = "; ".join(found[:3])
        raise DoesNotHold(
            f"Commit {listing.commit[:12]} of {listing.reference.repository} is not what was pushed: {told}.",
            remedy="Did a file change meanwhile? Check it here, then push again; nothing points to that commit.",
        )


def check_bytes(site: Site, parcel: Parcel, commit: str) -> None:
    """Pull every byte back and hash it. Raises ``DoesNotHold`` for the first file that comes back as another."""
    listing = site.listing(commit)
    check_list(parcel, listing)
    ours = sorted((one for one in listing.files if one.path in parcel.files), key=_size, reverse=True)
    with ThreadPoolExecutor(_READERS) as readers:
        for file, digest in readers.map(lambda one: (one, _hashed(site, listing, one)), ours):
            ours_digest = parcel.files[file.path].digest
            if digest != ours_digest:
                raise DoesNotHold(
                    f"{file.path} came back from commit {commit[:12]} as {digest}, not {ours_digest}.",
                    remedy="The hub or the way to it changes bytes; nothing was published. Push again.",
                )


def _hashed(site: Site, listing: Listing, file: RemoteFile) -> Digest:
    running = hashlib.sha256()
    for piece in _pieces(site, listing, file):
        running.update(piece)
    return Digest(Algorithm.SHA256, running.hexdigest())


def _pieces(site: Site, listing: Listing, file: RemoteFile) -> Iterator[bytes]:
    for piece in site.origin.read(listing, file, 0, file.size_bytes):
        site.advance(len(piece))
        yield piece


def _size(file: RemoteFile) -> int:
    return file.size_bytes
