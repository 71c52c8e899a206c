"""What is to be published: the files, what a hub will take of them, and whether it already holds them.

Pure. The limits are those of the Hugging Face Hub. Refuses a parcel over them, a path that the hub keeps for itself,
and a token that only reads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import PurePath
from typing import Final, Self

from registry.core.digests import Digest, FileEntry, git_blob, sha256
from registry.core.pulling import Listing, RemoteFile
from registry.errors import OutsideFailed, Refused

GIGABYTE: Final = 10**9
LARGEST_FILE: Final = 500 * GIGABYTE
ADVISED_FILE: Final = 200 * GIGABYTE
MOST_FILES: Final = 100_000
MOST_IN_FOLDER: Final = 10_000
MOST_IN_COMMIT: Final = 25_000
ADVISED_IN_COMMIT: Final = 100
LARGEST_REGULAR: Final = 10 * 2**20
ROOM_BYTES: Final = 64 * 2**20
OWN: Final = frozenset({".gitattributes"})  # what the hub puts into every repository
_FORBIDDEN: Final = frozenset({".git", ".cache", ".huggingface"})


class Busy(OutsideFailed):
    """The hub is busy or the connection failed: the same may work after a while."""

    def __init__(self, message: str, *, wait_seconds: float = 0.0) -> None:
        remedy = "Run the same command again: it goes on from what the hub holds."
        super().__init__(message, remedy=remedy)
        self.wait_seconds = wait_seconds


class Overtaken(OutsideFailed):
    """A branch or tag is not where we saw it: somebody else pushed meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Who the token speaks for and whether it may write to the repository. ``role`` is the hub's word for it."""

    user: str
    role: str
    writes: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One commit: ``branch`` moves from ``parent`` to a commit with these files more, and ``removed`` less.

    ``added`` are local files or bytes by path; ``copied`` are large files that the hub holds at the commit ``source``.
    """

    branch: str
    parent: str
    title: str
    added: Mapping[str, PurePath | bytes]
    removed: tuple[str, ...] = ()
    copied: tuple[str, ...] = ()
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """Files that go to a hub together. ``read`` gives the bytes of a small one, ``paths`` where each lies here."""

    files: Mapping[str, FileEntry]
    paths: Mapping[str, PurePath]
    read: Callable[[str], bytes]
    _blob: Callable[[str], Digest] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_blob", cache(lambda path: git_blob(self.read(path))))

    @classmethod
    def of(cls, entries: Iterable[FileEntry], folder: PurePath, read: Callable[[str], bytes]) -> Self:
        """All files of a folder."""
        files = {entry.path: entry for entry in entries}
        return cls(files=files, paths={path: folder / path for path in files}, read=read)

    def with_texts(self, texts: Mapping[str, bytes]) -> Self:
        """The parcel with some small files more, or others in their place."""

        def read(path: str) -> bytes:
            return texts[path] if path in texts else self.read(path)

        made = {path: FileEntry(path=path, size_bytes=len(data), digest=sha256(data)) for path, data in texts.items()}
        return type(self)(files={**self.files, **made}, paths=self.paths, read=read)

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(entry.size_bytes for entry in self.files.values())

    def holds(self, remote: RemoteFile) -> bool:
        """Whether the hub says that its file has the bytes of ours."""
        own = self.files.get(remote.path)
        if own is None or own.size_bytes != remote.size_bytes:
            return False
        if remote.large:
            return remote.claimed == own.digest
        return own.size_bytes <= LARGEST_REGULAR and remote.claimed == self._blob(remote.path)

    def differences(self, listing: Listing) -> tuple[str, ...]:
        """What is not the same at a commit, one sentence each; none when it holds our files and no others."""
        theirs = {one.path: one for one in listing.files if one.path not in OWN}
        missing = (f"{path} is missing" for path in sorted(self.files.keys() - theirs.keys()))
        extra = (f"{path} is not ours" for path in sorted(theirs.keys() - self.files.keys()))
        common = sorted(self.files.keys() & theirs.keys())
        other = (f"{path} has other bytes" for path in common if not self.holds(theirs[path]))
        return (*missing, *extra, *other)

    def superfluous(self, listing: Listing) -> tuple[str, ...]:
        """Files at a commit that must go, for our files to stand alone."""
        return tuple(one.path for one in listing.files if one.path not in OWN and one.path not in self.files)

    def new_bytes(self, listing: Listing | None) -> int:
        """Bytes that a repository does not hold at that commit: what its quota is charged with, at most."""
        theirs = listing.files if listing else ()
        held = {one.path for one in theirs if self.holds(one)}
        large = {one.claimed for one in theirs}
        new = (one for one in self.files.values() if one.path not in held and one.digest not in large)
        return sum(one.size_bytes for one in new)


def check_limits(parcel: Parcel) -> tuple[str, ...]:
    """Advice on what the hub takes only just. Raises ``Refused`` for what it does not take."""
    faults = tuple(_faults(parcel))
    if faults:
        more = f" (and {len(faults) - 3} more)" if len(faults) > 3 else ""
        raise Refused(
            f"The hub does not take this: {'; '.join(faults[:3])}{more}.", remedy="Split or rename the files."
        )
    return tuple(_advice(parcel))


def _faults(parcel: Parcel) -> Iterator[str]:
    for path, entry in sorted(parcel.files.items()):
        if entry.size_bytes > LARGEST_FILE:
            yield f"{path} has {entry.size_bytes} bytes, over {LARGEST_FILE}"
        if _FORBIDDEN & {part.lower() for part in path.split("/")} or path in OWN:
            yield f"{path} is a name that the hub and its client keep for themselves"
    most = min(MOST_FILES, MOST_IN_COMMIT)
    if not 0 < len(parcel.files) <= most:
        yield f"{len(parcel.files)} files in one commit, where 1 to {most} are possible"
    folders = Counter(path.rpartition("/")[0] for path in parcel.files)
    for folder, count in sorted(folders.items()):
        if count > MOST_IN_FOLDER:
            yield f"the folder {folder or '.'} has {count} files, over {MOST_IN_FOLDER}"


def _advice(parcel: Parcel) -> Iterator[str]:
    for path, entry in sorted(parcel.files.items()):
        if entry.size_bytes > ADVISED_FILE:
            yield f"{path} is over the {ADVISED_FILE // GIGABYTE} GB that the hub advises for one file."
    if len(parcel.files) > ADVISED_IN_COMMIT:
        yield f"{len(parcel.files)} files go in one commit; the hub advises {ADVISED_IN_COMMIT} and may need minutes."
