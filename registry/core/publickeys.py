"""Public keys: elliptic curve P-256, each in one spelling, named by the SHA-256 of its DER form.

Pure: the form is read here, and the curve's arithmetic is left to a library beside it. Refuses other kinds of keys,
compressed points, and text that is not exactly one PEM block.
"""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from typing import Final, Self

from registry.core.plainjson import unbase64
from registry.errors import MalformedRecord

# SubjectPublicKeyInfo of id-ecPublicKey on prime256v1 with an uncompressed point (RFC 5480), but for its 64 bytes.
_PREFIX: Final = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d03010703420004")
_DER_BYTES: Final = len(_PREFIX) + 64
_LONGEST_PEM: Final = 1024
_BLOCK: Final = re.compile(r"-----BEGIN PUBLIC KEY-----\n([A-Za-z0-9+/=\n]+)\n-----END PUBLIC KEY-----\n?")
_KEY_ID: Final = re.compile(r"[0-9a-f]{64}")
_REMEDY: Final = "'reckon keys new' puts one beside the key, in a file that ends in .pub."


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A P-256 public key by its DER SubjectPublicKeyInfo (91 bytes)."""

    der: bytes

    def __post_init__(self) -> None:
        if len(self.der) != _DER_BYTES or not self.der.startswith(_PREFIX):
            raise MalformedRecord("The public key is not an uncompressed one on the curve P-256.", remedy=_REMEDY)

    @property
    def id(self) -> str:
        """The name of the key: SHA-256 of the DER form, 64 hex digits."""
        return hashlib.sha256(self.der).hexdigest()

    @property
    def pem(self) -> str:
        """The PEM form, as OpenSSL writes it."""
        text = base64.b64encode(self.der).decode()
        lines = "\n".join(text[start : start + 64] for start in range(0, len(text), 64))
        return f"-----BEGIN PUBLIC KEY-----\n{lines}\n-----END PUBLIC KEY-----\n"

    @property
    def hint(self) -> str:
        """The name that OpenSSF model signing gives the key: SHA-256 of the PEM form, 64 hex digits."""
        return hashlib.sha256(self.pem.encode()).hexdigest()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read one PEM block. Raises ``MalformedRecord``."""
        match = _BLOCK.fullmatch(text.replace("\r\n", "\n").strip() + "\n") if len(text) <= _LONGEST_PEM else None
        if match is None:
            raise MalformedRecord("This is not one PEM block of a public key.", remedy=_REMEDY)
        return cls(unbase64(match[1].replace("\n", ""), "The body of the public key"))


def checked_id(text: str) -> str:
    """A key's name. Raises ``MalformedRecord`` unless it is 64 hex digits."""
    if not _KEY_ID.fullmatch(text):
        raise MalformedRecord(f"{text[:80]!r} does not name a key; a name is 64 hex digits.")
    return text
