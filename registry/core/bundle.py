"""The form of a bundle: a plain tar in which every member has one possible spelling.

Any ``tar`` can unpack it. Members are named by what they are and by their digest, stand in the order of their names,
and have a header that follows from name and size alone: no clock, owner, mode, link, extension or compression. A reader
writes the header that it expects and compares; whatever differs is refused, so that two readers never see two bundles.
Refuses names of any other form (so no path can leave a folder), sizes over the limit of their kind, and covers that
are not canonical.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Self

from registry.core import canonical
from registry.core.canonical import Json
from registry.core.codec import opened
from registry.core.digests import Digest
from registry.core.names import Name
from registry.errors import MalformedRecord

BLOCK_BYTES = 512
END = bytes(2 * BLOCK_BYTES)
COVER = "bundle.json"
MOST_MEMBERS = 250_000
_LIMITS = {
    re.compile(re.escape(COVER)): canonical.MAXIMUM_BYTES,
    re.compile(r"manifests/[a-z]+s/[0-9a-f]{64}\.json"): canonical.MAXIMUM_BYTES,
    re.compile(r"manifests/(objects|tensors)/[0-9a-f]{64}\.parquet"): 512 * 2**20,
    re.compile(r"bytes/[0-9a-f]{64}"): 2**30,
    re.compile(r"git/[0-9a-f]{40}"): 64 * 2**20,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cover:
    """What a bundle is about: the artifact ``name`` as an output of ``product``."""

    KIND: ClassVar[str] = "bundle"
    SCHEMA: ClassVar[int] = 1

    name: str
    product: Digest
    extra: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        Name.parse(self.name)

    @property
    def kind(self) -> str:
        return self.KIND

    def to_json(self) -> dict[str, Json]:
        return {
            **self.extra,
            "kind": self.KIND,
            "schema": self.SCHEMA,
            "name": self.name,
            "product": str(self.product),
        }

    @classmethod
    def from_json(cls, value: Json) -> Self:
        reader = opened(value, cls.KIND, cls.SCHEMA)
        return cls(name=reader.text("name"), product=reader.digest("product"), extra=reader.rest())


@dataclass(frozen=True, slots=True)
class Member:
    """A file in a bundle."""

    name: str
    size_bytes: int

    def __post_init__(self) -> None:
        limit = next((most for pattern, most in _LIMITS.items() if pattern.fullmatch(self.name)), None)
        if limit is None:
            raise MalformedRecord(f"A bundle has no member {self.name[:120]!r}.")
        if not 0 <= self.size_bytes <= limit:
            raise MalformedRecord(f"The member {self.name} of {self.size_bytes} bytes is over the limit of {limit}.")

    @property
    def header(self) -> bytes:
        """The one header that this member can have."""
        told = tarfile.TarInfo(self.name)
        told.size, told.mode = self.size_bytes, 0o644
        return told.tobuf(tarfile.USTAR_FORMAT)

    @property
    def padding(self) -> bytes:
        """The zeros between the bytes of the member and the next header."""
        return bytes(-self.size_bytes % BLOCK_BYTES)


def member(header: bytes) -> Member:
    """The member that a header announces. Raises ``MalformedRecord`` unless it is spelled in the one possible way."""
    name, size = header[:100].rstrip(b"\0"), header[124:135]
    if not re.fullmatch(rb"[0-7]{11}", size):
        raise MalformedRecord("A member of the bundle has no size.")
    found = Member(name.decode("ascii", "backslashreplace"), int(size, 8))
    if found.header != header:
        raise MalformedRecord(f"The header of {found.name} is spelled in another way than a bundle's.")
    return found
