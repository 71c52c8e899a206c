"""Absence as a type with a reason: what is lost, what is withheld, and what is only asserted.

A missing thing never helps a claim, so it is always told which of the three it is, and why. Refuses an absence without
its reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from registry.core.canonical import Json
from registry.core.codec import Reader
from registry.core.digests import Digest
from registry.errors import MalformedRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """It was there once and nobody has it now."""

    WORD: ClassVar[str] = "lost"

    reason: str

    def __post_init__(self) -> None:
        _said(self.reason)

    def to_json(self) -> dict[str, Json]:
        return {"absence": self.WORD, "reason": self.reason}


@dataclass(frozen=True, slots=True, kw_only=True)
class Withheld:
    """Somebody has it and may not publish it. ``digest`` is None where not even that was told."""

    WORD: ClassVar[str] = "withheld"

    reason: str
    digest: Digest | None

    def __post_init__(self) -> None:
        _said(self.reason)

    def to_json(self) -> dict[str, Json]:
        digest = None if self.digest is None else str(self.digest)
        return {"absence": self.WORD, "reason": self.reason, "digest": digest}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asserted:
    """Only somebody's word says that it exists."""

    WORD: ClassVar[str] = "asserted"

    by: str

    def __post_init__(self) -> None:
        _said(self.by)

    @property
    def reason(self) -> str:
        """Whose word it is, as a reason."""
        return f"only the word of {self.by}"

    def to_json(self) -> dict[str, Json]:
        return {"absence": self.WORD, "by": self.by}


Absence: TypeAlias = Lost | Withheld | Asserted


def read_absence(reader: Reader) -> Absence:
    """Read an absence. Raises ``MalformedRecord`` for a word that is none of the three."""
    word = reader.text("absence")
    if word == Lost.WORD:
        found: Absence = Lost(reason=reader.text("reason"))
    elif word == Withheld.WORD:
        found = Withheld(reason=reader.text("reason"), digest=reader.optional("digest", reader.digest))
    elif word == Asserted.WORD:
        found = Asserted(by=reader.text("by"))
    else:
        raise MalformedRecord(f"{word!r} is no kind of absence: write lost, withheld or asserted.")
    reader.close()
    return found


def _said(reason: str) -> None:
    if not reason.strip():
        raise MalformedRecord("What is absent needs its reason.")
