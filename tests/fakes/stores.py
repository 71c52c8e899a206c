"""Records, tables and openings in memory, under the same contracts as the folders on disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from registry.core.codec import record_bytes
from registry.core.digests import Digest, FileEntry, sha256, tree_digest
from registry.core.openings import Opening
from registry.core.tensors import Leaf, tensor_root
from registry.errors import DoesNotHold, Refused, UnknownName


@dataclass
class MemoryRecords:
    """Records by kind and digest. ``held`` may be tampered with."""

    held: dict[str, dict[Digest, bytes]] = field(default_factory=dict)
    stray: list[str] = field(default_factory=list)

    def put(self, kind: str, data: bytes) -> Digest:
        if not (kind.isascii() and kind.isalpha() and kind.islower()):
            raise Refused(f"{kind!r} is not a kind of record.")
        digest = sha256(data)
        if self.held.setdefault(kind, {}).setdefault(digest, data) != data:
            raise DoesNotHold(f"{digest} exists with other bytes.")
        return digest

    def get(self, kind: str, digest: Digest) -> bytes:
        data = self.held.get(kind, {}).get(digest)
        if data is None:
            raise UnknownName(f"There is no {kind} record {digest}.")
        if sha256(data) != digest:
            raise DoesNotHold(f"The {kind} record {digest} does not have the bytes of its name.")
        return data

    def digests(self, kind: str) -> Sequence[Digest]:
        return tuple(sorted(self.held.get(kind, {})))

    def kinds(self) -> Sequence[str]:
        return tuple(sorted(kind for kind, held in self.held.items() if held))

    def strays(self) -> Sequence[str]:
        return tuple(sorted(self.stray))


@dataclass
class MemoryTables:
    """Tables by the digest that they add up to. ``files`` and ``leaves`` may be tampered with."""

    files: dict[Digest, Sequence[FileEntry]] = field(default_factory=dict)
    leaves: dict[Digest, Sequence[Leaf]] = field(default_factory=dict)

    def put_files(self, entries: Sequence[FileEntry]) -> Digest:
        tree = tree_digest(entries)
        self.files[tree] = sorted(entries)
        return tree

    def get_files(self, tree: Digest) -> Sequence[FileEntry]:
        if tree not in self.files:
            raise UnknownName(f"There is no table of {tree}.")
        if tree_digest(self.files[tree]) != tree:
            raise DoesNotHold(f"The rows of the table {tree} do not add up to its name.")
        return self.files[tree]

    def put_leaves(self, leaves: Sequence[Leaf]) -> Digest:
        root = tensor_root(leaves)
        self.leaves[root] = sorted(leaves)
        return root

    def get_leaves(self, root: Digest) -> Sequence[Leaf]:
        if root not in self.leaves:
            raise UnknownName(f"There is no table of {root}.")
        if tensor_root(self.leaves[root]) != root:
            raise DoesNotHold(f"The rows of the table {root} do not add up to its name.")
        return self.leaves[root]

    def trees(self) -> Sequence[Digest]:
        return tuple(sorted(self.files))

    def roots(self) -> Sequence[Digest]:
        return tuple(sorted(self.leaves))


@dataclass
class MemoryOpenings:
    """Openings by stage."""

    held: dict[str, dict[str, Opening]] = field(default_factory=dict)

    def add(self, opening: Opening) -> None:
        record_bytes(opening)
        self.held.setdefault(opening.stage, {})[opening.time] = opening

    def of_stage(self, stage: str) -> Sequence[Opening]:
        return tuple(opening for _, opening in sorted(self.held.get(stage, {}).items()))
