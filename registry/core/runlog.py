"""The run log: what one process of a stage tells while it runs, as ``run.jsonl`` (one canonical JSON object a line).

Pure: events to bytes and bytes to events. The reader takes every byte as hostile. It refuses files and lines over a
limit, lines that are not canonical, unknown events, wrong fields, a log that does not begin with ``started`` and
anything after ``finished``. A last line without its newline was torn by a kill: it is dropped and reported. Beside the
log a process notes in a file of fixed size which step it completed last; that claim outlives a kill, and is no event.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import ClassVar, TypeAlias, TypeVar, cast

from registry.core import canonical
from registry.core.canonical import Json
from registry.errors import MalformedRecord

MAXIMUM_BYTES = 64 * 2**20
MAXIMUM_LINE_BYTES = 4 * 2**20
MAXIMUM_EVENTS = 200_000

# The file beside the log that holds a mark, and the mark's size.
REACHED = "reached"
MARK_BYTES = 16

Facts: TypeAlias = dict[str, Json]

_ATTEMPT = re.compile(r"[0-9]{8}t[0-9]{6}z-[0-9a-f]{8}")
_STAGE = re.compile(r"[a-z0-9][a-z0-9_.-]*(/[a-z0-9][a-z0-9_.-]*)*")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z")
_MARK = re.compile(rb"[0-9]{15}\n")
_ROOT = re.compile(r"[a-z0-9]+:[0-9a-f]{32,128}")


class Outcome(StrEnum):
    """How a process says that it ended. A process that said nothing was interrupted."""

    COMPLETE = "complete"
    FAILED = "failed"


class TrackerState(StrEnum):
    """Whether a tracker took what it was given."""

    OK = "ok"
    OFFLINE = "offline"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The process began. ``resumed`` is null or ``{attempt, step}``, ``parent`` null or ``{name, step, root}``."""

    event: ClassVar[str] = "started"

    stage: str
    attempt: str
    time: str
    pid: int
    host: str
    argv: tuple[str, ...]
    settings: Facts
    determinism: Facts
    resumed: Facts | None
    parent: Facts | None
    unknown: Facts = field(default_factory=dict)

    def __post_init__(self) -> None:
        _require_match(_STAGE, self.stage, "a stage name")
        _require_match(_ATTEMPT, self.attempt, "an attempt name")
        _require_match(_TIME, self.time, "a UTC time with microseconds")
        _require_count(self.pid, "pid")
        if self.resumed is not None:
            _require_keys(self.resumed, {"attempt", "step"}, "resumed")
            _require_match(_ATTEMPT, self.resumed["attempt"], "an attempt name")
            _require_count(self.resumed["step"], "resumed.step")
        if self.parent is not None:
            _require_keys(self.parent, {"name", "step", "root"}, "parent")
            _require_match(_STAGE, self.parent["name"], "a stage name")
            _require_count(self.parent["step"], "parent.step")
            _require_match(_ROOT, self.parent["root"], "a tensor root")


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What was imported so far: ``distributions`` as ``{name, version, record}``; the last event of a log counts."""

    event: ClassVar[str] = "environment"

    distributions: tuple[Facts, ...]
    python: str
    platform: Facts
    accelerator: Facts
    unknown: Facts = field(default_factory=dict)

    def __post_init__(self) -> None:
        for distribution in self.distributions:
            _require_keys(distribution, {"name", "version", "record"}, "a distribution")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracker:
    """A tracker's state. ``location`` is relative to the attempt's folder, or an address of the tracker's own."""

    event: ClassVar[str] = "tracker"

    system: str
    state: TrackerState
    run_id: str | None
    location: str | None
    reason: str | None
    unknown: Facts = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A complete checkpoint after ``step`` updates. ``location`` is relative to the repository."""

    event: ClassVar[str] = "checkpoint"

    step: int
    location: str
    unknown: Facts = field(default_factory=dict)

    def __post_init__(self) -> None:
        _require_count(self.step, "step")
        _require_inside(self.location)


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """Something that training saw by itself, on the steps ``first_step`` to ``last_step`` (both included)."""

    event: ClassVar[str] = "incident"

    incident: str
    first_step: int
    last_step: int
    text: str
    unknown: Facts = field(default_factory=dict)

    def __post_init__(self) -> None:
        _require_count(self.first_step, "first_step")
        _require_count(self.last_step, "last_step")
        if self.last_step < self.first_step:
            raise MalformedRecord(f"An incident ends at step {self.last_step}, before step {self.first_step}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The process ended by its own word. ``cause`` is null or ``{error, message}``; ``step`` the last completed one."""

    event: ClassVar[str] = "finished"

    time: str
    outcome: Outcome
    cause: Facts | None
    step: int | None
    unknown: Facts = field(default_factory=dict)

    def __post_init__(self) -> None:
        _require_match(_TIME, self.time, "a UTC time with microseconds")
        if self.step is not None:
            _require_count(self.step, "step")
        if self.cause is not None:
            _require_keys(self.cause, {"error", "message"}, "cause")
        if (self.cause is None) != (self.outcome is Outcome.COMPLETE):
            raise MalformedRecord("A failed attempt has a cause, and a complete one has none.")


