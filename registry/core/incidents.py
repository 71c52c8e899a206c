"""Incidents: what happened to a run on a range of steps, or to an artifact; told by people, or by training itself.

A record is typed and append-only: a mistake is answered by a later annotation, never by an edit. What training notices
stands in its execution and is listed beside. Refuses kinds that are not known, a range that ends before it begins, and
text that is empty, too long or could move a cursor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Final, Self

from registry.core.canonical import Json
from registry.core.codec import Reader, opened
from registry.core.digests import Digest
from registry.core.ledger import Ledger
from registry.core.names import Name
from registry.core.reading import RawRecords, read_each
from registry.core.transcript import LARGEST_STEP
from registry.errors import MalformedRecord

LONGEST_TEXT: Final = 4000


class Kind(StrEnum):
    """What kind of thing happened."""

    HANG = "hang"
    NAN = "nan"
    RESTART = "restart"
    INTERRUPTION = "interruption"
    HARDWARE = "hardware"
    DATA_TAINT = "data-taint"
    INTERVENTION = "intervention"
    REWIND = "rewind"
    LOSS_SPIKE = "loss-spike"
    DROPPED_TOKENS = "dropped-tokens"
    ROUTER_BIAS_JUMP = "router-bias-jump"
    GRADIENT_NORM_JUMP = "gradient-norm-jump"
    ANNOTATION = "annotation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """Something happened to ``about``: a run, a stage, an artifact or a file of one.

    ``digest`` is that of the artifact or file as it was on record then, None for a run and for what was not recorded.
    Steps count completed updates, first and last included; None when it is not about steps.
    """

    KIND: ClassVar[str] = "incident"
    SCHEMA: ClassVar[int] = 1

    about: str
    digest: Digest | None
    incident: Kind
    first_step: int | None
    last_step: int | None
    text: str
    time: str
    extra: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if str(Name.parse(self.about)) != self.about:
            raise MalformedRecord(f"An incident cannot be about {self.about!r}.")
        if (self.first_step is None) != (self.last_step is None):
            raise MalformedRecord("An incident has a first and a last step, or none.")
        first, last = self.first_step or 0, self.last_step or 0
        if not first <= last <= LARGEST_STEP:
            raise MalformedRecord(f"An incident cannot be about the steps {first} to {last}.")
        if not 0 < len(self.text.strip()) <= LONGEST_TEXT or not all(map(_printable, self.text)):
            raise MalformedRecord(f"The text of an incident is 1 to {LONGEST_TEXT} printable characters.")

    @property
    def kind(self) -> str:
        return self.KIND

    def to_json(self) -> dict[str, Json]:
        return {
            **self.extra,
            "kind": self.KIND,
            "schema": self.SCHEMA,
            "about": self.about,
            "digest": None if self.digest is None else str(self.digest),
            "incident": self.incident.value,
            "first_step": self.first_step,
            "last_step": self.last_step,
            "text": self.text,
            "time": self.time,
        }

    @classmethod
    def from_json(cls, value: Json) -> Self:
        reader = opened(value, cls.KIND, cls.SCHEMA)
        return cls(
            about=reader.text("about"),
            digest=reader.optional("digest", reader.digest),
            incident=_kind(reader),
            first_step=reader.optional("first_step", reader.integer),
            last_step=reader.optional("last_step", reader.integer),
            text=reader.text("text"),
            time=reader.text("time"),
            extra=reader.rest(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An incident as it is shown: told by a record (``automatic`` is False) or by an execution, named by ``origin``."""

    origin: Digest
    automatic: bool
    incident: str
    about: str
    first_step: int | None
    last_step: int | None
    text: str
    time: str

    @property
    def steps(self) -> str:
        """Its steps as they are typed; empty when it has none."""
        if self.first_step is None:
            return ""
        return str(self.first_step) if self.first_step == self.last_step else f"{self.first_step}:{self.last_step}"

    @property
    def label(self) -> str:
        """Kind and steps in a few words."""
        return f"{self.incident} {self.steps}".strip()

    def to_json(self) -> dict[str, Json]:
        """The event as plain facts."""
        return {
            "origin": str(self.origin),
            "automatic": self.automatic,
            "incident": self.incident,
            "about": self.about,
            "first_step": self.first_step,
            "last_step": self.last_step,
            "text": self.text,
            "time": self.time,
        }

    def meets(self, steps: range) -> bool:
        """Whether it is about some of these steps. What has no steps meets none."""
        if self.first_step is None or self.last_step is None:
            return False
        return self.first_step < steps.stop and steps.start <= self.last_step


