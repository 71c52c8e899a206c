"""What publishing and pulling need: a hub to read, a folder to land in, a hub to write to, a registry of models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from registry.core.canonical import Json
from registry.core.digests import Digest
from registry.core.publications import Place, Publication
from registry.core.pulling import Listing, Observed, Reference, RemoteFile, Resolved
from registry.core.pushing import Access, Change


class Origin(Protocol):
    """Where repositories are read from: a hub, a mirror or a client's cache. What it says is a claim until hashed."""

    @property
    def where(self) -> str:
        """Its address for people, without user or password."""
        ...

    def resolve(self, reference: Reference) -> Resolved:
        """The commit that a revision means now. Raises ``UnknownName`` when it means none."""
        ...

    def refs(self, reference: Reference) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Branches and tags of the repository, with their commits."""
        ...

    def listing(self, reference: Reference, commit: str) -> Listing:
        """Every file at a commit. Raises ``MalformedRecord`` for a list that no folder can hold."""
        ...

    def read(self, listing: Listing, file: RemoteFile, start_byte: int, stop_byte: int) -> Iterator[bytes]:
        """The bytes of a range, in pieces; goes on by itself after a cut.

        Raises ``DoesNotHold`` when the file is not as listed, ``OutsideFailed`` when the other side gives up.
        """
        ...


class Arriving(Protocol):
    """A file that is on its way, kept apart until it is whole and proven."""

    @property
    def size_bytes(self) -> int:
        """Bytes that are here."""
        ...

    def write(self, data: bytes) -> None:
        """Add the next bytes."""
        ...

    def restart(self) -> None:
        """Let go what is here and begin anew."""
        ...

    def read(self, start_byte: int, stop_byte: int) -> bytes:
        """Bytes that are here, read back."""
        ...

    def observed(self) -> Observed:
        """What the bytes that are here hash to."""
        ...

    def land(self) -> None:
        """Give the file its final name, durably. Raises ``DoesNotHold`` when another file took it meanwhile."""
        ...


class Landing(Protocol):
    """A folder that files land in: whole and proven under their final names, or not at all. One puller's at a time."""

    def room_bytes(self) -> int:
        """Free bytes of its disk."""
        ...

    def names(self) -> Sequence[str]:
        """Files in it, but for what clients and git keep apart; sorted."""
        ...

    def held(self, file: RemoteFile) -> Observed | None:
        """What the file with that final name hashes to, read now; None when there is none."""
        ...

    def arriving(self, file: RemoteFile) -> AbstractContextManager[Arriving]:
        """The file on its way, with what an earlier process left of it, hashed again."""
        ...

    def pins(self) -> Mapping[str, Json]:
        """What the last pull into this folder wrote down; empty when there was none."""
        ...

    def pin(self, facts: Mapping[str, Json]) -> None:
        """Write down what is being pulled, durably."""
        ...

    def tidy(self) -> None:
        """Remove what is left of files on their way."""
        ...


class Outlet(Protocol):
    """A repository on a hub, to write to. What it then holds is read through an ``Origin``.

    All raise ``Busy`` for what may work later, ``Overtaken`` when somebody else was faster, ``Refused`` for a token
    that may not, ``OutsideFailed`` for other refusals of the hub.
    """

    @property
    def place(self) -> Place:
        """The hub's address and the repository."""
        ...

    def access(self) -> Access:
        """Who the token speaks for, and whether it may write here."""
        ...

    def create(self, *, private: bool) -> None:
        """Make the repository; one that is there stays as it is."""
        ...

    def commit(self, change: Change, advance: Callable[[int], None]) -> str:
        """Upload what is new and move the branch from the stated parent, in one step or not at all; the new commit.

        ``advance`` is told of uploaded bytes.
        """
        ...

    def branch(self, name: str, commit: str) -> None:
        """Make a branch at a commit. ``Overtaken`` when one of that name is there."""
        ...

    def tag(self, name: str, commit: str, message: str) -> None:
        """Make a tag at a commit. ``Overtaken`` when one of that name is there."""
        ...

    def drop(self, branch: str) -> None:
        """Remove a branch; one that is not there is fine."""
        ...


class RegisteredModels(Protocol):
    """The versions of models that a tracker shows to people."""

    def mark(self, product: Digest, publication: Publication) -> str | None:
        """Write onto the version that stands for a product where it was published; its name, or None without one.

        Done again it changes nothing. Raises ``Unreachable`` and ``OutsideFailed`` like a ``Tracker``.
        """
        ...
