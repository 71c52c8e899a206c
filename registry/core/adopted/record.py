"""The record of something foreign: a run, rung, segment, trial, data set or forecast that others told of.

Its kind of standing is *claimed*, always: it has no recipe, no product and no witness, only claims with their sources,
links to what it says it was made from, and absences with their reasons. The newest record of an origin and name counts;
older ones stay. Refuses unknown schemas, claims and links whose source is not named, and names outside of the grammar.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import ClassVar, Final, Self

from registry.core.adopted.absence import Absence, read_absence
from registry.core.adopted.claims import Claim, plain
from registry.core.canonical import Json
from registry.core.codec import Reader, opened
from registry.core.digests import Digest
from registry.core.names import Name
from registry.core.transcript import LARGEST_STEP
from registry.errors import MalformedRecord

CLAIMED: Final = "claimed"
MOST: Final = 20_000
MOST_VALUES: Final = 100


class Role(StrEnum):
    """What kind of thing a record is about."""

    FAMILY = "family"
    RUN = "run"
    RUNG = "rung"
    SEGMENT = "segment"
    TRIAL = "trial"
    DATA = "data"
    FORECAST = "forecast"
    ARTIFACT = "artifact"


class Ended(StrEnum):
    """How the thing is said to have ended."""

    COMPLETE = "complete"
    PARTIAL = "partial"
    RUNNING = "running"
    REJECTED = "rejected"
    FAILED = "failed"
    PLANNED = "planned"
    UNKNOWN = "unknown"


class Bond(StrEnum):
    """What a link says of its target."""

    PARENT = "parent"  # training went on from this checkpoint
    PART = "part"  # a segment of this run
    TRIAL = "trial"  # a try that was given up
    INPUT = "input"
    FAMILY = "family"
    FORECAST = "forecast"  # what was predicted of this run
    REST = "rest"  # a forecast rests on this run


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where the record was read: the system, its own id there, and the digest of the bytes that were read."""

    system: str
    id: str
    digest: Digest

    def __post_init__(self) -> None:
        if not self.system or not self.id:
            raise MalformedRecord("An origin has a system and an id.")
        plain(self.system)
        plain(self.id)

    def to_json(self) -> dict[str, Json]:
        return {"system": self.system, "id": self.id, "digest": str(self.digest)}

    @classmethod
    def read(cls, reader: Reader) -> Self:
        one = cls(system=reader.text("system"), id=reader.text("id"), digest=reader.digest("digest"))
        reader.close()
        return one


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """From the thing to ``name``, at ``step`` if it is a checkpoint. ``kept`` is where a copy is said to lie."""

    bond: Bond
    name: str
    step: int | None
    source: str
    kept: str
    absence: Absence | None

    def __post_init__(self) -> None:
        _stage(self.name)
        plain(self.source)
        plain(self.kept)
        if self.step is not None and self.step > LARGEST_STEP:
            raise MalformedRecord(f"{self.step} is more steps than a run can have.")

    @property
    def target(self) -> str:
        """The name with its step."""
        return str(Name(stage=self.name, step=self.step))

    def to_json(self) -> dict[str, Json]:
        return {
            "bond": self.bond.value,
            "name": self.name,
            "step": self.step,
            "source": self.source,
            "kept": self.kept,
            "absence": None if self.absence is None else self.absence.to_json(),
        }

    @classmethod
    def read(cls, reader: Reader) -> Self:
        one = cls(
            bond=Bond(_one_of(reader.text("bond"), Bond)),
            name=reader.text("name"),
            step=reader.optional("step", reader.integer),
            source=reader.text("source"),
            kept=reader.text("kept"),
            absence=reader.optional("absence", lambda name: reader.object(name, read_absence)),
        )
        reader.close()
        return one


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopted:
    """What one origin tells of one thing."""

    KIND: ClassVar[str] = "adopted"
    SCHEMA: ClassVar[int] = 1

    name: str
    role: Role
    ended: Ended
    origin: Origin
    sources: Mapping[str, str]
    claims: tuple[Claim, ...]
    links: tuple[Link, ...]
    absence: Absence | None
    time: str
    extra: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _stage(self.name)
        if len(self.claims) > MOST or len(self.links) > MOST:
            raise MalformedRecord(f"A foreign record has at most {MOST} claims and links.")
        crowded = [name for name, count in Counter(one.quantity for one in self.claims).items() if count > MOST_VALUES]
        if crowded:
            raise MalformedRecord(f"{self.name} has more than {MOST_VALUES} values of {crowded[0]}.")
        for key, text in self.sources.items():
            plain(key)
            if not isinstance(text, str) or not plain(text).strip():
                raise MalformedRecord(f"The source {key!r} of {self.name} has no text.")
        unnamed = sorted(self.cited - self.sources.keys())
        if unnamed:
            raise MalformedRecord(f"{self.name} cites the source {unnamed[0]!r}, which it does not name.")

    @property
    def kind(self) -> str:
        return self.KIND

    @property
    def cited(self) -> frozenset[str]:
        """The keys of all sources that claims and links cite."""
        return frozenset((*(one.source for one in self.claims), *(one.source for one in self.links)))

    @property
    def place(self) -> tuple[str, str, str]:
        """What a newer record of the same place replaces: origin and name."""
        return self.origin.system, self.origin.id, self.name

    def says_as(self, other: Adopted) -> bool:
        """Whether both say the same, whenever they were written."""
        return replace(self, time="") == replace(other, time="")

    def to_json(self) -> dict[str, Json]:
        return {
            **self.extra,
            "kind": self.KIND,
            "schema": self.SCHEMA,
            "name": self.name,
            "standing": CLAIMED,
            "role": self.role.value,
            "ended": self.ended.value,
            "origin": self.origin.to_json(),
            "sources": self.sources,
            "claims": [one.to_json() for one in self.claims],
            "links": [one.to_json() for one in self.links],
            "absence": None if self.absence is None else self.absence.to_json(),
            "time": self.time,
        }

    @classmethod
    def from_json(cls, value: Json) -> Self:
        reader = opened(value, cls.KIND, cls.SCHEMA)
        if reader.text("standing") != CLAIMED:
            raise MalformedRecord("A foreign record can only be claimed.")
        return cls(
            name=reader.text("name"),
            role=Role(_one_of(reader.text("role"), Role)),
            ended=Ended(_one_of(reader.text("ended"), Ended)),
            origin=reader.object("origin", Origin.read),
            sources={
                key: str(text) if isinstance(text, str) else "" for key, text in reader.mapping("sources").items()
            },
            claims=reader.objects("claims", Claim.read),
            links=reader.objects("links", Link.read),
            absence=reader.optional("absence", lambda name: reader.object(name, read_absence)),
            time=reader.text("time"),
            extra=reader.rest(),
        )


def _stage(text: str) -> None:
    if Name.parse(text).stage != text:
        raise MalformedRecord(f"{text!r} is not the name of a foreign thing: write it like 'marin/hero'.")


def _one_of(text: str, words: type[StrEnum]) -> str:
    if text not in set(words):
        raise MalformedRecord(f"{text!r} is not known here; known are {', '.join(words)}.")
    return text
