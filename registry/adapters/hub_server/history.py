"""Revisions of a repository: which commit a name means, branches, tags, and the log.

A name is looked up, never evaluated: git's expressions (``main~1``, ``main:path``, ``@{1}``) are no names here.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Sequence
from itertools import islice

import pygit2
from pygit2.enums import ObjectType, SortMode

from registry.adapters.hub_server.problems import Conflict, Forbidden, Problem, RevisionMissing
from registry.adapters.hub_server.repositories import MAIN, Repository, signature

_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHORT = re.compile(r"[0-9a-f]{7,39}")


def resolve(git: pygit2.Repository, revision: str) -> pygit2.Commit:
    """The commit behind a full or short id, branch, tag (annotated or not) or full ref. Raises ``RevisionMissing``."""
    if _COMMIT.fullmatch(revision):
        return _commit(git, git.get(revision), revision)
    for name in (f"refs/heads/{revision}", f"refs/tags/{revision}", revision):
        if name.startswith("refs/") and pygit2.reference_is_valid_name(name) and name in git.references:
            return _commit(git, git.references[name].peel(None), revision)
    if _SHORT.fullmatch(revision):
        return _commit(git, _by_prefix(git, revision), revision)
    raise RevisionMissing(revision)


def _by_prefix(git: pygit2.Repository, prefix: str) -> object:
    try:
        return git[prefix]
    except (KeyError, ValueError):  # none, or several
        return None


def _commit(git: pygit2.Repository, found: object, revision: str) -> pygit2.Commit:
    while isinstance(found, pygit2.Tag):
        found = git.get(found.target)
    if not isinstance(found, pygit2.Commit):
        raise RevisionMissing(revision)
    return found


def branch_tip(git: pygit2.Repository, branch: str) -> pygit2.Commit:
    """The last commit of a branch. Raises ``RevisionMissing`` for all else: a tag takes no commits."""
    name = f"refs/heads/{branch.removeprefix('refs/heads/')}"
    if not pygit2.reference_is_valid_name(name) or name not in git.references:
        raise RevisionMissing(branch)
    return _commit(git, git.references[name].peel(None), branch)


def create_branch(repository: Repository, branch: str, start: str | None) -> None:
    """Make a branch at ``start`` (the head of main when None). Raises ``Conflict`` when it is there."""
    name = _new_ref("heads", branch)
    with repository.turn:
        _free(repository.git, name)
        repository.git.references.create(name, resolve(repository.git, start or MAIN).id)


def create_tag(repository: Repository, tag: str, revision: str, message: str | None) -> None:
    """Tag a commit; with a message the tag is an object of its own. Raises ``Conflict`` when it is there."""
    name = _new_ref("tags", tag)
    with repository.turn:
        _free(repository.git, name)
        target = resolve(repository.git, revision).id
        if message:
            repository.git.create_tag(tag, target, ObjectType.COMMIT, signature(), message)
        else:
            repository.git.references.create(name, target)


def delete_ref(repository: Repository, space: str, short: str) -> None:
    """Remove a branch (``space`` is ``heads``) or tag (``tags``). Raises ``RevisionMissing``; main stays."""
    name = f"refs/{space}/{short}"
    if name == f"refs/heads/{MAIN}":
        raise Forbidden("The branch main is protected and cannot be deleted.")
    with repository.turn:
        if not pygit2.reference_is_valid_name(name) or name not in repository.git.references:
            raise RevisionMissing(short)
        repository.git.references.delete(name)


def _new_ref(space: str, short: str) -> str:
    name = f"refs/{space}/{short}"
    misleading = short.startswith(("refs/", "-")) or _COMMIT.fullmatch(short) or not short.isprintable()
    if misleading or not pygit2.reference_is_valid_name(name):
        raise Problem(f"Invalid reference name: {short}")
    return name


def _free(git: pygit2.Repository, name: str) -> None:
    for other in git.references:
        if other == name or other.startswith(f"{name}/") or name.startswith(f"{other}/"):
            raise Conflict(f"Reference already exists: {other.split('/', 2)[2]}")


def refs(git: pygit2.Repository) -> dict[str, list[dict[str, str]]]:
    """Branches and tags, each with the commit that it means: a tag object is followed to its commit."""
    found: dict[str, list[dict[str, str]]] = {"branches": [], "converts": [], "tags": [], "pullRequests": []}
    kinds = {"refs/heads/": "branches", "refs/tags/": "tags"}
    for ref in sorted(git.references):
        for prefix, kind in kinds.items():
            if ref.startswith(prefix):
                row = {"name": ref.removeprefix(prefix), "ref": ref, "targetCommit": str(resolve(git, ref).id)}
                found[kind].append(row)
    return found


def log(git: pygit2.Repository, commit: pygit2.Commit) -> Iterator[pygit2.Commit]:
    """``commit`` and what came before it, newest first."""
    return git.walk(commit.id, SortMode.TOPOLOGICAL | SortMode.TIME)


def page_of_log(git: pygit2.Repository, commit: pygit2.Commit, skip: int, count: int) -> Sequence[pygit2.Commit]:
    """``count`` commits of the log after the first ``skip``."""
    return list(islice(log(git, commit), skip, skip + count))


def date(seconds: int) -> str:
    """Seconds since 1970 in the only form that the client reads."""
    return f"{datetime.datetime.fromtimestamp(seconds, datetime.UTC):%Y-%m-%dT%H:%M:%S}.000Z"


def title_and_message(commit: pygit2.Commit) -> tuple[str, str]:
    """The first line of a commit's message, and the rest."""
    title, _, rest = commit.message.partition("\n")
    return title, rest.strip("\n")
