"""What the hub answers when it will not do as asked: a status, a code that the client knows, and a sentence."""

from __future__ import annotations

import errno
import os
from typing import ClassVar

from registry.errors import Refused


class Problem(Refused):
    """A request that is answered with ``status``; ``code`` goes into ``X-Error-Code`` where the client expects one."""

    status: ClassVar[int] = 400
    code: ClassVar[str] = ""

    def __init__(self, message: str, *, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.headers = headers or {}


class RepositoryMissing(Problem):
    """No such repository, or one that the caller may not see: the answer is the same."""

    status = 404
    code = "RepoNotFound"

    def __init__(self, message: str = "Repository not found") -> None:
        super().__init__(message)


class RevisionMissing(Problem):
    """The repository has no such branch, tag or commit."""

    status = 404
    code = "RevisionNotFound"

    def __init__(self, revision: str) -> None:
        super().__init__(f"Invalid rev id: {revision}")


class EntryMissing(Problem):
    """The revision has no such file or folder. ``commit`` lets the client remember the absence."""

    status = 404
    code = "EntryNotFound"

    def __init__(self, message: str, *, commit: str | None = None) -> None:
        super().__init__(message, headers={} if commit is None else {"X-Repo-Commit": commit})


class Unauthorized(Problem):
    """No token where one is needed, or one that is not known."""

    status = 401


class Forbidden(Problem):
    """The token may not do this."""

    status = 403


class Conflict(Problem):
    """It is there already, or something else stands in its place."""

    status = 409


class Moved(Problem):
    """The branch is no longer where the caller saw it."""

    status = 412

    def __init__(self) -> None:
        super().__init__("A commit has happened since. Please refresh and try again.")


class TooLarge(Problem):
    """More bytes than such a request may have."""

    status = 413


class RangeOutside(Problem):
    """No byte of the requested range exists."""

    status = 416


class Differs(Problem):
    """Bytes arrived whose digest or number is not the announced one; they are not kept."""

    status = 422


class Full(Problem):
    """The disk cannot hold it. Nothing was changed."""

    status = 507

    def __init__(self, message: str = "The hub's disk is full; nothing was changed.") -> None:
        super().__init__(message)


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def is_full(error: Exception) -> bool:
    """Whether a write failed because there was no room for it; libgit2 tells it in words only."""
    number = error.errno if isinstance(error, OSError) else None
    return number in _FULL or any(os.strerror(one) in str(error) for one in _FULL)
