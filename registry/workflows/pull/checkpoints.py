"""Kept checkpoints, found through a signed release: its list says where each lies and what it is.

A checkpoint's branch carries no signature of its own; the list does, by the tree digest of its files. So a checkpoint
is proven by the release, wherever its bytes come from. Refuses a revision without such a list, and a branch whose
files are not those that the release lists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from registry.core.digests import Digest, FileEntry, sha256, tree_digest
from registry.core.kept import KeptCheckpoint, kept_checkpoints, named
from registry.core.modelsig import is_ignored
from registry.core.pulling import Reference, RemoteFile, Resolved, Signed
from registry.core.release import CARD, CHECKPOINTS
from registry.errors import DoesNotHold, Refused, UnknownName
from registry.ports import Origin
from registry.workflows.pull.looking import SMALL_BYTES, Looked, small

STATE = "state.safetensors"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A checkpoint to be pulled: its entry in the release, and its revision as it was looked at."""

    entry: KeptCheckpoint
    looked: Looked


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """The checkpoints behind a release."""

    origin: Origin

    def entries(self, release: Looked) -> tuple[KeptCheckpoint, ...]:
        """What the release lists. Raises ``Refused`` when the revision is no signed release."""
        signed = release.signed
        if signed is None or CHECKPOINTS not in signed.files:
            raise Refused(
                f"{release.reference} is no signed release, so it vouches for no checkpoint.",
                remedy="Name the release's tag or main; or pull the checkpoint's branch as it is: hf://REPO@BRANCH.",
            )
        data = small(self.origin, release.listing, CHECKPOINTS)
        if sha256(data) != signed.files[CHECKPOINTS]:
            raise DoesNotHold(f"{CHECKPOINTS} of {release.reference} has other bytes than were signed.")
        return kept_checkpoints(data)

    def find(self, release: Looked, word: str) -> Kept:
        """The checkpoint that ``word`` means, its files held against the release before any of them is pulled."""
        entry = named(self.entries(release), word)
        reference, resolved = self._resolved(release, entry)
        listing = self.origin.listing(reference, resolved.commit)
        own = tuple(file for file in listing.files if not is_ignored(file.path) and file.path != CARD)
        listing = replace(listing, files=own)
        _check_small(reference, own)
        given = {file.path: small(self.origin, listing, file.path) for file in own if not file.large}
        digests = {file.path: sha256(given[file.path]) if file.path in given else file.claimed for file in own}
        entries = (FileEntry(path=file.path, size_bytes=file.size_bytes, digest=digests[file.path]) for file in own)
        found = tree_digest(entries)
        if found != entry.files:
            raise DoesNotHold(
                f"{reference} does not hold {entry.name}: its files add up to {found.short}, the release says "
                f"{entry.files.short}."
            )
        looked = Looked(
            resolved=resolved,
            listing=listing,
            signed=_vouched(release.signed, digests),
            given=given,
            said=release.said,
        )
        return Kept(entry=entry, looked=looked)

    def _resolved(self, release: Looked, entry: KeptCheckpoint) -> tuple[Reference, Resolved]:
        for revision in entry.revisions:
            with suppress(UnknownName):
                reference = release.reference.at(revision)
                return reference, self.origin.resolve(reference)
        raise UnknownName(
            f"{self.origin.where} has {entry.name} neither at its commit nor on the branch {entry.branch}.",
            remedy="Ask its owner to push the checkpoints: reckon release checkpoints.",
        )


def _check_small(reference: Reference, files: Sequence[RemoteFile]) -> None:
    """Raises ``DoesNotHold`` when the files that have to be read whole are together more than one may be."""
    size = sum(file.size_bytes for file in files if not file.large)
    if size > SMALL_BYTES:
        raise DoesNotHold(
            f"The small files of {reference} have {size} bytes together; those of a checkpoint may have {SMALL_BYTES}."
        )


def _vouched(signed: Signed | None, digests: Mapping[str, Digest]) -> Signed | None:
    """The release's signatures, as they cover the files of a checkpoint."""
    return None if signed is None else replace(signed, files=digests)
