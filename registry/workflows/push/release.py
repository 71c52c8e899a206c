"""Publishing a release: preflight, one commit on a branch of its own, every byte pulled back, the tag, and then main.

``main`` moves in one commit from the release before to this one, by the hub's own compare-and-swap: a reader sees the
old or the new release and never a mixture. Whatever fails leaves ``main`` where it was, and the same push again goes on
from what the hub holds. Refuses a folder that is not what its statement says, a release that was built for another
repository or on another parent than the one on ``main``, a tag that holds other bytes, and to move ``main`` back.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from registry.core import notices
from registry.core.branches import staging
from registry.core.codec import record_bytes
from registry.core.digests import Digest
from registry.core.dsse import Envelope
from registry.core.publications import MAIN, Publication, Publications, Subject
from registry.core.pulling import Listing
from registry.core.pushing import ROOM_BYTES, Change, Overtaken, Parcel, check_limits
from registry.core.release import CARD, STATEMENT, UNSTATED, ReleaseStatement
from registry.errors import DoesNotHold, OutsideFailed, ReckonError, Refused
from registry.ports import Host, RecordStore
from registry.workflows.push.staging import Site, allowed, check_bytes, check_list, made, stage

_LARGEST_STATEMENT: Final = 16 * 2**20
_TRIES: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a push would do: bytes of the release, those that the repository is charged with, and advice.

    ``exists`` is False when the repository is still to be made.
    """

    statement: ReleaseStatement
    files: int
    size_bytes: int
    new_bytes: int
    exists: bool
    user: str
    advice: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """A release that is published. ``fresh`` is False when everything was there already."""

    digest: Digest
    publication: Publication
    fresh: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Pusher:
    """Publishes releases at one site. ``room_bytes`` are free on the disk of the records."""

    site: Site
    records: RecordStore
    publications: Publications
    host: Host
    room_bytes: int

    def plan(self, parcel: Parcel) -> Plan:
        """Look at everything that can be known before anything is sent; nothing is changed.

        Raises ``Refused`` for a token, a size or a disk that will not do, ``DoesNotHold`` for a folder that is not what
        it says or does not follow on what is published.
        """
        statement = read_statement(parcel)
        if statement.identity.repository != self.site.repository:
            raise Refused(
                f"This release is for {statement.identity.repository}, not for {self.site.repository}.",
                remedy=f"Push it there, or build one for {self.site.repository}.",
            )
        advice = check_limits(parcel)
        if self.room_bytes < ROOM_BYTES:
            raise Refused("The disk is too full to keep the record of a push.", remedy="Free 64 MiB or more.")
        access = allowed(self.site)
        main = self.site.commit_of(MAIN)
        listing = None if main is None else self.site.listing(main)
        self._standing(statement, listing)
        return Plan(
            statement=statement,
            files=len(parcel.files),
            size_bytes=parcel.size_bytes,
            new_bytes=parcel.new_bytes(listing),
            exists=main is not None,
            user=access.user,
            advice=advice,
        )

    def push(self, parcel: Parcel, statement: ReleaseStatement, *, private: bool) -> Pushed:
        """Publish; a repository that is not there is made, ``private`` or not. Done again, it adds what lacks."""
        self.site.patiently(lambda: made(self.site, private=private))
        commit, head, fresh = self.site.patiently(lambda: self._persist(parcel, statement))
        identity = statement.identity
        publication = Publication(
            subject=Subject.RELEASE,
            name=str(identity),
            digest=statement.digest,
            place=self.site.outlet.place,
            commit=commit,
            tag=identity.tag,
            branch=MAIN,
            head=head,
            time=self.host.now(),
        )
        known = self.publications.newest(statement.digest, publication.place)
        if known is not None and known.commit == commit:
            publication = known
        digest = self.records.put(publication.kind, record_bytes(publication))
        return Pushed(digest=digest, publication=publication, fresh=fresh)

    def _persist(self, parcel: Parcel, statement: ReleaseStatement) -> tuple[str, str, bool]:
        """Go on from what the hub holds, again when somebody else pushed meanwhile."""
        for _ in range(_TRIES):
            with suppress(Overtaken):
                return self._advance(parcel, statement)
        raise OutsideFailed("Somebody else keeps pushing.", remedy="Find out who, then run the same command again.")

    def _advance(self, parcel: Parcel, statement: ReleaseStatement) -> tuple[str, str, bool]:
        """From whatever the hub holds to the end: the tagged commit, that of main, and whether anything was done."""
        tag, branch = statement.identity.tag, staging(statement.identity.tag, statement.digest.hex)
        tagged = self.site.commit_of(tag)
        if tagged is not None:
            self._check_tag(parcel, tag, tagged)
        commit = tagged or self._tag(parcel, statement, branch)
        head, moved = self._move(parcel, statement, commit)
        with suppress(OutsideFailed):  # a branch left behind is in nobody's way
            self.site.outlet.drop(branch)
        return commit, head, moved or tagged is None

    def _tag(self, parcel: Parcel, statement: ReleaseStatement, branch: str) -> str:
        """Bring the files, pull them back, and only then name them."""
        identity = statement.identity
        commit = stage(self.site, parcel, branch, f"{identity.name} {identity.version}")
        check_bytes(self.site, parcel, commit)
        self._standing(statement, self.site.listing(self.site.need(MAIN)))
        try:
            self.site.outlet.tag(identity.tag, commit, f"{identity.name} {identity.version}, {statement.digest}")
        except Overtaken:
            commit = self.site.need(identity.tag)
            self._check_tag(parcel, identity.tag, commit)
        return commit

    def _check_tag(self, parcel: Parcel, tag: str, commit: str) -> None:
        listing = self.site.listing(commit)
        found = parcel.differences(listing)
        if found:
            raise DoesNotHold(
                f"The tag {tag} of {self.site.repository} holds another release: {'; '.join(found[:3])}.",
                remedy="A published version never changes: build this one under the next version.",
            )

    def _move(self, parcel: Parcel, statement: ReleaseStatement, commit: str) -> tuple[str, bool]:
        """Bring main to the release at ``commit``: where it stands then, and whether it moved."""
        tip = self.site.need(MAIN)
        listing = self.site.listing(tip)
        shown = _overlaid(parcel, self._notices(listing))
        if not self._standing(statement, listing) or not shown.differences(listing):
            return tip, False
        head = self.site.outlet.commit(self._change(shown, statement, listing, commit), _silent)
        check_list(shown, self.site.listing(head))
        return head, True

    def _change(self, shown: Parcel, statement: ReleaseStatement, listing: Listing, commit: str) -> Change:
        """The one commit on main: large files by what the hub has verified, all others with their bytes."""
        large = {one.path for one in self.site.listing(commit).files if one.large and one.path in shown.files}
        identity = statement.identity
        return Change(
            branch=MAIN,
            parent=listing.commit,
            title=f"Release {identity.name} {identity.version}",
            added={path: shown.read(path) for path in shown.files if path not in large},
            removed=shown.superfluous(listing),
            copied=tuple(sorted(large)),
            source=commit,
        )

    def _standing(self, statement: ReleaseStatement, listing: Listing | None) -> bool:
        """Whether main is still to move to this release: False when it has moved on to a later one.

        Raises ``DoesNotHold`` when main holds a release that this one does not follow.
        """
        data = None if listing is None else self.site.small(listing, STATEMENT, _LARGEST_STATEMENT)
        if data is None:
            if statement.parent is not None:
                raise self._no_parent(statement, "nothing that was released")
            return True
        theirs = ReleaseStatement.parse(Envelope.parse(data).payload)
        if theirs.digest == statement.digest:
            return True
        if statement.digest == theirs.parent or self.publications.newest(statement.digest, self.site.outlet.place):
            self.site.say(f"main holds {theirs.identity} already and stays there.")
            return False
        if theirs.digest != statement.parent:
            raise self._no_parent(statement, f"{theirs.identity} ({theirs.digest.short})")
        return True

    def _no_parent(self, statement: ReleaseStatement, found: str) -> ReckonError:
        parent = "no release" if statement.parent is None else f"release {statement.parent.short}"
        return DoesNotHold(
            f"{statement.identity} was built on {parent}, but main of {self.site.repository} holds {found}.",
            remedy="Build it again on the release that main holds.",
        )

    def _notices(self, listing: Listing) -> tuple[notices.Notice, ...]:
        data = self.site.small(listing, notices.FILE, notices.MOST_BYTES)
        return () if data is None else notices.decode(data)


