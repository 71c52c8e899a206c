"""A release as it lies in a folder: downloaded, or a snapshot in the cache of the Hub's client, whose files are links.

Every file with its SHA-256, on all cores, but what no signature covers; large ones by their BLAKE3, where both digests
were signed; small files to read. Links are followed only
out of a snapshot into the blobs of its own repository. Refuses other links, special files, and small files that are
not small.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from registry.adapters.hashing.trees import TreeHasher
from registry.adapters.hashing.walking import Found, found_file, found_tree
from registry.core.canonical import MAXIMUM_BYTES
from registry.core.digests import Digest, FileEntry
from registry.core.modelsig import IGNORED
from registry.core.names import checked_path
from registry.core.twins import Twin
from registry.errors import Refused, UnknownName

_SNAPSHOTS: Final = "snapshots"
_BLOBS: Final = "blobs"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseFolder:
    """The folder at ``root``. ``advance`` is told of bytes as they are hashed, from any thread."""

    root: Path
    advance: Callable[[int], None] = lambda _: None

    def entries(self, twins: Mapping[str, Twin] = MappingProxyType({})) -> Sequence[FileEntry]:
        """Every file that a signature covers, hashed, sorted by path. Raises ``Refused`` for links that leave.

        Of a file in ``twins`` BLAKE3 is taken; where it is the one that was signed, the SHA-256 is given that was
        signed with it. In every other case SHA-256 is taken.
        """
        found = self._found()
        known = self._confirmed([one for one in found if one.path in twins], twins)
        # More threads than cores: a thread that waits for the disk leaves its core to another.
        hasher = TreeHasher(workers=2 * len(os.sched_getaffinity(0)), advance=self.advance)
        taken = {
            one.path: hashed.digest for one, hashed in hasher.hashes([one for one in found if one.path not in known])
        }
        every = known | taken
        return tuple(FileEntry(path=one.path, size_bytes=one.size_bytes, digest=every[one.path]) for one in found)

    @property
    def size_bytes(self) -> int:
        """The bytes that will be hashed."""
        return sum(one.size_bytes for one in self._found())

    def _found(self) -> Sequence[Found]:
        if not self.root.is_dir():
            raise Refused(f"{self.root} is no folder.", remedy="Name the folder that holds the release.")
        return found_tree(self.root, within=self._links_into(), leave_out=IGNORED)

    def _confirmed(self, files: Sequence[Found], twins: Mapping[str, Twin]) -> dict[str, Digest]:
        """The signed SHA-256 of those files whose BLAKE3 is the signed one."""
        if not files:
            return {}
        from registry.adapters.hashing.blakes import blake3_digests

        digests = blake3_digests(files, self.advance)
        return {path: twins[path].sha256 for path, digest in digests.items() if digest == twins[path].blake3}

    def read(self, path: str) -> bytes:
        """The bytes of a small file. Raises ``UnknownName`` when it is not there and ``Refused`` when it is large."""
        place = self.root / checked_path(path)
        if not place.exists():
            raise UnknownName(f"There is no {path}.", remedy="Is this the folder of a release?")
        found = found_file(place, within=self._links_into() or self.root)
        if found.size_bytes > MAXIMUM_BYTES:
            raise Refused(f"{path} has {found.size_bytes} bytes, too many for what it should be.")
        return found.read()

    def _links_into(self) -> Path | None:
        """Where a snapshot's links lead: the blobs of its repository."""
        repository = self.root.absolute().parent.parent
        in_cache = self.root.absolute().parent.name == _SNAPSHOTS and (repository / _BLOBS).is_dir()
        return repository / _BLOBS if in_cache else None
