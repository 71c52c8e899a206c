"""Files and folders of a commit, large files told by their pointers.

A large file is a small blob in git that names a SHA-256 and a size. The hub accepts no such blob whose object it does
not hold, so every pointer found here leads to bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import pygit2
from pygit2.enums import ObjectType

from registry.adapters.hub_server.history import date, log, title_and_message
from registry.adapters.hub_server.problems import EntryMissing

_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\noid sha256:([0-9a-f]{64})\nsize (0|[1-9][0-9]{0,17})\n"
)
POINTER_BYTES: Final = 256  # a larger blob is no pointer


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointer:
    """A large file: its SHA-256, its size, and the size of the blob in git."""

    oid: str
    size_bytes: int
    pointer_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A file or folder. ``oid`` is git's; ``size_bytes`` is that of the file itself, zero for a folder."""

    path: str
    oid: str
    is_folder: bool
    size_bytes: int = 0
    pointer: Pointer | None = None

    @property
    def tag(self) -> str:
        """What tells this content from another: the SHA-256 of a large file, git's blob id of any other."""
        return self.pointer.oid if self.pointer else self.oid


def pointer_text(oid: str, size_bytes: int) -> bytes:
    """The blob that stands in git for a large file."""
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {size_bytes}\n".encode("ascii")


def read_pointer(data: bytes) -> Pointer | None:
    """The large file that a blob stands for, or None for an ordinary one."""
    match = _POINTER.fullmatch(data) if len(data) <= POINTER_BYTES else None
    return match and Pointer(oid=match[1].decode(), size_bytes=int(match[2]), pointer_bytes=len(data))


def walk(
    git: pygit2.Repository, tree: pygit2.Tree, *, prefix: str, recursive: bool
) -> Iterator[tuple[str, pygit2.Object]]:
    """Paths and objects below ``tree`` in git's order, a folder before what is in it."""
    for item in tree:
        path = f"{prefix}{item.name}"
        yield path, item
        if recursive and isinstance(item, pygit2.Tree):
            yield from walk(git, item, prefix=f"{path}/", recursive=True)


def entry(git: pygit2.Repository, path: str, item: pygit2.Object) -> Entry:
    """What the hub tells of an object at ``path``."""
    oid = str(item.id)
    if item.type == ObjectType.TREE:
        return Entry(path=path, oid=oid, is_folder=True)
    size_bytes, pointer = _blob(git.path, oid)
    return Entry(path=path, oid=oid, is_folder=False, size_bytes=size_bytes, pointer=pointer)


def files(git: pygit2.Repository, commit: pygit2.Commit) -> Iterator[Entry]:
    """All files of a commit."""
    for path, item in walk(git, commit.tree, prefix="", recursive=True):
        if item.type == ObjectType.BLOB:
            yield entry(git, path, item)


def find(commit: pygit2.Commit, path: str) -> pygit2.Object:
    """The object at ``path``; the whole tree for the empty path. Raises ``EntryMissing``."""
    if not path:
        return commit.tree
    try:
        return commit.tree[path]
    except KeyError as error:
        raise EntryMissing(f'{path} does not exist on "{commit.id}"', commit=str(commit.id)) from error


def find_file(git: pygit2.Repository, commit: pygit2.Commit, path: str) -> Entry:
    """The file at ``path``. Raises ``EntryMissing`` when there is none, or a folder."""
    found = entry(git, path, find(commit, path)) if path else None
    if found is None or found.is_folder:
        raise EntryMissing("Entry not found", commit=str(commit.id))
    return found


def content(git: pygit2.Repository, file: Entry) -> bytes:
    """The bytes that git holds for a file: all of an ordinary one, the pointer of a large one."""
    return git.odb.read(file.oid)[1]


@lru_cache(maxsize=100_000)
def _blob(folder: str, oid: str) -> tuple[int, Pointer | None]:
    """Size and pointer of a blob, which never change. ``folder`` is the git folder, where it can be read."""
    odb = pygit2.Odb(f"{folder}objects")
    size_bytes = odb.read_header(oid)[1]
    pointer = read_pointer(odb.read(oid)[1]) if size_bytes <= POINTER_BYTES else None
    return (pointer.size_bytes if pointer else size_bytes), pointer


def last_commits(
    git: pygit2.Repository, commit: pygit2.Commit, paths: Sequence[str]
) -> Mapping[str, Mapping[str, str]]:
    """For every path the last commit, up to ``commit``, that changed what is there."""
    found: dict[str, Mapping[str, str]] = {}
    wanted = {path: find(commit, path).id for path in paths}
    for past in log(git, commit):
        parent = past.parents[0] if past.parents else None
        changed = [path for path, oid in wanted.items() if parent is None or _oid_at(parent, path) != oid]
        for path in changed:
            found[path] = {"id": str(past.id), "title": title_and_message(past)[0], "date": date(past.commit_time)}
            del wanted[path]
        if not wanted:
            break
    return found


def _oid_at(commit: pygit2.Commit, path: str) -> pygit2.Oid | None:
    try:
        return commit.tree[path].id
    except KeyError:
        return None
