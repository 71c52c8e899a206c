"""Taking a published release back, or naming its successor: a notice on ``main``, and the record of it.

The tag and its commit stay: whoever pinned them gets what was signed, with a warning. With a key the notice is signed
before it goes out. Refuses a version that is not
published, a successor that is not, and another release than the one that the archive has on record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from registry.core import notices
from registry.core.codec import record_bytes
from registry.core.digests import Digest
from registry.core.dsse import Envelope
from registry.core.notices import Change as What
from registry.core.notices import Notice
from registry.core.publications import MAIN
from registry.core.pulling import Listing
from registry.core.pushing import Change, Overtaken
from registry.core.release import CARD, STATEMENT, Identity, ReleaseStatement
from registry.core.statement import Statement
from registry.errors import DoesNotHold, OutsideFailed, Refused, UnknownName
from registry.ports import Host, RecordStore
from registry.workflows.push.staging import Site, allowed

_MOST_BYTES: Final = 16 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is to be said of a release: ``successor`` is a version, ``known`` the release digest on record here."""

    what: What
    identity: Identity
    successor: str | None
    reason: str
    erratum: str | None
    known: Digest | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """A notice that stands on main, at ``head``."""

    digest: Digest
    notice: Notice
    head: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcer:
    """Publishes notices at one site; ``seal`` signs what they say, None leaves them unsigned."""

    site: Site
    records: RecordStore
    host: Host
    seal: Callable[[Statement], Envelope] | None = None

    def announce(self, wish: Wish) -> Announced:
        """Put the notice on main. Said again in the same words, it stays one notice."""
        allowed(self.site)
        commit, release = self._published(wish.identity)
        if wish.known is not None and wish.known != release:
            raise DoesNotHold(
                f"{wish.identity} on {self.site.repository} is {release}, but on record here is {wish.known}.",
                remedy="Which one is right? Nothing was said about either.",
            )
        if wish.successor is not None:
            self._published(replace(wish.identity, version=wish.successor))
        notice = Notice(
            notice=wish.what,
            identity=wish.identity,
            release=release,
            endpoint=self.site.outlet.place.endpoint,
            commit=commit,
            successor=wish.successor,
            reason=wish.reason,
            erratum=wish.erratum,
            time=self.host.now(),
        )
        sealed = notice if self.seal is None else replace(notice, envelope=self.seal(notice.statement))
        said, head = self.site.patiently(lambda: self._say(sealed))
        return Announced(digest=self.records.put(said.kind, record_bytes(said)), notice=said, head=head)

    def _published(self, identity: Identity) -> tuple[str, Digest]:
        """The commit of a version's tag, and the release that it holds."""
        commit = self.site.commit_of(identity.tag)
        if commit is None:
            raise UnknownName(
                f"{self.site.repository} has no tag {identity.tag}.",
                remedy=f"See the tags of {self.site.repository}, or push the release first.",
            )
        data = self.site.small(self.site.listing(commit), STATEMENT, _MOST_BYTES)
        if data is None:
            raise DoesNotHold(f"The tag {identity.tag} of {self.site.repository} holds no release.")
        statement = ReleaseStatement.parse(Envelope.parse(data).payload)
        if statement.identity != identity:
            raise Refused(
                f"The tag {identity.tag} holds {statement.identity} of {statement.identity.repository}.",
                remedy=f"Name it as {statement.identity.name}@{statement.identity.version}.",
            )
        return commit, statement.digest

    def _say(self, notice: Notice) -> tuple[Notice, str]:
        """The notice as it stands on main, and where main stands."""
        for _ in range(5):
            listing = self.site.listing(self.site.need(MAIN))
            told = self._told(listing)
            same = [one for one in told if _alike(one, notice)]
            if same:
                return same[0], listing.commit
            try:
                return notice, self.site.outlet.commit(self._change(listing, told, notice), self.site.advance)
            except Overtaken:
                continue
        raise OutsideFailed("main moves faster than we can follow.", remedy="Find out who else pushes, then try again.")

    def _told(self, listing: Listing) -> tuple[Notice, ...]:
        data = self.site.small(listing, notices.FILE, notices.MOST_BYTES)
        return () if data is None else notices.decode(data)

    def _change(self, listing: Listing, told: tuple[Notice, ...], notice: Notice) -> Change:
        every = (*told, notice)
        shown = self.site.small(listing, CARD, _MOST_BYTES) or b""
        card = notices.annotated(notices.original(shown, told), every)
        return Change(
            branch=MAIN,
            parent=listing.commit,
            title=notice.sentence[:200],
            added={notices.FILE: notices.encode(every), CARD: card},
        )


def _alike(one: Notice, other: Notice) -> bool:
    """Whether one notice says what the other does, at whatever time; an unsigned one does not say what a signed one
    does.
    """
    plain = [replace(each, envelope=None, time="", extra={}) for each in (one, other)]
    return plain[0] == plain[1] and (one.envelope is not None or other.envelope is None)