@dataclass(frozen=True, slots=True, kw_only=True)
class Incidents:
    """All incidents of an archive, oldest first, and what is wrong with records that cannot be read."""

    records: tuple[tuple[Digest, Incident], ...] = ()
    events: tuple[Event, ...] = ()
    damages: tuple[str, ...] = ()

    @classmethod
    def build(cls, raw: RawRecords, ledger: Ledger) -> Self:
        """Index raw records and the incidents of executions. One bad record hides no other."""
        records, damages = read_each(raw, Incident.from_json)
        told = [_event(digest, one) for digest, one in records]
        seen = [event for digest, one in ledger.executions.items() for event in _automatic(digest, one.to_json())]
        events = sorted({*told, *seen}, key=lambda event: (event.time, event.first_step or 0, str(event.origin)))
        return cls(
            records=tuple(sorted(records, key=lambda pair: (pair[1].time, pair[0]))),
            events=tuple(events),
            damages=damages,
        )

    def of(self, stage: str, steps: range | None = None, *, family: bool = False) -> tuple[Event, ...]:
        """What is about a stage, its artifacts, or the run that it belongs to; with ``steps``, only what meets them.

        With ``family``, what is about its segments too.
        """
        mine = (
            event for event in self.events if belongs(event.about, stage) or (family and belongs(stage, event.about))
        )
        return tuple(event for event in mine if steps is None or event.first_step is None or event.meets(steps))

    def at(self, stage: str, step: int) -> tuple[Event, ...]:
        """What is about one step of a stage."""
        return tuple(event for event in self.of(stage) if event.meets(range(step, step + 1)))


def belongs(about: str, name: str) -> bool:
    """Whether ``about`` names the stage of ``name``, an artifact or file of it, or the run that it is a segment of."""
    named, stage = Name.parse(about).stage, Name.parse(name).stage
    return named == stage or stage.startswith(f"{named}/")


def _event(digest: Digest, one: Incident) -> Event:
    return Event(
        origin=digest,
        automatic=False,
        incident=one.incident.value,
        about=one.about,
        first_step=one.first_step,
        last_step=one.last_step,
        text=one.text,
        time=one.time,
    )


def _automatic(digest: Digest, execution: Mapping[str, Json]) -> Iterator[Event]:
    """The incidents that an execution tells of itself. Odd facts are left out: ``verify`` is what looks at form."""
    told, stage, started = execution.get("incidents"), execution.get("stage"), execution.get("started")
    for one in told if isinstance(told, list) else ():
        values = [one.get(name) for name in ("kind", "text")] if isinstance(one, Mapping) else [None]
        steps = [one.get(name) for name in ("first_step", "last_step")] if isinstance(one, Mapping) else [None]
        texts = [value for value in values if isinstance(value, str)]
        numbers = [value for value in steps if isinstance(value, int) and not isinstance(value, bool)]
        if len(texts) == len(numbers) == 2 and isinstance(stage, str) and isinstance(started, str):
            yield Event(
                origin=digest,
                automatic=True,
                incident=texts[0],
                about=stage,
                first_step=numbers[0],
                last_step=numbers[1],
                text=texts[1],
                time=started,
            )


def _kind(reader: Reader) -> Kind:
    text = reader.text("incident")
    if text not in set(Kind):
        raise MalformedRecord(f"{text!r} is no kind of incident; known are {', '.join(Kind)}.")
    return Kind(text)


def _printable(char: str) -> bool:
    return char.isprintable() or char in "\n\t"
