"""A proof that one file belongs to a recorded tree, without the other files and without their list.

It holds the file's page (at most sixteen files, by path), its place, and the hashes that lead to the tree digest.
Whoever knows that digest (from a product) can check it alone. Refuses proofs that do not lead to their tree.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Self

from registry.core.canonical import Json
from registry.core.codec import Reader, opened
from registry.core.digests import PAGE_FILES, Digest, FileEntry, digest_of_tree, leaf_hash, page_bytes
from registry.core.merkle import HASH_BYTES, audit_path, root_by_path
from registry.core.names import Name
from registry.errors import DoesNotHold, MalformedRecord, UnknownName

LONGEST_PATH = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Inclusion:
    """File ``index`` of the ``files`` files of ``tree``, which is the output ``name``; ``page`` holds it."""

    KIND: ClassVar[str] = "inclusion"
    SCHEMA: ClassVar[int] = 1

    name: str
    tree: Digest
    files: int
    index: int
    page: tuple[FileEntry, ...]
    path: tuple[bytes, ...]
    extra: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        Name.parse(self.name)
        if len(self.path) > LONGEST_PATH:
            raise MalformedRecord(f"A proof of {len(self.path)} hashes is longer than any.")
        first = self.index - self.index % PAGE_FILES
        if self.index >= self.files or len(self.page) != min(PAGE_FILES, self.files - first):
            raise MalformedRecord(f"A page of {len(self.page)} files does not hold file {self.index} of {self.files}.")

    @property
    def entry(self) -> FileEntry:
        """The file that is proved to be in the tree."""
        return self.page[self.index % PAGE_FILES]

    @property
    def kind(self) -> str:
        return self.KIND

    def to_json(self) -> dict[str, Json]:
        return {
            **self.extra,
            "kind": self.KIND,
            "schema": self.SCHEMA,
            "name": self.name,
            "tree": str(self.tree),
            "files": self.files,
            "index": self.index,
            "page": [{"path": one.path, "size_bytes": one.size_bytes, "digest": str(one.digest)} for one in self.page],
            "path": [one.hex() for one in self.path],
        }

    @classmethod
    def from_json(cls, value: Json) -> Self:
        reader = opened(value, cls.KIND, cls.SCHEMA)
        return cls(
            name=reader.text("name"),
            tree=reader.digest("tree"),
            files=reader.integer("files"),
            index=reader.integer("index"),
            page=reader.objects("page", _entry),
            path=tuple(_hash(text) for text in reader.texts("path")),
            extra=reader.rest(),
        )

    def verify(self, tree: Digest) -> None:
        """Raises ``DoesNotHold`` unless the entry belongs to ``tree``."""
        leaf, pages = leaf_hash(page_bytes(self.page)), -(-self.files // PAGE_FILES)
        root = root_by_path(leaf, self.index // PAGE_FILES, pages, self.path)
        if self.tree != tree or digest_of_tree(self.files, root) != tree:
            raise DoesNotHold(
                f"The proof does not show that {self.entry.path} belongs to {tree}.",
                remedy="Ask for a proof from the record that you have.",
            )


def prove(name: str, entries: Sequence[FileEntry], path: str) -> Inclusion:
    """The proof for the file at ``path`` of the output ``name``, whose files by path are ``entries``.

    Raises ``UnknownName`` when the output has no such file.
    """
    index = bisect_left(entries, path, key=lambda entry: entry.path)
    if index == len(entries) or entries[index].path != path:
        raise UnknownName(f"{name} has no file {path}.", remedy=f"See 'reckon show {name} --full'.")
    pages = [tuple(entries[start : start + PAGE_FILES]) for start in range(0, len(entries), PAGE_FILES)]
    leaves, place = [leaf_hash(page_bytes(page)) for page in pages], index // PAGE_FILES
    siblings = audit_path(leaves, place)
    root = root_by_path(leaves[place], place, len(leaves), siblings)
    return Inclusion(
        name=name,
        tree=digest_of_tree(len(entries), root),
        files=len(entries),
        index=index,
        page=pages[place],
        path=siblings,
    )


def _entry(reader: Reader) -> FileEntry:
    entry = FileEntry(path=reader.text("path"), size_bytes=reader.integer("size_bytes"), digest=reader.digest("digest"))
    reader.close()
    return entry


def _hash(text: str) -> bytes:
    try:
        data = bytes.fromhex(text)
    except ValueError as error:
        raise MalformedRecord(f"{text[:80]!r} is not a hash.") from error
    if len(data) != HASH_BYTES or data.hex() != text:
        raise MalformedRecord(f"{text[:80]!r} is not a hash.")
    return data
