"""Names as they come over the wire: repositories, revisions and paths, decoded once and checked.

Refuses everything that could reach outside of a folder or that git would not take: absolute paths, ``..``, ``.git``,
control characters, names that only differ from another by their escaping.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from urllib.parse import unquote_to_bytes

from registry.adapters.hub_server.problems import Problem, RepositoryMissing
from registry.core.names import checked_path
from registry.errors import Refused

_PART = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_])?")
_RESERVED: Final = {"api", "datasets", "lfs", "models", "spaces"}
_LONGEST_PATH: Final = 1024
_DEEPEST_PATH: Final = 100


class Kind(StrEnum):
    """What a repository holds; the value is how addresses of the API spell it."""

    MODEL = "models"
    DATASET = "datasets"

    @classmethod
    def of_type(cls, name: object) -> Kind:
        """The kind that the client calls ``model`` (or leaves out) or ``dataset``. Raises ``Problem`` for others."""
        kinds = {None: cls.MODEL, "model": cls.MODEL, "dataset": cls.DATASET}
        if not (name is None or isinstance(name, str)) or name not in kinds:
            raise Problem(f"This hub keeps models and datasets, not {name!r}.")
        return kinds[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryName:
    """``owner/name`` of a kind, checked."""

    kind: Kind
    owner: str
    name: str

    def __post_init__(self) -> None:
        for part in (self.owner, self.name):
            if not _PART.fullmatch(part) or "--" in part or ".." in part or part.endswith(".git"):
                raise Problem(f"{self.id!r} is not the name of a repository.")
        if self.owner in _RESERVED or len(self.id) > 96:
            raise Problem(f"{self.id!r} is not the name of a repository.")

    @property
    def id(self) -> str:
        """``owner/name``."""
        return f"{self.owner}/{self.name}"

    @property
    def page(self) -> str:
        """The path of its page: ``owner/name`` or ``datasets/owner/name``."""
        return self.id if self.kind is Kind.MODEL else f"{self.kind}/{self.id}"

    @classmethod
    def addressed(cls, kind: str, owner: str, name: str) -> RepositoryName:
        """The name in an address. Raises ``RepositoryMissing`` for one that no repository can have."""
        try:
            return cls(kind=Kind(kind), owner=owner, name=name)
        except (ValueError, Problem) as error:
            raise RepositoryMissing from error


def decoded(text: str) -> str:
    """A part of an address without its escapes. Raises ``Problem`` when it is not UTF-8 or has control characters."""
    try:
        plain = unquote_to_bytes(text).decode("utf-8")
    except UnicodeDecodeError as error:
        raise Problem("The address is not UTF-8.") from error
    if any(ord(char) < 32 or ord(char) == 127 for char in plain):
        raise Problem("The address has control characters.")
    return plain


def text(value: object, what: str, longest: int) -> str:
    """Return ``value`` when it is text that UTF-8 can write in ``longest`` bytes; raises ``Problem`` otherwise."""
    try:
        if isinstance(value, str) and len(value.encode()) <= longest:
            return value
    except UnicodeEncodeError:
        pass
    raise Problem(f"The {what} must be text of at most {longest} bytes.")


def file_path(path: object) -> str:
    """Return ``path`` when a file of a repository may be there; raises ``Problem`` otherwise."""
    try:
        checked = checked_path(text(path, "path", _LONGEST_PATH))
        if checked.count("/") >= _DEEPEST_PATH:
            raise Problem(f"A path has at most {_DEEPEST_PATH} folders.")
        return checked
    except Problem:
        raise
    except Refused as error:
        raise Problem(error.message) from error
