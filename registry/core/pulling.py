"""What is to be pulled: where it lies, what a repository lists at a commit, and which of it is wanted.

Pure. A listing comes from a stranger: refuses paths that leave the folder or that reach into the places that clients
and git keep for themselves, files that are folders too, a path that stands twice, sizes and numbers beyond all sense,
and revisions that no git would have.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Final, Self
from unicodedata import category

from registry.core.digests import Algorithm, Digest
from registry.core.names import checked_path, known
from registry.core.release import ReleaseStatement
from registry.errors import DoesNotHold, MalformedRecord, Refused, UnknownName

MOST_FILES: Final = 100_000
MOST_REFS: Final = 5_000
LONGEST_PATH_BYTES: Final = 1024
LONGEST_PART_BYTES: Final = 255
LARGEST_FILE: Final = 500 * 10**9
LARGEST_REGULAR: Final = 1 * 2**30
KEPT_APART: Final = ".cache"  # what a client keeps beside the files of a repository
_WORD = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,94}[A-Za-z0-9_-])?"
_REFERENCE = re.compile(rf"hf://(?:models/|(datasets)/)?({_WORD}/{_WORD})(?:@([^@]+))?")
_REVISION = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_./-]{0,247}[A-Za-z0-9_-])?")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_GRAMMAR = "Write it like hf://lab/model@v1.0.0; after @ stands a tag, a branch or a commit."


class Kind(StrEnum):
    """What a repository holds, as addresses of the hub spell it."""

    MODEL = "models"
    DATA = "datasets"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A repository of the hub, at a tag, branch or commit."""

    kind: Kind
    repository: str
    revision: str = "main"

    def __str__(self) -> str:
        kind = "" if self.kind is Kind.MODEL else f"{self.kind}/"
        return f"hf://{kind}{self.repository}@{self.revision}"

    @property
    def pinned(self) -> bool:
        """Whether the revision is a whole commit id, which cannot move."""
        return is_commit(self.revision)

    def at(self, revision: str) -> Reference:
        """The same repository at another revision. Raises ``Refused`` for one that git would not have."""
        return Reference(kind=self.kind, repository=self.repository, revision=checked_revision(revision))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``hf://[datasets/]ORG/NAME[@REV]``. Raises ``Refused`` with the grammar for anything else."""
        match = _REFERENCE.fullmatch(text)
        if match is None or ".." in match[2] or "--" in match[2]:
            raise Refused(f"{text!r} names no repository of a hub.", remedy=_GRAMMAR)
        kind = Kind.DATA if match[1] else Kind.MODEL
        return cls(kind=kind, repository=match[2], revision=checked_revision(match[3] or "main"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """What a revision meant when it was looked up. ``tag``: it is a tag, which should never move."""

    commit: str
    tag: bool

    def __post_init__(self) -> None:
        if not is_commit(self.commit):
            raise MalformedRecord(f"The hub names {self.commit[:60]!r} as a commit, which it is not.")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class RemoteFile:
    """A file as a repository lists it. ``claimed`` is the SHA-256 of a large file, and git's id of any other."""

    path: str
    size_bytes: int
    claimed: Digest

    def __post_init__(self) -> None:
        _check_spelling(self.path)
        checked_path(self.path)
        head = self.path.partition("/")[0].lower()
        if head == KEPT_APART or any(part.lower() == ".git" for part in self.path.split("/")):
            raise Refused(f"The repository lists {self.path!r}, a place that clients keep for themselves.")
        if self.claimed.algorithm not in (Algorithm.GIT, Algorithm.SHA256):
            raise MalformedRecord(f"The repository lists {self.path!r} with a digest of another kind.")
        most = LARGEST_FILE if self.large else LARGEST_REGULAR
        if type(self.size_bytes) is not int or not 0 <= self.size_bytes <= most:
            raise MalformedRecord(f"The repository lists {self.path!r} with {self.size_bytes} bytes, beyond all sense.")

    @property
    def large(self) -> bool:
        """Whether the hub keeps it by its SHA-256."""
        return self.claimed.algorithm is Algorithm.SHA256


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What bytes hash to. ``blob`` is git's id of them; None where nobody asked for it."""

    size_bytes: int
    sha256: Digest
    blob: Digest | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Every file of a repository at a commit, sorted by path."""

    reference: Reference
    commit: str
    files: tuple[RemoteFile, ...]

    def find(self, path: str) -> RemoteFile | None:
        """The file at a path, or None."""
        return next((file for file in self.files if file.path == path), None)

    def need(self, path: str) -> RemoteFile:
        """The file at a path. Raises ``DoesNotHold`` when the repository lists none."""
        found = self.find(path)
        if found is None:
            raise DoesNotHold(f"{self.reference} has no file {path} at commit {self.commit[:12]}.")
        return found


def listing(reference: Reference, commit: str, files: Iterable[RemoteFile]) -> Listing:
    """A listing that a folder can hold. Raises ``MalformedRecord`` when it cannot."""
    ordered = tuple(sorted(files))
    paths = {file.path for file in ordered}
    if len(paths) != len(ordered):
        raise MalformedRecord(f"{reference.repository} lists a path twice.")
    if len(ordered) > MOST_FILES:
        raise MalformedRecord(f"{reference.repository} lists over {MOST_FILES} files.")
    below = nested(paths)
    if below is not None:
        raise MalformedRecord(f"{reference.repository} lists {below!r} below another file.")
    return Listing(reference=reference, commit=commit, files=ordered)


def nested(paths: Iterable[str]) -> str | None:
    """A path that lies below another one of them, or None. Takes the time of a sort."""
    ordered = sorted(path.replace("/", "\0") for path in paths)  # what lies below a path follows it at once
    pairs = pairwise(ordered)
    return next((lower.replace("\0", "/") for upper, lower in pairs if lower.startswith(f"{upper}\0")), None)


def chosen(found: Listing, wanted: Sequence[str]) -> tuple[RemoteFile, ...]:
    """The files named by ``wanted``: a path, a folder, or a pattern with ``*``; all of them when nothing is named.

    Raises ``UnknownName`` for a word that names none, with the nearest ones.
    """
    picked: set[str] = set()
    for word in wanted:
        plain = word.rstrip("/")
        matching = {file.path for file in found.files if _names(plain, file.path)}
        picked |= matching or {known(plain, (file.path for file in found.files))}
    if not wanted:
        return found.files
    return tuple(file for file in found.files if file.path in picked)


def checked_revision(revision: str) -> str:
    """The revision, when git could have it. Raises ``Refused`` otherwise."""
    parts = revision.split("/")
    bad = any(not part or part.startswith(".") or part.endswith(".lock") for part in parts)
    if bad or not _REVISION.fullmatch(revision) or ".." in revision:
        raise Refused(f"{revision[:80]!r} is no revision.", remedy=_GRAMMAR)
    return revision


def is_commit(text: str) -> bool:
    """Whether this is a whole commit id."""
    return _COMMIT.fullmatch(text) is not None


def matching_names(globs: Sequence[str], names: Iterable[str]) -> tuple[str, ...]:
    """The names that one of the patterns matches, sorted. Raises ``UnknownName`` for a pattern that matches none."""
    every = sorted(set(names))
    found: set[str] = set()
    for glob in globs:
        matching = [name for name in every if fnmatchcase(name, glob)]
        if not matching:
            raise UnknownName(f"No tensor matches {glob!r}.", remedy=f"There are {', '.join(every[:6])} …")
        found.update(matching)
    return tuple(sorted(found))


def _check_spelling(path: str) -> None:
    """Raises ``MalformedRecord`` for a path that is too long for a disk, or that no terminal should show."""
    if len(path) > LONGEST_PATH_BYTES:
        raise MalformedRecord(f"The repository lists a path of {len(path)} characters: {path[:40]!r} …")
    if any(category(char) in ("Cc", "Cs") for char in path):
        raise MalformedRecord(f"The repository lists {path!r}, which has characters that no path should have.")
    longest = max(len(part.encode()) for part in path.split("/"))
    if longest > LONGEST_PART_BYTES or len(path.encode()) > LONGEST_PATH_BYTES:
        raise MalformedRecord(f"The repository lists {path[:40]!r} …, a path that is too long for a disk.")


def _names(word: str, path: str) -> bool:
    return path == word or path.startswith(f"{word}/") or ("*" in word and fnmatchcase(path, word))


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """What the signatures of a release cover: every file by its SHA-256. ``by`` says who answers for it, as a sentence.

    ``trusted`` is whether a trust policy knows the key and lets it sign this.
    """

    statement: ReleaseStatement
    files: Mapping[str, Digest]
    by: str
    trusted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A file to be pulled, with the SHA-256 that somebody answers for; None where only the repository's list speaks.

    ``given`` are its bytes where they are at hand already.
    """

    file: RemoteFile
    sha256: Digest | None
    given: bytes | None = None

    def objection(self, observed: Observed) -> str | None:
        """What is wrong with bytes that were to be this file; None when nothing is."""
        if observed.size_bytes != self.file.size_bytes:
            return f"has {observed.size_bytes} bytes instead of {self.file.size_bytes}"
        listed = observed.sha256 if self.file.large else observed.blob
        if listed != self.file.claimed:
            return f"has other bytes than are listed ({self.file.claimed.short}): hashed to {_short(listed)}"
        if self.sha256 is not None and observed.sha256 != self.sha256:
            return f"has other bytes than were signed ({self.sha256.short}): hashed to {observed.sha256.short}"
        return None


def _short(digest: Digest | None) -> str:
    return "nothing" if digest is None else digest.short
