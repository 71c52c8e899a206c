"""Before an upload: which files are large, which the repository ignores, which are there already."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import pathspec
import pygit2
from pygit2.enums import AttrCheck

from registry.adapters.hub_server import trees
from registry.adapters.hub_server.naming import file_path
from registry.adapters.hub_server.problems import EntryMissing, Problem
from registry.adapters.hub_server.settings import CARD_BYTES, PREUPLOAD_FILES, REGULAR_BYTES

_ATTRIBUTES = AttrCheck.INCLUDE_COMMIT | AttrCheck.INDEX_ONLY | AttrCheck.NO_SYSTEM


def plan(git: pygit2.Repository, commit: pygit2.Commit, payload: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The answer for each file of ``payload``: its mode, whether to ignore it, and what is there now.

    The last is git's blob id or a SHA-256, as the client computes either, so that it can leave out what did not change.
    """
    files = payload.get("files")
    if not isinstance(files, list) or len(files) > PREUPLOAD_FILES:
        raise Problem(f"'files' is a list of at most {PREUPLOAD_FILES} files.")
    ignored = _ignored(git, commit, payload.get("gitIgnore"))
    return [_answer(git, commit, file, ignored) for file in files]


def _answer(
    git: pygit2.Repository, commit: pygit2.Commit, file: Any, ignored: pathspec.GitIgnoreSpec
) -> dict[str, Any]:
    if not isinstance(file, dict) or not isinstance(file.get("size"), int):
        raise Problem("Each of 'files' has a path, a size and a sample.")
    path = file_path(file.get("path"))
    return {
        "path": path,
        "uploadMode": "lfs" if _is_large(git, commit, path, file) else "regular",
        "shouldIgnore": ignored.match_file(path),
        "oid": _present(git, commit, path),
    }


def _is_large(git: pygit2.Repository, commit: pygit2.Commit, path: str, file: Mapping[str, Any]) -> bool:
    """Whether a file goes to the object store: by its attributes, its size, or because its beginning is no text."""
    if file["size"] == 0:
        return False
    if file["size"] > REGULAR_BYTES or git.get_attr(path, "filter", _ATTRIBUTES, commit.id) == "lfs":
        return True
    try:
        sample = base64.b64decode(str(file.get("sample") or ""), validate=True)
    except (binascii.Error, ValueError) as error:
        raise Problem(f"The sample of {path} is not base64.") from error
    return b"\0" in sample


def _present(git: pygit2.Repository, commit: pygit2.Commit, path: str) -> str | None:
    try:
        return trees.find_file(git, commit, path).tag
    except EntryMissing:
        return None


def _ignored(git: pygit2.Repository, commit: pygit2.Commit, given: object) -> pathspec.GitIgnoreSpec:
    if given is None:
        try:
            entry = trees.find_file(git, commit, ".gitignore")
            given = trees.content(git, entry).decode("utf-8", errors="replace")
        except EntryMissing:
            given = ""
    if not isinstance(given, str) or len(given) > CARD_BYTES:
        raise Problem("A .gitignore is text of a sane length.")
    return pathspec.GitIgnoreSpec.from_lines(given.splitlines())
