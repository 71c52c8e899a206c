"""Looking before pulling: the commit, the list of files, who signed them, and what was said of the release since.

The revision is resolved once; everything after names the commit. A release of ours is judged before any weight moves:
its two signatures, the policy, and every digest that the repository lists against those that were signed. Refuses a
folder that is signed by half, a release under another repository's name or another version's tag, and, where there is a
policy, what nobody signed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from registry.core import notices
from registry.core.digests import Digest, git_blob, sha256
from registry.core.modelsig import SIGNATURE, is_ignored
from registry.core.notices import Notice
from registry.core.publications import MAIN
from registry.core.pulling import Listing, Observed, Reference, RemoteFile, Resolved, Signed, Wanted
from registry.core.release import CARD, STATEMENT
from registry.errors import DoesNotHold, MalformedRecord, ReckonError, UnknownName
from registry.ports import Origin

SMALL_BYTES: Final = 64 * 2**20
_VERSION_TAG = re.compile(r"v\d+\.\d+\.\d+")
# (read a file of the release by its path, repository, version where the tag names one) -> who answers for it
Judge: TypeAlias = Callable[[Callable[[str], bytes], str, str | None], Signed]


class OtherFiles(DoesNotHold):
    """The signatures are good, and the repository has other files than were signed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """A revision that was looked at. ``signed``: None where nobody signed. ``said``: warnings about the release."""

    resolved: Resolved
    listing: Listing
    signed: Signed | None
    given: Mapping[str, bytes]
    said: tuple[str, ...]

    @property
    def reference(self) -> Reference:
        """What was asked for."""
        return self.listing.reference

    def wanted(self, file: RemoteFile) -> Wanted:
        """A file with what is known of its bytes."""
        signed = None if self.signed is None else self.signed.files.get(file.path)
        return Wanted(file=file, sha256=signed, given=self.given.get(file.path))


@dataclass(frozen=True, slots=True, kw_only=True)
class Looker:
    """Looks at revisions. ``judge`` checks signatures. ``unsigned`` is whether what nobody signed may pass.

    ``mirror_of`` is the repository that a release may name instead of the one that it was found in. ``vouched`` says
    who answers for a notice, as a sentence.
    """

    origin: Origin
    judge: Judge
    unsigned: bool
    mirror_of: str | None = None
    vouched: Callable[[Notice], str] = lambda _: ""

    def look(self, reference: Reference) -> Looked:
        """Resolve, list and judge a revision. Raises ``DoesNotHold`` when it is not what was signed."""
        resolved = self.origin.resolve(reference)
        listing = self.origin.listing(reference, resolved.commit)
        here = {name for name in (SIGNATURE, STATEMENT) if listing.find(name)}
        if not here:
            return self._unsigned(resolved, listing)
        if len(here) == 1:
            raise DoesNotHold(f"{reference} is signed by half: it has {here.pop()} and not the other signature.")
        told = self._notices(listing)
        listing, given = self._without_notices(listing, told)
        signed = self._judged(listing, given)
        said = self._warnings(signed, told, reference)
        kept = tuple(file for file in listing.files if file.path == SIGNATURE or not is_ignored(file.path))
        return Looked(
            resolved=resolved, listing=replace(listing, files=kept), signed=signed, given=given, said=tuple(said)
        )

    def _unsigned(self, resolved: Resolved, listing: Listing) -> Looked:
        if not self.unsigned:
            raise DoesNotHold(
                f"Nobody signed {listing.reference}, and there is a trust policy.",
                remedy="Pull a release, or a checkpoint through its release; or say --unsigned.",
            )
        return Looked(resolved=resolved, listing=listing, signed=None, given={}, said=())

    def _judged(self, listing: Listing, given: Mapping[str, bytes]) -> Signed:
        known = {path: small(self.origin, listing, path) for path in (SIGNATURE, STATEMENT)}
        reference = listing.reference
        version = reference.revision[1:] if _VERSION_TAG.fullmatch(reference.revision) else None
        signed = self.judge(known.__getitem__, self.mirror_of or reference.repository, version)
        known |= given
        _check_listed(
            listing,
            signed,
            {
                file.path: sha256(known[file.path]) if file.path in known else file.claimed if file.large else None
                for file in listing.files
            },
        )
        return signed

    def _notices(self, listing: Listing) -> tuple[Notice, ...]:
        if listing.find(notices.FILE) is None:
            return ()
        return notices.decode(small(self.origin, listing, notices.FILE))

    def _without_notices(self, listing: Listing, told: tuple[Notice, ...]) -> tuple[Listing, Mapping[str, bytes]]:
        """The list as it was signed: without the notices, and with the card that stood there before them."""
        if not told:
            return listing, {}
        card = notices.original(small(self.origin, listing, CARD), told)
        files = (file for file in listing.files if file.path != notices.FILE)
        known = RemoteFile(path=CARD, size_bytes=len(card), claimed=git_blob(card))
        return replace(listing, files=tuple(known if file.path == CARD else file for file in files)), {CARD: card}

    def _warnings(self, signed: Signed, told: tuple[Notice, ...], reference: Reference) -> list[str]:
        """What notices say of this release. They stand on main, also for one that was asked for by tag or commit."""
        if not told and reference.revision != MAIN:
            try:
                main = reference.at(MAIN)
                told = self._notices(self.origin.listing(main, self.origin.resolve(main).commit))
            except UnknownName:
                pass
            except ReckonError as error:
                return [f"Whether this release was taken back could not be looked up: {error.message}"]
        found = notices.about(told, signed.statement.digest)
        return [f"{notice.sentence} {self.vouched(notice)}".rstrip() for notice in found]


def small(origin: Origin, listing: Listing, path: str, most_bytes: int = SMALL_BYTES) -> bytes:
    """A small file whole, as the repository lists it. Raises ``DoesNotHold`` when it is missing or other bytes come."""
    file = listing.need(path)
    if file.size_bytes > most_bytes:
        raise MalformedRecord(f"{path} has {file.size_bytes} bytes; the limit for it is {most_bytes}.")
    data = b"".join(origin.read(listing, file, 0, file.size_bytes))
    objection = Wanted(file=file, sha256=None).objection(observed(data))
    if objection is not None:
        raise DoesNotHold(f"{path} of {listing.reference} {objection}.")
    return data


def observed(data: bytes) -> Observed:
    """What bytes at hand hash to."""
    return Observed(size_bytes=len(data), sha256=sha256(data), blob=git_blob(data))


def _check_listed(listing: Listing, signed: Signed, files: Mapping[str, Digest | None]) -> None:
    """Hold the repository's list against what was signed."""
    listed = {path for path in files if not is_ignored(path)}
    for what, paths in (
        ("is signed and missing", signed.files.keys() - listed),
        ("is not signed", listed - signed.files.keys()),
    ):
        if paths:
            more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
            raise OtherFiles(f"{', '.join(sorted(paths)[:3])}{more} of {listing.reference} {what}.")
    for path, digest in signed.files.items():
        found = files[path]
        if found is not None and found != digest:
            raise OtherFiles(
                f"{path} of {listing.reference} has other bytes ({found.short}) than were signed ({digest.short})."
            )
