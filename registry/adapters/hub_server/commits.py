"""A commit as the client sends it: lines of JSON, first the header, then one operation each.

The whole commit is one move of the branch, from the commit that the sender saw to the new one, or nothing. Refuses a
large file whose bytes are not here, a file in the place of a folder, and the removal of what is not there.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import pygit2

from registry.adapters.hub_server.drafts import Draft, What
from registry.adapters.hub_server.history import branch_tip
from registry.adapters.hub_server.naming import file_path, text
from registry.adapters.hub_server.problems import Full, Moved, Problem, TooLarge, is_full
from registry.adapters.hub_server.repositories import Repository, signature
from registry.adapters.hub_server.settings import COMMIT_OPERATIONS, LINE_BYTES, REGULAR_BYTES
from registry.adapters.hub_server.store import BlobStore, checked_oid, checked_size
from registry.adapters.hub_server.trees import pointer_text, read_pointer


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """A file whose blob is in git already: the content, or the pointer of a large file."""

    path: str
    blob: pygit2.Oid


@dataclass(frozen=True, slots=True, kw_only=True)
class Remove:
    """A file to go, or a folder with all that is in it."""

    path: str
    what: What


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a commit says of itself. ``parent`` is the commit that the sender saw, by id or the beginning of one."""

    message: str
    parent: str | None


class Committer:
    """Makes commits in one repository out of what a client sent."""

    def __init__(self, repository: Repository, store: BlobStore) -> None:
        self._repository = repository
        self._git = repository.git
        self._store = store

    def commit(self, branch: str, body: BinaryIO) -> str:
        """Read ``body`` and move ``branch``. Returns the new commit's id.

        Raises ``Moved`` when the branch is not at the stated parent, ``RevisionMissing`` when there is no such branch,
        ``Problem`` for what cannot be done; the branch is then where it was.
        """
        lines = _lines(body)
        header = _header(next(lines, {}))
        _require_parent(branch_tip(self._git, branch), header)
        operations = [self._operation(line) for line in lines]
        if not operations:
            raise Problem("A commit needs at least one operation.")
        with self._repository.turn:
            return self._move(branch, header, operations)

    def _move(self, branch: str, header: Header, operations: Sequence[Put | Remove]) -> str:
        tip = branch_tip(self._git, branch)
        _require_parent(tip, header)
        tree = self._tree(tip, operations)
        author = signature()
        name = f"refs/heads/{branch.removeprefix('refs/heads/')}"
        return str(self._git.create_commit(name, author, author, header.message, tree, [tip.id]))

    def _tree(self, tip: pygit2.Commit, operations: Sequence[Put | Remove]) -> pygit2.Oid:
        draft = Draft(self._git, tip.tree)
        try:
            for operation in operations:
                if isinstance(operation, Put):
                    draft.put(operation.path, operation.blob)
                else:
                    draft.remove(operation.path, operation.what)
            return draft.write() or self._git.TreeBuilder().write()
        except pygit2.GitError as error:
            if is_full(error):
                raise Full from error
            raise Problem(f"git does not take this tree: {error}") from error

    def _operation(self, line: Mapping[str, Any]) -> Put | Remove:
        readers: Mapping[object, Callable[[Mapping[str, Any]], Put | Remove]] = {
            "file": self._file,
            "lfsFile": self._large_file,
            "deletedFile": lambda value: Remove(path=file_path(value.get("path")), what=What.FILE),
            "deletedFolder": lambda value: Remove(path=_folder_path(value.get("path")), what=What.FOLDER),
        }
        key, value = line.get("key"), line.get("value")
        if not isinstance(key, str) or key not in readers or not isinstance(value, dict):
            raise Problem(f"{key!r} is no operation of a commit.")
        return readers[key](value)

    def _file(self, value: Mapping[str, Any]) -> Put:
        path = file_path(value.get("path"))
        data = _content(value, path)
        pointer = read_pointer(data)
        if pointer:
            self._store.require(pointer.oid, pointer.size_bytes)
        return Put(path=path, blob=self._git.create_blob(data))

    def _large_file(self, value: Mapping[str, Any]) -> Put:
        path = file_path(value.get("path"))
        if value.get("algo", "sha256") != "sha256":
            raise Problem(f"{path}: large files are named by their SHA-256.")
        oid = checked_oid(value.get("oid"))
        stated = value.get("size")
        size_bytes = self._store.require(oid, None if stated is None else checked_size(stated))
        return Put(path=path, blob=self._git.create_blob(pointer_text(oid, size_bytes)))


def _lines(body: BinaryIO) -> Iterator[dict[str, Any]]:
    for number in range(COMMIT_OPERATIONS + 2):
        line = body.readline(LINE_BYTES + 1)
        if not line:
            return
        if len(line) > LINE_BYTES:
            raise TooLarge(f"A regular file has at most {REGULAR_BYTES} bytes; upload it as an LFS object.")
        if line.strip():
            yield _line(line, number)
    raise TooLarge(f"A commit has at most {COMMIT_OPERATIONS} operations.")


def _line(line: bytes, number: int) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Problem(f"Line {number + 1} of the commit is not JSON.") from error
    if not isinstance(value, dict):
        raise Problem(f"Line {number + 1} of the commit is not an object.")
    return value


def _header(line: Mapping[str, Any]) -> Header:
    value = line.get("value")
    if line.get("key") != "header" or not isinstance(value, dict):
        raise Problem("A commit begins with its header.")
    summary = text(value.get("summary"), "summary of a commit", 1024).strip()
    if not summary:
        raise Problem("A commit needs a summary.")
    description = text(value.get("description") or "", "description of a commit", 65536).strip()
    parent = value.get("parentCommit")
    if parent is not None and not (isinstance(parent, str) and 7 <= len(parent) <= 40):
        raise Problem("parentCommit is the id of a commit.")
    return Header(message=f"{summary}\n\n{description}".strip(), parent=parent)


def _require_parent(tip: pygit2.Commit, header: Header) -> None:
    if header.parent is not None and not str(tip.id).startswith(header.parent):
        raise Moved


def _content(value: Mapping[str, Any], path: str) -> bytes:
    content, encoding = value.get("content"), value.get("encoding", "utf-8")
    if not isinstance(content, str) or encoding not in ("base64", "utf-8"):
        raise Problem(f"{path}: the content is text, or base64 that says so.")
    try:
        data = base64.b64decode(content, validate=True) if encoding == "base64" else content.encode()
    except (binascii.Error, ValueError) as error:
        raise Problem(f"{path}: the content is not {encoding}.") from error
    if len(data) > REGULAR_BYTES:
        raise TooLarge(f"{path} has more than {REGULAR_BYTES} bytes; upload it as an LFS object.")
    return data


def _folder_path(path: object) -> str:
    return file_path(path.rstrip("/") if isinstance(path, str) else path)
