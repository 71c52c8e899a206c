"""A declaration that bytes exist, are known by their digest, and may not be published.

What is declared ends an audit as *withheld* instead of *missing*. It excuses absence only: bytes that are there are
checked like any others. Refuses unknown schemas and a declaration without a reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Self

from registry.core.canonical import Json
from registry.core.codec import opened
from registry.core.digests import Digest
from registry.core.names import Name
from registry.errors import MalformedRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Withheld:
    """The artifact or file ``name``, by the digest of its tree or of its bytes, is not published for ``reason``."""

    KIND: ClassVar[str] = "withheld"
    SCHEMA: ClassVar[int] = 1

    name: str
    digest: Digest
    reason: str
    extra: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        Name.parse(self.name)
        if not self.reason.strip():
            raise MalformedRecord("A declaration that bytes are withheld needs its reason.")

    @property
    def kind(self) -> str:
        return self.KIND

    def to_json(self) -> dict[str, Json]:
        return {
            **self.extra,
            "kind": self.KIND,
            "schema": self.SCHEMA,
            "name": self.name,
            "digest": str(self.digest),
            "reason": self.reason,
        }

    @classmethod
    def from_json(cls, value: Json) -> Self:
        reader = opened(value, cls.KIND, cls.SCHEMA)
        return cls(
            name=reader.text("name"),
            digest=reader.digest("digest"),
            reason=reader.text("reason"),
            extra=reader.rest(),
        )
