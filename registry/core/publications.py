"""Publication records: which bytes were put on which hub, at which commit, under which names.

Tags and branches can move; the commit ids here are our own copy. Such a record is written when every byte was pulled
back and found equal. Refuses addresses with a user, password or query, and ids that are not those of a commit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Final, Self

from registry.core.branches import CheckpointBranch
from registry.core.canonical import Json
from registry.core.codec import opened
from registry.core.digests import Digest
from registry.core.pointers import public_uri
from registry.core.reading import RawRecords, read_each
from registry.errors import MalformedRecord, Refused

MAIN: Final = "main"
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_PART: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_])?"
_REPOSITORY: Final = re.compile(rf"{_PART}/{_PART}")
_ENDPOINT: Final = re.compile(r"https?://[A-Za-z0-9.-]+(?::[0-9]{1,5})?(?:/[A-Za-z0-9._/-]*[A-Za-z0-9_-])?")


class Subject(StrEnum):
    """What was published."""

    RELEASE = "release"
    CHECKPOINT = "checkpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A repository on a hub: ``endpoint`` as in HF_ENDPOINT, ``repository`` as ``owner/name``."""

    endpoint: str
    repository: str

    def __post_init__(self) -> None:
        checked_repository(self.repository)
        if not _ENDPOINT.fullmatch(self.endpoint) or public_uri(self.endpoint) != self.endpoint:
            raise MalformedRecord("The address of a hub is http(s)://host[:port][/path], without a user or password.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """Bytes that a hub holds.

    ``name`` is ``<name>@<version>`` for a release, ``hero/2@step-846`` for a checkpoint. ``digest`` is the release
    digest, or the checkpoint's tree digest. Every byte was pulled back from ``commit``, which ``tag`` (of a release)
    names; ``head`` is where ``branch`` stood when the push was done, for a fresh one at a commit with the same files.
    """

    KIND: ClassVar[str] = "publication"
    SCHEMA: ClassVar[int] = 1

    subject: Subject
    name: str
    digest: Digest
    place: Place
    commit: str
    tag: str | None
    branch: str
    head: str
    time: str
    extra: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not _COMMIT.fullmatch(self.commit) or not _COMMIT.fullmatch(self.head):
            raise MalformedRecord("A publication names commits by their 40 hex digits.")
        if self.subject is Subject.RELEASE and (self.branch != MAIN or self.tag is None):
            raise MalformedRecord("A release is published under a tag and on main.")
        if self.subject is Subject.CHECKPOINT:
            CheckpointBranch.parse(self.branch)

    @property
    def kind(self) -> str:
        return self.KIND

    def to_json(self) -> dict[str, Json]:
        return {
            **self.extra,
            "kind": self.KIND,
            "schema": self.SCHEMA,
            "subject": self.subject.value,
            "name": self.name,
            "digest": str(self.digest),
            "endpoint": self.place.endpoint,
            "repository": self.place.repository,
            "commit": self.commit,
            "tag": self.tag,
            "branch": self.branch,
            "head": self.head,
            "time": self.time,
        }

    @classmethod
    def from_json(cls, value: Json) -> Self:
        reader = opened(value, cls.KIND, cls.SCHEMA)
        return cls(
            subject=_subject(reader.text("subject")),
            name=reader.text("name"),
            digest=reader.digest("digest"),
            place=Place(endpoint=reader.text("endpoint"), repository=reader.text("repository")),
            commit=reader.text("commit"),
            tag=reader.optional("tag", reader.text),
            branch=reader.text("branch"),
            head=reader.text("head"),
            time=reader.text("time"),
            extra=reader.rest(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Publications:
    """All publication records, oldest first, and what is wrong with those that cannot be read."""

    records: tuple[Publication, ...] = ()
    damages: tuple[str, ...] = ()

    @classmethod
    def build(cls, raw: RawRecords) -> Self:
        """Index raw records. One bad record hides no other."""
        found, damages = read_each(raw, Publication.from_json)
        return cls(
            records=tuple(one for _, one in sorted(found, key=lambda pair: (pair[1].time, pair[0]))), damages=damages
        )

    def of(self, digest: Digest, place: Place | None = None) -> tuple[Publication, ...]:
        """Where a release or checkpoint was published, oldest first; ``place`` asks about one repository."""
        mine = (one for one in self.records if one.digest == digest)
        return tuple(one for one in mine if place is None or one.place == place)

    def newest(self, digest: Digest, place: Place | None = None) -> Publication | None:
        """The last of :meth:`of`, or None."""
        found = self.of(digest, place)
        return found[-1] if found else None


def checked_repository(text: str) -> str:
    """Return ``text`` when it names a repository on a hub, ``owner/name``. Raises ``Refused``."""
    if not _REPOSITORY.fullmatch(text) or ".." in text or "--" in text or text.endswith((".git", ".ipynb")):
        raise Refused(f"{text[:200]!r} is not a repository on a hub.", remedy="Write it as owner/name.")
    return text


def _subject(text: str) -> Subject:
    if text not in set(Subject):
        raise MalformedRecord(f"A publication's subject cannot be {text!r}.")
    return Subject(text)
