"""Mirroring: a whole repository, every branch and tag of it, proven byte by byte, for a place without network.

Each commit is looked at as for a pull, so a tampered release is never mirrored as a good one. Blobs are brought like
files of a pull: side by side, resumed, and hashed; those that are here are hashed again. Refuses names of revisions
that no git would have, or that no folder can hold side by side, before anything is fetched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol

from registry.core.pulling import MOST_REFS, Listing, Reference, RemoteFile, Resolved, Wanted, checked_revision, nested
from registry.errors import Refused
from registry.ports import Landing, Origin
from registry.workflows.pull.files import Pulled, Puller
from registry.workflows.pull.looking import Looked, Looker

BLOBS: Final = "blobs"


class Mirror(Protocol):
    """A copy of a repository that is being made."""

    def publish(self, listing: Listing) -> None:
        """Make a commit whose blobs are all here visible."""
        ...

    def point(self, branches: Mapping[str, str], tags: Mapping[str, str]) -> None:
        """Give commits their names, and forget names that are no more."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirrored:
    """A mirrored repository: its commits as they were looked at, by branch and tag, and what moved."""

    branches: Mapping[str, str]
    tags: Mapping[str, str]
    releases: tuple[Looked, ...]
    pulled: Pulled


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirrorer:
    """Makes mirrors."""

    puller: Puller
    looker: Looker

    def plan(self, reference: Reference) -> Plan:
        """What there is to mirror. Raises ``DoesNotHold`` when a signed commit is not what was signed.

        Raises ``Refused`` for a repository without names, with too many, or with some that no folder can hold.
        """
        branches, tags = self.puller.origin.refs(reference)
        names = _names(reference, branches, tags)
        listings = {commit: self.puller.origin.listing(reference, commit) for commit in set(names.values())}
        looked = [self._looked(reference, name, commit, name in tags) for name, commit in sorted(names.items())]
        signed = tuple(one for one in looked if one.signed is not None)
        return Plan(branches=branches, tags=tags, listings=listings, releases=signed)

    def mirror(self, plan: Plan, landing: Landing, mirror: Mirror) -> Mirrored:
        """Bring all blobs, then show commits, then names."""
        blobs = plan.blobs()
        puller = replace(self.puller, origin=_Blobs(self.puller.origin, blobs))
        first = next(iter(plan.listings.values()))
        pulled = puller.bring(first, [Wanted(file=blob, sha256=None) for blob in blobs], landing)
        for listing in plan.listings.values():
            mirror.publish(listing)
        mirror.point(plan.branches, plan.tags)
        landing.tidy()
        return Mirrored(branches=plan.branches, tags=plan.tags, releases=plan.releases, pulled=pulled)

    def _looked(self, reference: Reference, name: str, commit: str, tag: bool) -> Looked:
        """The commit under its name, so that a tag's version counts."""
        fixed = _Fixed(self.puller.origin, name, Resolved(commit=commit, tag=tag))
        return replace(self.looker, origin=fixed, unsigned=True).look(reference.at(name))


def _names(reference: Reference, branches: Mapping[str, str], tags: Mapping[str, str]) -> Mapping[str, str]:
    """Commits by branch and tag, which lie side by side as files."""
    names = {checked_revision(name): commit for name, commit in {**branches, **tags}.items()}
    if not names:
        raise Refused(f"{reference.repository} has neither a branch nor a tag, so there is nothing to mirror.")
    if len(names) > MOST_REFS:
        raise Refused(f"{reference.repository} has {len(names)} branches and tags; a mirror takes {MOST_REFS} at most.")
    below = nested(names)
    twice = next((name for name, commit in branches.items() if names[name] != commit), None)
    if below is not None or twice is not None:
        raise Refused(
            f"{reference.repository} has a branch or tag {below or twice!r} that cannot lie beside another one.",
            remedy="Two of its names are the same, or one lies below the other: ask its owner to rename one.",
        )
    return names


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The commits to be mirrored, as they are listed."""

    branches: Mapping[str, str]
    tags: Mapping[str, str]
    listings: Mapping[str, Listing]
    releases: tuple[Looked, ...]

    def blobs(self) -> Mapping[RemoteFile, tuple[Listing, RemoteFile]]:
        """Each blob once, as a file of the mirror, with a place where it lies."""
        found: dict[RemoteFile, tuple[Listing, RemoteFile]] = {}
        for listing in self.listings.values():
            for file in listing.files:
                blob = RemoteFile(path=f"{BLOBS}/{file.claimed.hex}", size_bytes=file.size_bytes, claimed=file.claimed)
                found.setdefault(blob, (listing, file))
        return found

    @property
    def size_bytes(self) -> int:
        """Bytes of all blobs."""
        return sum(blob.size_bytes for blob in self.blobs())


@dataclass(frozen=True, slots=True)
class _Around:
    """An origin, asked through another."""

    inner: Origin

    @property
    def where(self) -> str:
        return self.inner.where

    def resolve(self, reference: Reference) -> Resolved:
        return self.inner.resolve(reference)

    def refs(self, reference: Reference) -> tuple[Mapping[str, str], Mapping[str, str]]:
        return self.inner.refs(reference)

    def listing(self, reference: Reference, commit: str) -> Listing:
        return self.inner.listing(reference, commit)

    def read(self, listing: Listing, file: RemoteFile, start_byte: int, stop_byte: int) -> Iterator[bytes]:
        return self.inner.read(listing, file, start_byte, stop_byte)


@dataclass(frozen=True, slots=True)
class _Blobs(_Around):
    """Blobs by the digest that they are called by."""

    places: Mapping[RemoteFile, tuple[Listing, RemoteFile]]

    def read(self, listing: Listing, file: RemoteFile, start_byte: int, stop_byte: int) -> Iterator[bytes]:
        at, named = self.places[file]
        return self.inner.read(at, named, start_byte, stop_byte)


@dataclass(frozen=True, slots=True)
class _Fixed(_Around):
    """One name means one commit, whatever moves meanwhile."""

    name: str
    resolved: Resolved

    def resolve(self, reference: Reference) -> Resolved:
        return self.resolved if reference.revision == self.name else self.inner.resolve(reference)