def read_statement(parcel: Parcel) -> ReleaseStatement:
    """The statement in a release folder, after holding it against the files. Raises ``DoesNotHold`` or ``Refused``."""
    for path in UNSTATED:
        if path not in parcel.files:
            raise Refused(f"The folder holds no {path}, so it is no release.", remedy="Run 'reckon release build'.")
    if parcel.files[STATEMENT].size_bytes > _LARGEST_STATEMENT:
        raise Refused(f"{STATEMENT} is beyond all sense.")
    statement = ReleaseStatement.parse(Envelope.parse(parcel.read(STATEMENT)).payload)
    found = {path: entry.digest for path, entry in parcel.files.items() if path not in UNSTATED}
    for path in sorted(found.keys() | statement.files.keys()):
        if found.get(path) != statement.files.get(path):
            what = "is missing" if path not in found else "is not stated" if path not in statement.files else "differs"
            raise DoesNotHold(f"{path} {what}: the folder is not the release that its statement names.")
    return statement


def _overlaid(parcel: Parcel, told: tuple[notices.Notice, ...]) -> Parcel:
    """The release as it stands on main: with what notices say."""
    if not told:
        return parcel
    texts = {notices.FILE: notices.encode(told), CARD: notices.annotated(parcel.read(CARD), told)}
    return parcel.with_texts(texts)


def _silent(_size: int) -> None:
    """The bytes of a move are no progress of a push: the hub has them."""
