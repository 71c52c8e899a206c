"""DSSE envelopes: bytes, what they are, and who signed them (Dead Simple Signing Envelope 1.0).

What is signed are the bytes of the payload with their type, kept as they came; any view of them is read beside. Beside
each signature we put the public key, so that an envelope can be checked by itself: that shows that nothing was altered,
and only a trust policy says whether the key may sign. Refuses unsigned envelopes, second spellings and unknown fields.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from registry.core import canonical, plainjson
from registry.core.canonical import Json
from registry.core.codec import Reader
from registry.core.digests import Digest, sha256
from registry.core.publickeys import PublicKey, checked_id
from registry.errors import MalformedRecord

IN_TOTO: Final = "application/vnd.in-toto+json"
LARGEST_ENVELOPE: Final = canonical.MAXIMUM_BYTES
MOST_SIGNATURES: Final = 16
LONGEST_SIGNATURE: Final = 512
LONGEST_TYPE: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """A signature by the key that is named (empty where the tool names none), with the key itself where it is given.

    ``value`` is ECDSA in DER form over the SHA-256 of the pre-authentication encoding.
    """

    key_id: str
    value: bytes
    public_key: PublicKey | None = None

    def __post_init__(self) -> None:
        if self.key_id:
            checked_id(self.key_id)
        if self.public_key is not None and self.public_key.id != self.key_id:
            raise MalformedRecord("A signature names another key than the one beside it.")
        if not 0 < len(self.value) <= LONGEST_SIGNATURE:
            raise MalformedRecord(f"A signature has 1 to {LONGEST_SIGNATURE} bytes, not {len(self.value)}.")

    def to_json(self) -> dict[str, Json]:
        key: dict[str, Json] = {} if self.public_key is None else {"publicKey": self.public_key.pem}
        return {"keyid": self.key_id, "sig": base64.b64encode(self.value).decode(), **key}

    @classmethod
    def read(cls, reader: Reader) -> Self:
        fields = dict(reader.rest())
        key_id, value, pem = fields.pop("keyid", ""), fields.pop("sig", None), fields.pop("publicKey", None)
        if fields or not isinstance(key_id, str) or not isinstance(value, str) or not isinstance(pem, str | None):
            raise MalformedRecord("A signature of an envelope has 'sig', and may have 'keyid' and 'publicKey'.")
        public_key = None if pem is None else PublicKey.parse(pem)
        return cls(key_id=key_id, value=plainjson.unbase64(value, "A signature"), public_key=public_key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """Signed bytes of a type."""

    payload_type: str
    payload: bytes
    signatures: tuple[Signature, ...]

    def __post_init__(self) -> None:
        if not 0 < len(self.payload_type) <= LONGEST_TYPE or not self.payload_type.isascii():
            raise MalformedRecord("The type of an envelope's payload is a short ASCII text.")
        if not 0 < len(self.signatures) <= MOST_SIGNATURES:
            raise MalformedRecord(f"An envelope has 1 to {MOST_SIGNATURES} signatures, not {len(self.signatures)}.")

    @property
    def signed(self) -> bytes:
        """The bytes that every signature is over."""
        return pae(self.payload_type, self.payload)

    @property
    def digest(self) -> Digest:
        """SHA-256 of the payload: the identity of what was signed, whoever signed it."""
        return sha256(self.payload)

    def to_json(self) -> dict[str, Json]:
        return {
            "payloadType": self.payload_type,
            "payload": base64.b64encode(self.payload).decode(),
            "signatures": [one.to_json() for one in self.signatures],
        }

    def encode(self) -> bytes:
        """The envelope as canonical JSON, as it stands in a ``.dsse.json`` file."""
        return canonical.encode(self.to_json())

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read an envelope that any tool wrote. Raises ``MalformedRecord``; no signature is checked here."""
        return cls.from_json(plainjson.read(data, "The envelope", LARGEST_ENVELOPE))

    @classmethod
    def from_json(cls, value: Json) -> Self:
        """Read an envelope that is a part of something. Raises ``MalformedRecord``."""
        reader = Reader(value, "the envelope")
        one = cls(
            payload_type=reader.text("payloadType"),
            payload=plainjson.unbase64(reader.text("payload"), "The payload"),
            signatures=reader.objects("signatures", Signature.read),
        )
        reader.close()
        return one

    def view(self, payload_type: str = IN_TOTO) -> Mapping[str, Json]:
        """The payload as a JSON object. Raises ``MalformedRecord`` when its type is another or it is no such object."""
        if self.payload_type != payload_type:
            raise MalformedRecord(f"The envelope holds {self.payload_type[:80]!r}, not {payload_type!r}.")
        value = plainjson.read(self.payload, "The payload", LARGEST_ENVELOPE)
        if not isinstance(value, Mapping):
            raise MalformedRecord("The payload of the envelope is not an object.")
        return value


def pae(payload_type: str, payload: bytes) -> bytes:
    """The pre-authentication encoding of a payload and its type: what is signed (DSSE 1.0, protocol)."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)
