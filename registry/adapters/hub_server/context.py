"""What every answer needs: the parts of the hub, who asks, and for which repository."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request

from registry.adapters.hub_server.naming import Kind, RepositoryName, decoded
from registry.adapters.hub_server.parts import Parts
from registry.adapters.hub_server.problems import Problem, RepositoryMissing
from registry.adapters.hub_server.repositories import Repositories, Repository
from registry.adapters.hub_server.settings import Settings
from registry.adapters.hub_server.store import BlobStore
from registry.adapters.hub_server.tokens import Right, Tokens

_HOST = re.compile(r"(?:[A-Za-z0-9.-]{1,253}|\[[0-9a-fA-F:]{2,45}\])(?::[0-9]{1,5})?")
_OTHER_NAMES = {"127.0.0.1": "localhost", "localhost": "127.0.0.1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hub:
    """The parts of one hub; all its bytes lie in one folder."""

    settings: Settings
    tokens: Tokens
    store: BlobStore
    parts: Parts
    repositories: Repositories

    @classmethod
    def of(cls, root: Path, settings: Settings) -> Hub:
        """Open the hub in ``root``, or begin one, and clear away what a killed server left."""
        store = BlobStore(root)
        hub = cls(
            settings=settings,
            tokens=Tokens.of(root / "tokens"),
            store=store,
            parts=Parts(store),
            repositories=Repositories(root),
        )
        hub.store.tidy()
        hub.parts.tidy()
        hub.repositories.tidy()
        return hub

    def right(self, request: Request, needed: Right = Right.NONE) -> Right:
        """What the caller may do. Raises ``Unauthorized`` or ``Forbidden`` when it is less than ``needed``."""
        return self.tokens.require(request.headers.get("authorization"), needed)

    def repository(self, request: Request, needed: Right = Right.NONE) -> Repository:
        """The repository of the address. A private one is missing, too, to a caller without a token."""
        right = self.right(request, needed)
        opened = self.repositories.open(named(request))
        if opened.facts.private and right is Right.NONE:
            raise RepositoryMissing
        return opened

    def link(self, request: Request, path: str, *, elsewhere: bool = False) -> str:
        """A signed address for ``path``; ``elsewhere`` uses another name of this host, if it has one."""
        host = other_host(request) if elsewhere else None
        return f"{request.url.scheme}://{host or host_of(request)}{self.tokens.links.sign(path)}"

    def require_link(self, request: Request) -> None:
        """Raises ``Forbidden`` unless the address was signed by this hub."""
        query = request.query_params
        self.tokens.links.check(request.url.path, query.get("expires", ""), query.get("signature", ""))


def named(request: Request) -> RepositoryName:
    """The repository that the address names."""
    kind = request.path_params.get("kind", Kind.MODEL.value)
    return RepositoryName.addressed(kind, decoded(request.path_params["owner"]), decoded(request.path_params["name"]))


def part(request: Request, key: str) -> str:
    """A part of the address, decoded; empty when the address has none."""
    return decoded(request.path_params.get(key, ""))


def number(request: Request, key: str) -> int:
    """A part of the address that is a number. Raises ``Problem`` for one of more than 18 digits."""
    found = str(request.path_params[key])
    if not re.fullmatch(r"[0-9]{1,18}", found):
        raise Problem("The address has a number that is none.")
    return int(found)


def host_of(request: Request) -> str:
    """The name under which the caller knows this server."""
    host = request.headers.get("host", "")
    if not _HOST.fullmatch(host):
        raise Problem("The request names no host.")
    return host


def other_host(request: Request) -> str | None:
    """Another name of this host, or None when it is known by one only."""
    host, colon, port = host_of(request).rpartition(":")
    other = _OTHER_NAMES.get(host)
    return other and f"{other}{colon}{port}"


def address(request: Request, path: str) -> str:
    """The full address of ``path`` here."""
    return f"{request.url.scheme}://{host_of(request)}/{path}"


def flag(value: str | None) -> bool:
    """Whether a query or form field says yes, in any of the client's spellings."""
    return (value or "").lower() in ("1", "true")
