"""A mirror or the Hugging Face client's cache as a place to read from, without any network.

Both have the client's layout: ``refs/REV`` names a commit, ``snapshots/COMMIT/PATH`` are the files, links to ``blobs/``
named by SHA-256 (large files) or git's id (all others). A mirror adds the list of every commit beside, so that what it
lacks is known. What is read is hashed by whoever reads it. Refuses links that leave the repository's folder, names that
are no digests, and revisions that are not here.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from registry.core import pulling
from registry.core.digests import Algorithm, Digest
from registry.core.pulling import Listing, Reference, RemoteFile, Resolved, is_commit
from registry.errors import DoesNotHold, MalformedRecord, OutsideFailed, ReckonError, Refused, UnknownName

LISTS: Final = "listings"
TAGS: Final = "tags"
_LARGEST_LIST: Final = 256 * 2**20
_PIECE_BYTES: Final = 2**20
_DIGESTS: Final = {40: Algorithm.GIT, 64: Algorithm.SHA256}


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheReader:
    """Repositories below a folder."""

    root: Path

    @classmethod
    def at(cls, mirror: Path | None) -> CacheReader:
        """The mirror, or the client's own cache. Raises ``Refused`` when there is no such folder."""
        if mirror is None:
            from huggingface_hub import constants

            root = Path(constants.HF_HUB_CACHE)
        else:
            root = mirror
        if not root.is_dir():
            raise Refused(
                f"{root} is no folder.", remedy="Name a mirror with --mirror, or pull without --offline first."
            )
        return cls(root=root)

    @property
    def where(self) -> str:
        """The folder."""
        return str(self.root)

    def resolve(self, reference: Reference) -> Resolved:
        """The commit that the revision meant when it was cached."""
        folder = self._folder(reference)
        commit = reference.revision if reference.pinned else _line(folder / "refs" / reference.revision)
        if not (folder / "snapshots" / commit).is_dir() and not (folder / LISTS / f"{commit}.json").is_file():
            raise UnknownName(f"{reference} is not in {self.root}.", remedy="Pull it where there is a network.")
        return Resolved(commit=commit, tag=(folder / TAGS / reference.revision).is_file())

    def refs(self, reference: Reference) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Branches and tags. The client's cache does not tell the ones from the others: there, all are branches."""
        folder = self._folder(reference)
        names = sorted(
            path.relative_to(folder / "refs").as_posix() for path in (folder / "refs").rglob("*") if path.is_file()
        )
        every = {name: _line(folder / "refs" / name) for name in names}
        tags = {name: commit for name, commit in every.items() if (folder / TAGS / name).is_file()}
        return {name: commit for name, commit in every.items() if name not in tags}, tags

    def listing(self, reference: Reference, commit: str) -> Listing:
        """The files of a commit: as the mirror listed them, else those that the cache has."""
        folder = self._folder(reference)
        told = folder / LISTS / f"{commit}.json"
        if told.is_file():
            return pulling.listing(reference, commit, read_list(told))
        return pulling.listing(reference, commit, _snapshot(folder, folder / "snapshots" / commit))

    def read(self, listing: Listing, file: RemoteFile, start_byte: int, stop_byte: int) -> Iterator[bytes]:
        """Bytes of a blob."""
        folder = self._folder(listing.reference)
        path = folder / "blobs" / file.claimed.hex
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError as error:
            raise DoesNotHold(f"{file.path} of {listing.reference} is missing in {self.root}.") from error
        except OSError as error:
            raise _no_file(path, error) from error
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise _no_file(path)
            position = start_byte
            while position < stop_byte:
                piece = os.pread(descriptor, min(_PIECE_BYTES, stop_byte - position), position)
                if not piece:
                    raise DoesNotHold(f"{file.path} in {self.root} has {position} bytes instead of {file.size_bytes}.")
                yield piece
                position += len(piece)
        except OSError as error:
            raise OutsideFailed(f"{path} cannot be read: {error.strerror}.") from error
        finally:
            os.close(descriptor)

    def _folder(self, reference: Reference) -> Path:
        found = self.root / folder_name(reference)
        if not found.is_dir():
            raise UnknownName(
                f"{self.root} has nothing of {reference.repository}.", remedy="Mirror it, or pull it without --offline."
            )
        return found


def folder_name(reference: Reference) -> str:
    """The client's name of a repository's folder."""
    return f"{reference.kind}--{reference.repository.replace('/', '--')}"


def read_list(path: Path) -> Iterator[RemoteFile]:
    """The files in a mirror's list. Raises ``MalformedRecord``."""
    if path.stat().st_size > _LARGEST_LIST:
        raise MalformedRecord(f"{path} is too large for a list of files.")
    try:
        rows = json.loads(path.read_bytes())
        for name, size_bytes, claimed in rows:
            yield RemoteFile(path=name, size_bytes=size_bytes, claimed=Digest.parse(claimed))
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise MalformedRecord(f"{path} is no list of files.") from error


def _snapshot(folder: Path, snapshot: Path) -> Iterator[RemoteFile]:
    blobs = _target(folder / "blobs")
    for place, _, names in os.walk(snapshot):
        for name in names:
            path = Path(place) / name
            target = _target(path)
            algorithm = _DIGESTS.get(len(target.name))
            if target.parent != blobs or algorithm is None or not target.is_file():
                raise Refused(f"{path} is no link to a blob of its repository.", remedy="Clear the cache; pull again.")
            yield RemoteFile(
                path=path.relative_to(snapshot).as_posix(),
                size_bytes=target.stat().st_size,
                claimed=Digest(algorithm, target.name),
            )


def _target(path: Path) -> Path:
    """Where a link leads. Raises ``Refused`` when it leads in a circle."""
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:  # RuntimeError is a circle, before Python 3.13
        raise _no_file(path) from error


def _no_file(path: Path, error: OSError | None = None) -> ReckonError:
    if error is not None and error.errno not in (errno.ELOOP, errno.ENXIO):
        return OutsideFailed(f"{path} cannot be read: {error.strerror}.")
    return Refused(f"{path} is no plain file.", remedy="Take it away; then mirror or pull again.")


def _line(path: Path) -> str:
    """The commit in a ref's file."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size > 100:
        raise UnknownName(f"The revision {path.name} is not in {path.parent.parent.name}.", remedy="Name a commit.")
    text = path.read_text(encoding="ascii", errors="replace").strip()
    if not is_commit(text):
        raise MalformedRecord(f"{path} does not name a commit.")
    return text
