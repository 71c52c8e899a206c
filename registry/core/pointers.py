"""Pointer records: where a tracker speaks of an execution, or why it does not.

A pointer is never a lineage and never evidence; it lets a reader find the run. Its address holds no secret and no path
of a machine: it is refused otherwise, on the way in and out. Refuses unknown schemas; keeps unknown fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePosixPath
from typing import ClassVar, Self
from urllib.parse import unquote

from registry.core.canonical import Json
from registry.core.codec import Reader, opened
from registry.core.digests import Digest
from registry.core.reading import RawRecords, read_each
from registry.errors import MalformedRecord

ELSEWHERE = "outside-of-the-repository"
LONGEST_REASON = 500
_ON_DISK = frozenset({"", "file", "sqlite"})
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_HIDDEN = (
    (re.compile(r"\b((?:sqlite|file)[a-z+]*):/[^\s'\")]*"), r"\1:<path>"),
    (re.compile(r"//[^/\s]*@"), "//"),
    (re.compile(r"\?[^\s'\")]+"), ""),
    (re.compile(r"(?<![\w/.-])/[\w.+@-]+(?:/[\w.+@-]+)*/?"), "<path>"),
)


class PointerState(StrEnum):
    """Whether the tracker holds the execution."""

    OK = "ok"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class PointedModel:
    """A checkpoint in a tracker: its logged model, and the registered model and version if it stands for one."""

    checkpoint: str
    model_id: str
    name: str | None
    version: str | None

    def to_json(self) -> dict[str, Json]:
        return {
            "checkpoint": self.checkpoint,
            "model_id": self.model_id,
            "name": self.name,
            "version": self.version,
        }

    @classmethod
    def read(cls, reader: Reader) -> Self:
        one = cls(
            checkpoint=reader.text("checkpoint"),
            model_id=reader.text("model_id"),
            name=reader.optional("name", reader.text),
            version=reader.optional("version", reader.text),
        )
        reader.close()
        return one


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """Where a tracker holds an execution: its address without secrets, the run, the points and models that it has."""

    uri: str
    run_id: str
    points: int
    models: tuple[PointedModel, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointer:
    """One try at telling a tracker of an execution: ``uri`` and ``run_id`` say where, or ``reason`` says why not."""

    KIND: ClassVar[str] = "pointer"
    SCHEMA: ClassVar[int] = 1

    execution: Digest
    system: str
    state: PointerState
    uri: str | None
    run_id: str | None
    points: int
    models: tuple[PointedModel, ...]
    reason: str | None
    time: str
    extra: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        held = self.state is PointerState.OK
        if held != (self.run_id is not None and self.uri is not None) or held != (self.reason is None):
            raise MalformedRecord("A pointer either has an address and a run id, or a reason for having none.")
        if self.uri is not None and self.uri != public_uri(self.uri):
            raise MalformedRecord("The address of a pointer holds a secret or a path of a machine.")

    @property
    def kind(self) -> str:
        return self.KIND

    def to_json(self) -> dict[str, Json]:
        return {
            **self.extra,
            "kind": self.KIND,
            "schema": self.SCHEMA,
            "execution": str(self.execution),
            "system": self.system,
            "state": self.state.value,
            "uri": self.uri,
            "run_id": self.run_id,
            "points": self.points,
            "models": [one.to_json() for one in self.models],
            "reason": self.reason,
            "time": self.time,
        }

    @classmethod
    def from_json(cls, value: Json) -> Self:
        reader = opened(value, cls.KIND, cls.SCHEMA)
        return cls(
            execution=reader.digest("execution"),
            system=reader.text("system"),
            state=_state(reader.text("state")),
            uri=reader.optional("uri", reader.text),
            run_id=reader.optional("run_id", reader.text),
            points=reader.integer("points"),
            models=reader.objects("models", PointedModel.read),
            reason=reader.optional("reason", reader.text),
            time=reader.text("time"),
            extra=reader.rest(),
        )

    @property
    def published(self) -> Published | None:
        """Where the tracker holds the execution; None when it does not."""
        if self.uri is None or self.run_id is None:
            return None
        return Published(uri=self.uri, run_id=self.run_id, points=self.points, models=self.models)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointers:
    """All pointer records, oldest first, and what is wrong with those that cannot be read."""

    readable: tuple[Pointer, ...] = ()
    damages: tuple[str, ...] = ()

    @classmethod
    def build(cls, raw: RawRecords) -> Self:
        """Index raw records: (digest, bytes or what went wrong in reading them). One bad record hides no other."""
        found, damages = read_each(raw, Pointer.from_json)
        return cls(
            readable=tuple(one for _, one in sorted(found, key=lambda pair: (pair[1].time, pair[0]))), damages=damages
        )

    def of(self, execution: Digest, system: str) -> tuple[Pointer, ...]:
        """What was said of one execution in one tracker, oldest first."""
        return tuple(one for one in self.readable if one.execution == execution and one.system == system)

    def current(self, execution: Digest, system: str) -> Pointer | None:
        """The newest pointer that says that the tracker holds the execution, or None."""
        held = [one for one in self.of(execution, system) if one.state is PointerState.OK]
        return held[-1] if held else None


def pointer_to(execution: Digest, system: str, published: Published, time: str) -> Pointer:
    """The record of an execution that a tracker holds."""
    return Pointer(
        execution=execution,
        system=system,
        state=PointerState.OK,
        uri=published.uri,
        run_id=published.run_id,
        points=published.points,
        models=published.models,
        reason=None,
        time=time,
    )


def pointer_failed(execution: Digest, system: str, reason: str, time: str) -> Pointer:
    """The record of a tracker that did not take an execution. ``reason`` is scrubbed."""
    return Pointer(
        execution=execution,
        system=system,
        state=PointerState.FAILED,
        uri=None,
        run_id=None,
        points=0,
        models=(),
        reason=scrubbed(reason),
        time=time,
    )


def public_uri(uri: str, root: str | None = None) -> str:
    """``uri`` without user, password, query and fragment, and without a path of this machine.

    A store on disk is named relative to ``root`` (the repository, absolute) when it lies inside; else only its kind is
    told. A profile name (``databricks://name``) is a user's own and goes too. A relative path is kept.
    """
    match = _SCHEME.fullmatch(uri)
    scheme, rest = (match[1].lower(), match[2]) if match else ("", uri)
    if scheme.partition("+")[0] in _ON_DISK:
        return _on_disk(scheme, rest, root)
    if scheme.startswith("databricks") or not rest.startswith("//"):
        return scheme
    host, slash, path = re.split(r"[?#]", rest[2:], maxsplit=1)[0].partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def scrubbed(text: str, secrets: Iterable[str] = ()) -> str:
    """``text`` on one line of at most 500 characters, without ``secrets``, users, queries and absolute paths."""
    line = " ".join(text.split())
    for secret in secrets:
        line = line.replace(secret, "<secret>") if secret else line
    for pattern, instead in _HIDDEN:
        line = pattern.sub(instead, line)
    return line if len(line) <= LONGEST_REASON else line[: LONGEST_REASON - 1] + "…"


def _on_disk(scheme: str, rest: str, root: str | None) -> str:
    """SQLAlchemy's ``sqlite:///relative`` and ``sqlite:////absolute``; ``file:///absolute``; a bare path."""
    bare = unquote(rest.partition("?")[0].partition("#")[0])
    if scheme.startswith("sqlite"):
        head, path = f"{scheme}:///", bare.removeprefix("///")
    else:
        head = f"{scheme}:" if scheme else ""
        path = "/" + bare[2:].partition("/")[2] if bare.startswith("//") else bare
    pure = PurePosixPath(path)
    if root is not None and pure.is_relative_to(root):
        pure = pure.relative_to(root)
    inside = not pure.is_absolute() and ".." not in pure.parts and "@" not in path
    return f"{head}{pure.as_posix() if inside else ELSEWHERE}"


def _state(text: str) -> PointerState:
    if text not in set(PointerState):
        raise MalformedRecord(f"A pointer's state cannot be {text!r}.")
    return PointerState(text)
