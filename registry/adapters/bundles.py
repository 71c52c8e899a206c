"""Bundles on disk: written whole or not at all, read by position.

The whole file is walked once when it is opened, header by header; nothing is unpacked. A record or small artifact is
hashed when it is read. Refuses what ``registry.core.bundle`` refuses, members out of order, a file that ends early or
goes on after its end, and anything but a regular file.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from registry.core import canonical
from registry.core.bundle import BLOCK_BYTES, COVER, END, MOST_MEMBERS, Cover, Member, member
from registry.core.codec import record_bytes
from registry.core.digests import Algorithm, Digest, sha256
from registry.errors import DoesNotHold, MalformedRecord, OutsideFailed, Refused, UnknownName

_KIND = re.compile(r"[a-z]+")


class BundleFile:
    """An open bundle. Close it, or use it in a ``with`` statement."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = _regular(path)
        with ExitStack() as unless_walked:
            unless_walked.callback(self.close)
            self._places = dict(self._walk(os.fstat(self._descriptor).st_size))
            unless_walked.pop_all()
        self._names = list(self._places)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the file go."""
        os.close(self._descriptor)

    @property
    def cover(self) -> Cover:
        """What the bundle is about. Raises ``MalformedRecord`` when it does not say so."""
        data = self.read(COVER)
        if data is None:
            raise MalformedRecord(f"{self._path.name} has no {COVER}, so it is no bundle.")
        return Cover.from_json(canonical.decode(data))

    def read(self, name: str) -> bytes | None:
        """The bytes of a member, or None. Raises ``OutsideFailed`` when the file changed since it was opened."""
        place = self._places.get(name)
        if place is None:
            return None
        start, size_bytes = place
        return self._bytes(start, size_bytes)

    def names(self, folder: str) -> Sequence[str]:
        """The names of the members of a folder, without it, sorted."""
        first, after = bisect_left(self._names, f"{folder}/"), bisect_left(self._names, f"{folder}0")
        return tuple(name[len(folder) + 1 :] for name in self._names[first:after])

    def _walk(self, size_bytes: int) -> Iterator[tuple[str, tuple[int, int]]]:
        position, last, count = 0, "", 0
        while (block := self._bytes(position, BLOCK_BYTES)) != END[:BLOCK_BYTES]:
            found = self._member(block)
            start, count = position + BLOCK_BYTES, count + 1
            position = start + found.size_bytes + len(found.padding)
            if found.name <= last or count > MOST_MEMBERS or position > size_bytes:
                raise self._refused(f"the member {found.name} is out of order, too many, or cut off")
            if self._bytes(start + found.size_bytes, len(found.padding)) != found.padding:
                raise self._refused(f"there are bytes between {found.name} and the next member")
            last = found.name
            yield found.name, (start, found.size_bytes)
        if self._bytes(position, len(END)) != END or position + len(END) != size_bytes:
            raise self._refused("it goes on after its end")

    def _member(self, header: bytes) -> Member:
        try:
            return member(header)
        except MalformedRecord as error:
            raise self._refused(error.message) from error

    def _bytes(self, start: int, size_bytes: int) -> bytes:
        pieces = []
        while size_bytes:
            piece = os.pread(self._descriptor, size_bytes, start)
            if not piece:
                raise self._refused("it ends early")
            pieces.append(piece)
            start, size_bytes = start + len(piece), size_bytes - len(piece)
        return b"".join(pieces)

    def _refused(self, reason: str) -> MalformedRecord:
        return MalformedRecord(
            f"{self._path.name} is not a whole bundle: {reason.rstrip('.')}.", remedy="Get it again from where it came."
        )


class BundleRecords:
    """The records in a bundle, to be read only."""

    def __init__(self, bundle: BundleFile) -> None:
        self._bundle = bundle

    def put(self, kind: str, data: bytes) -> Digest:
        """Nothing is kept in a bundle. Raises ``Refused``."""
        raise Refused("A bundle is not written to.", remedy="Record in the archive, and make a new bundle.")

    def get(self, kind: str, digest: Digest) -> bytes:
        """The bytes of a record, hashed. Raises ``UnknownName`` when absent, ``DoesNotHold`` for other bytes."""
        data = self._bundle.read(f"manifests/{kind}s/{digest.hex}.json")
        if data is None:
            raise UnknownName(f"The bundle has no {kind} record {digest}.")
        if sha256(data) != digest:
            raise DoesNotHold(f"The {kind} record {digest} does not have the bytes of its name.")
        return data

    def digests(self, kind: str) -> Sequence[Digest]:
        """All record names of a kind, sorted."""
        if not _KIND.fullmatch(kind):
            raise Refused(f"{kind!r} is not a kind of record.")
        names = self._bundle.names(f"manifests/{kind}s")
        return tuple(Digest(Algorithm.SHA256, name.removesuffix(".json")) for name in names if name.endswith(".json"))

    def kinds(self) -> Sequence[str]:
        """The kinds that have a record, sorted."""
        folders = {name.partition("/")[0] for name in self._bundle.names("manifests") if name.endswith(".json")}
        return tuple(sorted(folder.removesuffix("s") for folder in folders))

    def strays(self) -> Sequence[str]:
        """None: a bundle with a stray member cannot be opened."""
        return ()


class BundlePapers:
    """The small artifacts in a bundle, found by their digest."""

    def __init__(self, bundle: BundleFile) -> None:
        self._bundle = bundle

    def read(self, path: str, digest: Digest) -> bytes:
        """The bytes of ``digest``, hashed. Raises ``UnknownName`` when absent, ``DoesNotHold`` for other bytes."""
        data = self._bundle.read(f"bytes/{digest.hex}")
        if data is None:
            raise UnknownName(f"The bundle does not hold the bytes of {path}.")
        if sha256(data) != digest:
            raise DoesNotHold(f"The bundle has other bytes for {path} than recorded.")
        return data


class BundleCommits:
    """The git objects in a bundle. It has no history: which commit came first is not told."""

    def __init__(self, bundle: BundleFile) -> None:
        self._bundle = bundle

    @property
    def here(self) -> bool:
        """Whether the bundle carries any git object."""
        return bool(self._bundle.names("git"))

    def read(self, name: Digest) -> bytes | None:
        """An object as git hashes it, or None when the bundle has none of that name."""
        return self._bundle.read(f"git/{name.hex}")

    def additions(self, folder: str) -> Mapping[str, str]:
        """None: no commit can be asked."""
        return {}

    def precedes(self, earlier: str, later: str) -> bool:
        """Only a commit and itself."""
        return earlier == later


def write_bundle(path: Path, cover: Cover, members: Mapping[str, bytes]) -> int:
    """Write a bundle and return its size in bytes. Raises ``OutsideFailed`` when the disk refuses."""
    temporary = path.parent / f".{path.name}.{secrets.token_hex(4)}.tmp"
    try:
        with temporary.open("xb") as file:
            for piece in _pieces({**members, COVER: record_bytes(cover)}):
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        return path.stat().st_size
    except OSError as error:
        raise OutsideFailed(
            f"{path.name} could not be written: {error.strerror or error}.",
            remedy="Free some space or choose a folder that can be written.",
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def _pieces(members: Mapping[str, bytes]) -> Iterator[bytes]:
    for name in sorted(members):
        one = Member(name, len(members[name]))
        yield one.header
        yield members[name]
        yield one.padding
    yield END


def _regular(path: Path) -> int:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise Refused(f"{path} cannot be opened: {error.strerror}.", remedy="Name the file of a bundle.") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Refused(f"{path} is not a regular file.", remedy="Name the file of a bundle.")
    return descriptor
