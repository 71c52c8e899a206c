"""Who may do what: one token that writes and one that only reads, and addresses that carry their own permission.

The tokens lie in ``tokens/write`` and ``tokens/read`` of the hub's folder, mode 0600, one line each, so that
``HF_TOKEN_PATH`` can point there. Refuses to start on a token file that others can read.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import time
from enum import IntEnum
from pathlib import Path
from typing import Final

from registry.adapters.hub_server.problems import Forbidden, Unauthorized
from registry.adapters.hub_server.settings import LINK_SECONDS
from registry.errors import Refused

USER: Final = "owner"


class Right(IntEnum):
    """What a caller may do; a greater one includes the lesser."""

    NONE = 0
    READ = 1
    WRITE = 2


class Tokens:
    """The two tokens of a hub."""

    def __init__(self, *, write: str, read: str) -> None:
        self._rights = {write: Right.WRITE, read: Right.READ}
        self.links = Links(hashlib.sha256(b"links:" + write.encode()).digest())

    @classmethod
    def of(cls, folder: Path) -> Tokens:
        """The tokens in ``folder``, made when they are not there yet. Raises ``Refused`` when others can read them."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return cls(write=_token(folder / "write"), read=_token(folder / "read"))

    def right(self, authorization: str | None) -> Right:
        """The right behind an ``Authorization`` header. Raises ``Unauthorized`` for a token that is not known."""
        if not authorization:
            return Right.NONE
        scheme, _, given = authorization.partition(" ")
        found = Right.NONE
        for token, right in self._rights.items():
            if hmac.compare_digest(token.encode(), given.strip().encode()):
                found = right
        if scheme.lower() != "bearer" or found is Right.NONE:
            raise Unauthorized("Invalid credentials in Authorization header")
        return found

    def require(self, authorization: str | None, needed: Right) -> Right:
        """The right, if it suffices. Raises ``Unauthorized`` without a token and ``Forbidden`` with a lesser one."""
        right = self.right(authorization)
        if right is Right.NONE and needed is not Right.NONE:
            raise Unauthorized("Invalid username or password.")
        if right < needed:
            raise Forbidden("This token only reads; use the token in tokens/write.")
        return right


class Links:
    """Signs addresses that work without a token for some hours: uploads and downloads of large files."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def sign(self, path: str) -> str:
        """``path`` with its end of life and signature as the query."""
        expires = int(time.time()) + LINK_SECONDS
        return f"{path}?expires={expires}&signature={self._signature(path, str(expires))}"

    def check(self, path: str, expires: str, signature: str) -> None:
        """Raise ``Forbidden`` unless :meth:`sign` made this address and it still lives."""
        made = hmac.compare_digest(self._signature(path, expires).encode(), signature.encode())
        if not made or int(expires) < time.time():
            raise Forbidden("This address was not signed by the hub, or it is too old.")

    def _signature(self, path: str, expires: str) -> str:
        return hmac.new(self._key, f"{path} {expires}".encode(), hashlib.sha256).hexdigest()


def _token(path: Path) -> str:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _kept(path)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(f"hf_{secrets.token_urlsafe(32)}\n")
        file.flush()
        os.fsync(file.fileno())
    return _kept(path)


def _kept(path: Path) -> str:
    if path.stat().st_mode & 0o077:
        raise Refused(f"{path} can be read by others.", remedy=f"chmod 600 {path}")
    token = path.read_text(encoding="ascii").strip()
    if len(token) < 20:
        raise Refused(f"{path} holds no token.", remedy="Remove it; a new one is made at the next start.")
    return token