Event: TypeAlias = Started | Environment | Tracker | Checkpoint | Incident | Finished
Kind = TypeVar("Kind", Started, Environment, Tracker, Checkpoint, Incident, Finished)

_KINDS: dict[str, type[Event]] = {
    kind.event: kind for kind in (Started, Environment, Tracker, Checkpoint, Incident, Finished)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLog:
    """One attempt as it told itself. ``torn`` says that the last line had no end.

    ``noted`` is the step that the process noted beside its log, None where it noted none.
    """

    events: tuple[Event, ...]
    torn: bool
    noted: int | None = None

    @property
    def started(self) -> Started:
        """The first event."""
        return cast(Started, self.events[0])

    @property
    def finished(self) -> Finished | None:
        """The last event, if the process came so far."""
        last = self.events[-1]
        return last if isinstance(last, Finished) else None

    @property
    def environment(self) -> Environment | None:
        """The last word on what was imported."""
        told = self.of(Environment)
        return told[-1] if told else None

    @property
    def last_step(self) -> int | None:
        """The last completed step: of ``finished``, else as noted, kept or resumed from, whichever is the latest."""
        if self.finished is not None:
            return self.finished.step
        return max((step for step in (self.noted, self.kept_step) if step is not None), default=None)

    @property
    def kept_step(self) -> int | None:
        """The step of the last checkpoint, else of the one that it resumed from; None where there was neither."""
        steps = [checkpoint.step for checkpoint in self.of(Checkpoint)]
        if self.started.resumed is not None:
            steps.append(cast(int, self.started.resumed["step"]))
        return max(steps, default=None)

    def of(self, kind: type[Kind]) -> tuple[Kind, ...]:
        """All events of one kind, in their order."""
        return tuple(event for event in self.events if isinstance(event, kind))


def line(event: Event) -> bytes:
    """The canonical line of ``event``, with its newline."""
    facts: Facts = {"event": event.event, **event.unknown}
    for name in _names(type(event)):
        value = getattr(event, name)
        facts[name] = list(value) if isinstance(value, tuple) else value
    return canonical.encode(facts) + b"\n"


def mark(step: int) -> bytes:
    """The bytes that note a completed step; all marks are of one size, so each is written over the one before."""
    return b"%015d\n" % step


def marked(data: bytes) -> int | None:
    """The step that a mark notes; None for bytes that are no mark, such as a power cut leaves."""
    return int(data) if _MARK.fullmatch(data) else None


def parse(data: bytes) -> RunLog:
    """Read a whole ``run.jsonl``.

    Raises ``MalformedRecord`` with the line's number for anything that :func:`line` cannot have written, except a last
    line without newline, which is dropped and reported as ``torn``.
    """
    if len(data) > MAXIMUM_BYTES:
        raise MalformedRecord(f"A run log of {len(data)} bytes is over the limit of {MAXIMUM_BYTES}.")
    whole, _, rest = data.rpartition(b"\n")
    events = tuple(_events(whole)) if whole else ()
    if not events or not isinstance(events[0], Started):
        raise MalformedRecord("A run log must begin with the event 'started'.")
    if any(isinstance(event, Started) for event in events[1:]):
        raise MalformedRecord("A run log tells one attempt, but has two 'started' events.")
    if any(isinstance(event, Finished) for event in events[:-1]) or (rest and isinstance(events[-1], Finished)):
        raise MalformedRecord("A run log goes on after 'finished'.")
    return RunLog(events=events, torn=bool(rest))


def _events(data: bytes) -> Iterator[Event]:
    if data.count(b"\n") >= MAXIMUM_EVENTS:
        raise MalformedRecord(f"A run log has more than {MAXIMUM_EVENTS} events.")
    for number, text in enumerate(data.split(b"\n"), start=1):
        if len(text) > MAXIMUM_LINE_BYTES:
            raise MalformedRecord(f"Line {number} of a run log is over {MAXIMUM_LINE_BYTES} bytes.")
        try:
            yield _event(canonical.decode(text))
        except MalformedRecord as error:
            raise MalformedRecord(f"Line {number} of a run log is malformed: {error.message}") from error


def _event(value: Json) -> Event:
    if not isinstance(value, dict):
        raise MalformedRecord("an event must be an object.")
    facts = cast(Facts, dict(value))
    name = facts.pop("event", None)
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise MalformedRecord(f"the event {name!r} is not known.")
    known = _names(kind)
    missing = [key for key in known if key not in facts]
    if missing:
        raise MalformedRecord(f"the event {name!r} lacks {', '.join(missing)}.")
    arguments = {key: _typed(kind, key, facts.pop(key)) for key in known}
    if "unknown" in facts:
        raise MalformedRecord("the field name 'unknown' is reserved.")
    return kind(**arguments, unknown=facts)  # type: ignore[arg-type]


def _names(kind: type[Event]) -> tuple[str, ...]:
    return tuple(item.name for item in fields(kind) if item.name != "unknown")


_ENUMS: dict[str, type[StrEnum]] = {"Outcome": Outcome, "TrackerState": TrackerState}
_SCALARS: dict[str, type] = {"str": str, "int": int, "Facts": dict}
_ITEMS: dict[str, type] = {"tuple[str, ...]": str, "tuple[Facts, ...]": dict}


def _typed(kind: type[Event], name: str, value: Json) -> object:
    """``value`` as the annotation of the field demands. The annotations are few, so each is spelled out."""
    annotation = next(str(item.type) for item in fields(kind) if item.name == name)
    required = annotation.removesuffix(" | None")
    if value is None and required != annotation:
        return None
    if required in _ENUMS:
        return _member(_ENUMS[required], name, value)
    if required in _ITEMS:
        return _items(_ITEMS[required], name, value)
    if not isinstance(value, _SCALARS[required]) or isinstance(value, bool):
        raise MalformedRecord(f"{name} must be of the JSON type of {_SCALARS[required].__name__}.")
    return value


def _member(enum: type[StrEnum], name: str, value: Json) -> StrEnum:
    if value not in [str(member) for member in enum]:
        raise MalformedRecord(f"{name} cannot be {value!r}.")
    return enum(value)


def _items(item: type, name: str, value: Json) -> tuple[object, ...]:
    if not isinstance(value, list) or not all(isinstance(entry, item) for entry in value):
        raise MalformedRecord(f"{name} must be a list whose items are of the JSON type of {item.__name__}.")
    return tuple(value)


def _require_match(pattern: re.Pattern[str], value: object, what: str) -> None:
    if not isinstance(value, str) or len(value) > 256 or not pattern.fullmatch(value):
        raise MalformedRecord(f"{value!r} is not {what}.")


def _require_count(value: object, name: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise MalformedRecord(f"{name} must be a whole number that is not negative, not {value!r}.")


def _require_keys(value: Facts, keys: set[str], what: str) -> None:
    if set(value) != keys:
        raise MalformedRecord(f"{what} must have exactly the fields {', '.join(sorted(keys))}.")


def _require_inside(path: str) -> None:
    parts = path.split("/")
    if (
        not path
        or path.startswith("/")
        or "\\" in path
        or "\0" in path
        or any(part in ("", ".", "..") for part in parts)
    ):
        raise MalformedRecord(f"{path!r} is not a relative path that stays inside.")
