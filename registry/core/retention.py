"""What may be let go and when: classes that people give to artifacts, and ages for what nobody needs any more.

A class is a record, since a name moves and bytes do not: it pins the product and the digest, and the newest record
about an output counts. Ages are settings. Refuses classes that are not known, ages below zero, and settings of another
kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import ClassVar, Final, Self

from registry.core.canonical import Json
from registry.core.codec import Reader, opened
from registry.core.digests import Digest
from registry.core.names import Name
from registry.core.reading import RawRecords, read_each
from registry.errors import MalformedRecord, Refused

LONGEST_TEXT: Final = 4000
SECTION: Final = "retention"


class Class(StrEnum):
    """What an artifact is kept as. ``scratch`` takes a class back; ``gone`` says that its bytes were let go."""

    RELEASE = "release"
    MILESTONE = "milestone"
    HANDOFF = "handoff"
    SCRATCH = "scratch"
    GONE = "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """An output by its name, the product that it is of, and the digest of its tree."""

    name: str
    product: Digest
    digest: Digest

    def to_json(self) -> dict[str, Json]:
        return {"name": self.name, "product": str(self.product), "digest": str(self.digest)}

    @classmethod
    def read(cls, reader: Reader) -> Self:
        one = cls(name=reader.text("name"), product=reader.digest("product"), digest=reader.digest("digest"))
        reader.close()
        Name.parse(one.name)
        return one


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Outputs and the class that they have from now on."""

    KIND: ClassVar[str] = "retention"
    SCHEMA: ClassVar[int] = 1

    holds: Class
    subjects: tuple[Subject, ...]
    text: str
    time: str
    extra: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.subjects:
            raise MalformedRecord("A class needs something that has it.")
        if not 0 < len(self.text.strip()) <= LONGEST_TEXT or not self.text.isprintable():
            raise MalformedRecord(f"The reason of a class is 1 to {LONGEST_TEXT} printable characters on one line.")

    @property
    def kind(self) -> str:
        return self.KIND

    def to_json(self) -> dict[str, Json]:
        return {
            **self.extra,
            "kind": self.KIND,
            "schema": self.SCHEMA,
            "holds": self.holds.value,
            "subjects": [one.to_json() for one in self.subjects],
            "text": self.text,
            "time": self.time,
        }

    @classmethod
    def from_json(cls, value: Json) -> Self:
        reader = opened(value, cls.KIND, cls.SCHEMA)
        return cls(
            holds=_class(reader.text("holds")),
            subjects=reader.objects("subjects", Subject.read),
            text=reader.text("text"),
            time=reader.text("time"),
            extra=reader.rest(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """The class of each output that ever got one (product and name), by the newest record, and damaged records."""

    current: Mapping[tuple[Digest, str], Retention] = field(default_factory=dict)
    damages: tuple[str, ...] = ()

    @classmethod
    def build(cls, raw: RawRecords) -> Self:
        """Index raw records. One bad record hides no other."""
        found, damages = read_each(raw, Retention.from_json)
        current = {
            (subject.product, subject.name): record
            for _, record in sorted(found, key=lambda pair: (pair[1].time, pair[0]))
            for subject in record.subjects
        }
        return cls(current=current, damages=damages)

    def of(self, product: Digest, name: str) -> Retention | None:
        """The class that an output has."""
        return self.current.get((product, name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Ages in days, and which checkpoints are milestones by their step.

    ``scratch_days``: what lets a killed stage resume; ``superseded_days``: products that a later one replaced, and
    objects that no record speaks of; ``attempt_days``: run logs of attempts that are recorded and gave nothing that
    stays. ``milestone_every_steps`` of zero makes none.
    """

    scratch_days: int = 7
    superseded_days: int = 30
    attempt_days: int = 30
    milestone_every_steps: int = 0

    @classmethod
    def from_settings(cls, settings: Mapping[str, object]) -> Self:
        """The section ``retention`` of the settings; what it leaves out stays as it is here.

        Raises ``Refused`` for unknown settings and for anything but whole numbers from zero.
        """
        section = settings.get(SECTION, {})
        names = {one.name for one in fields(cls)}
        if not isinstance(section, Mapping) or set(section) - names:
            raise Refused(
                f"The section {SECTION} of the settings has unknown keys.",
                remedy=f"Known are: {', '.join(sorted(names))}.",
            )
        for name, value in section.items():
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 10**9:
                raise Refused(f"{SECTION}.{name} is {value!r}, not a whole number.", remedy="Correct params.yaml.")
        return cls(**section)


def _class(text: str) -> Class:
    if text not in set(Class):
        raise MalformedRecord(f"{text!r} is no class; known are {', '.join(Class)}.")
    return Class(text)
