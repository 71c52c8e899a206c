"""A claim: one source's value of one quantity, as it was printed; and whether two of them can both be true.

A printed figure stands for every number that rounds to it: 18.0e12 and 18.005e12 agree, 18.75e12 does not. A commit cut
short agrees with any that begins so. Everything else must be the same text. Refuses values without a source, and text
that is too long or could move a cursor.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Final, Self

from registry.core.canonical import Json
from registry.core.codec import Reader
from registry.errors import MalformedRecord

COMMIT: Final = "commit"
LONGEST: Final = 4000
_LONGEST_NUMBER = 48
_NUMBER = re.compile(r"[+-]?[0-9]{1,40}(?:\.[0-9]{1,40})?(?:e[+-]?[0-9]{1,3})?")
_COMMIT = re.compile(r"[0-9a-f]{7,40}")
_ABOUT_FACTOR = 4
_EXACT = Context(prec=120)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One source's value. ``source`` is a key of the record's sources; ``about`` is set where the source says so."""

    quantity: str
    value: str
    source: str
    about: bool
    note: str

    def __post_init__(self) -> None:
        for text in (self.quantity, self.value, self.source):
            if not text.strip():
                raise MalformedRecord(f"A claim needs a quantity, a value and a source; {self.quantity!r} lacks one.")
        for text in (self.quantity, self.value, self.source, self.note):
            plain(text)

    def to_json(self) -> dict[str, Json]:
        return {
            "quantity": self.quantity,
            "value": self.value,
            "source": self.source,
            "about": self.about,
            "note": self.note,
        }

    @classmethod
    def read(cls, reader: Reader) -> Self:
        one = cls(
            quantity=reader.text("quantity"),
            value=reader.text("value"),
            source=reader.text("source"),
            about=reader.flag("about"),
            note=reader.text("note"),
        )
        reader.close()
        return one


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A claim with its source in full and as a label. ``derived`` is set for what the arithmetic here says."""

    quantity: str
    value: str
    source: str
    label: str
    about: bool = False
    note: str = ""
    derived: bool = False

    @property
    def text(self) -> str:
        """The value as it was told."""
        return f"about {self.value}" if self.about else self.value


def number(text: str) -> Decimal | None:
    """The number that ``text`` spells, or None when it spells none."""
    if len(text) > _LONGEST_NUMBER or not _NUMBER.fullmatch(text):
        return None
    return Decimal(text)


def agree(one: Said, other: Said) -> bool:
    """Whether both can be true."""
    if one.value == other.value:
        return True
    first, second = number(one.value), number(other.value)
    if first is not None and second is not None:
        apart = _EXACT.abs(_EXACT.subtract(first, second))
        return bool(apart < _EXACT.add(_half(one, first), _half(other, second)))
    return one.quantity == COMMIT and _same_commit(one.value, other.value)


def camps(told: Iterable[Said]) -> tuple[tuple[Said, ...], ...]:
    """The claims in groups that can be true together; one group means that nothing contradicts. Largest group first."""
    groups: list[list[Said]] = []
    for one in told:
        home = next((group for group in groups if all(agree(one, other) for other in group)), None)
        if home is None:
            groups.append([one])
        else:
            home.append(one)
    ordered = sorted(groups, key=lambda group: (-len(group), not any(one.derived for one in group)))
    return tuple(tuple(group) for group in ordered)


def sides(group: Sequence[Said]) -> str:
    """A group in words: its values, each with who says so."""
    by_value: dict[str, list[str]] = {}
    for one in group:
        by_value.setdefault(one.text, []).append(f"{one.label}: {one.note}" if one.note else one.label)
    return "; ".join(f"{value} ({', '.join(dict.fromkeys(who))})" for value, who in by_value.items())


def plain(text: str, longest: int = LONGEST) -> str:
    """``text`` when it is short and prints as it is; raises ``MalformedRecord`` otherwise."""
    if len(text) > longest or not text.isprintable():
        raise MalformedRecord(f"A text of a foreign record is at most {longest} printable characters: {text[:40]!r}.")
    return text


def _half(said: Said, value: Decimal) -> Decimal:
    """Half of the last printed place; four times as much where the source says "about"."""
    unit = Decimal(1).scaleb(int(value.as_tuple().exponent), context=_EXACT)
    return _EXACT.multiply(unit, Decimal(_ABOUT_FACTOR) / 2 if said.about else Decimal("0.5"))


def _same_commit(one: str, other: str) -> bool:
    if not (_COMMIT.fullmatch(one) and _COMMIT.fullmatch(other)):
        return False
    return one.startswith(other) or other.startswith(one)
