"""Git's objects as bytes: what a commit's tree holds, proved from the commit's id downwards.

Works the same on a repository and on the few objects that a bundle carries. An object is the text that git hashes
(``commit 231\\0…``), so that its SHA-1 is its name. Refuses objects whose bytes are not those of their name and trees
that are malformed. (SHA-1 can be attacked by whoever writes both versions; the SHA-256 of lock and inputs do not rest
on it.)
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from registry.core.digests import Algorithm, Digest
from registry.errors import DoesNotHold, MalformedRecord, UnknownName

LARGEST_BYTES = 64 * 2**20
LONGEST_PATH = 64
ReadObject: TypeAlias = Callable[[Digest], bytes | None]
_HEADER = re.compile(rb"(commit|tree|blob|tag) (0|[1-9][0-9]*)\0")
_COMMIT = re.compile(rb"tree ([0-9a-f]{40})\n")
_ENTRY = re.compile(rb"([0-7]{5,6}) ([^\0/]+)\0(.{20})", re.DOTALL)
_FOLDER = b"40000"
_KEPT_BLOBS = 16


@dataclass(frozen=True, slots=True)
class GitObject:
    """An object that was hashed: its kind and content."""

    kind: str
    content: bytes


def opened(name: Digest, data: bytes) -> GitObject:
    """The object ``data``. Raises ``DoesNotHold`` when it is not the one called ``name``."""
    header = _HEADER.match(data[:40])
    if header is None or int(header[2]) != len(data) - header.end():
        raise DoesNotHold(f"The git object {name.hex} is malformed.")
    if hashlib.sha1(data, usedforsecurity=False).hexdigest() != name.hex:
        raise DoesNotHold(f"The git object {name.hex} has other bytes than its name says.")
    return GitObject(header[1].decode(), data[header.end() :])


class GitTrees:
    """Commits and their files. ``read`` gives an object's bytes, or None when it is not here."""

    def __init__(self, read: ReadObject) -> None:
        self._read = read
        self._trees: dict[Digest, Mapping[str, Digest]] = {}
        self._commits: dict[str, Digest] = {}
        self._blobs: OrderedDict[Digest, bytes] = OrderedDict()

    def tree(self, commit: str) -> Digest:
        """The tree of a commit. Raises ``UnknownName`` when it is not here, ``DoesNotHold`` for other bytes."""
        if commit not in self._commits:
            match = _COMMIT.match(self._content(object_id(commit), "commit"))
            if match is None:
                raise DoesNotHold(f"The commit {commit} has no tree.")
            self._commits[commit] = object_id(match[1].decode())
        return self._commits[commit]

    def blob(self, commit: str, path: str) -> Digest | None:
        """The object id of the file at ``path`` in a commit, or None when it has none. Raises like :meth:`tree`."""
        parts = path.split("/")
        if len(parts) > LONGEST_PATH:
            return None
        found = self.tree(commit)
        for depth, part in enumerate(parts):
            inside = self._entries(found).get(part if depth == len(parts) - 1 else f"{part}/")
            if inside is None:
                return None
            found = inside
        return found

    def content(self, commit: str, path: str) -> bytes | None:
        """The bytes of the file at ``path`` in a commit, or None when it has none. Raises like :meth:`tree`."""
        blob = self.blob(commit, path)
        if blob is None:
            return None
        if blob not in self._blobs:
            self._blobs[blob] = self._content(blob, "blob")
            while len(self._blobs) > _KEPT_BLOBS:
                self._blobs.popitem(last=False)
        return self._blobs[blob]

    def _entries(self, tree: Digest) -> Mapping[str, Digest]:
        """Object ids by name; the name of a folder ends with a slash."""
        if tree not in self._trees:
            self._trees[tree] = _parsed(tree, self._content(tree, "tree"))
        return self._trees[tree]

    def _content(self, name: Digest, kind: str) -> bytes:
        data = self._read(name)
        if data is None:
            raise UnknownName(f"The git object {name.hex} is not here.", remedy="Fetch the commit: git fetch --all")
        found = opened(name, data)
        if found.kind != kind:
            raise DoesNotHold(f"The git object {name.hex} is a {found.kind}, not a {kind}.")
        return found.content


def object_id(text: str) -> Digest:
    """A git object's id. Raises ``MalformedRecord`` for anything but 40 hex digits."""
    return Digest(Algorithm.GIT, text)


def _parsed(tree: Digest, content: bytes) -> Mapping[str, Digest]:
    entries: dict[str, Digest] = {}
    position = 0
    while position < len(content):
        match = _ENTRY.match(content, position)
        if match is None:
            raise DoesNotHold(f"The git tree {tree.hex} is malformed.")
        name = match[2].decode("utf-8", "backslashreplace") + ("/" if match[1] == _FOLDER else "")
        if name in entries:
            raise MalformedRecord(f"The git tree {tree.hex} has {name!r} twice.")
        entries[name] = object_id(match[3].hex())
        position = match.end()
    return entries
