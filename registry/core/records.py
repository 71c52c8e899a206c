"""Recipe, product, execution and environment: the records that every stage leaves.

A recipe is what was asked, a product what came out; both are deterministic. An execution is one attempt, with
everything that has a clock, a host or a run id. Refuses unknown schemas; keeps unknown fields and writes them back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Self

from registry.core.canonical import Json
from registry.core.codec import Reader, opened
from registry.core.digests import Digest
from registry.errors import MalformedRecord


class Outcome(StrEnum):
    """How an attempt ended."""

    COMPLETE = "complete"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """What a stage was given: a file or folder by its digest, and the stage whose output it is."""

    name: str
    path: str
    digest: Digest

    def to_json(self) -> dict[str, Json]:
        return {"name": self.name, "path": self.path, "digest": str(self.digest)}

    @classmethod
    def read(cls, reader: Reader) -> Self:
        one = cls(name=reader.text("name"), path=reader.text("path"), digest=reader.digest("digest"))
        reader.close()
        return one


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """One code file that a stage can read, by git's object id."""

    path: str
    blob: Digest

    def to_json(self) -> dict[str, Json]:
        return {"path": self.path, "blob": str(self.blob)}

    @classmethod
    def read(cls, reader: Reader) -> Self:
        one = cls(path=reader.text("path"), blob=reader.digest("blob"))
        reader.close()
        return one


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What was asked: enough to ask it again."""

    KIND: ClassVar[str] = "recipe"
    SCHEMA: ClassVar[int] = 1

    stage: str
    command: tuple[str, ...]
    config: Mapping[str, Json]
    source: tuple[SourceFile, ...]
    lock: Digest
    inputs: tuple[Input, ...]
    determinism: Mapping[str, Json]
    extra: Mapping[str, Json] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        return self.KIND

    def to_json(self) -> dict[str, Json]:
        return {
            **self.extra,
            "kind": self.KIND,
            "schema": self.SCHEMA,
            "stage": self.stage,
            "command": list(self.command),
            "config": self.config,
            "source": [one.to_json() for one in self.source],
            "lock": str(self.lock),
            "inputs": [one.to_json() for one in self.inputs],
            "determinism": self.determinism,
        }

    @classmethod
    def from_json(cls, value: Json) -> Self:
        reader = opened(value, cls.KIND, cls.SCHEMA)
        return cls(
            stage=reader.text("stage"),
            command=reader.texts("command"),
            config=reader.mapping("config"),
            source=reader.objects("source", SourceFile.read),
            lock=reader.digest("lock"),
            inputs=reader.objects("inputs", Input.read),
            determinism=reader.mapping("determinism"),
            extra=reader.rest(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """One artifact that came out: its bytes by digest, and identities that do not depend on the container."""

    name: str
    path: str
    digest: Digest
    size_bytes: int
    files: int
    contents: Mapping[str, Json]
    locator: str | None

    def to_json(self) -> dict[str, Json]:
        return {
            "name": self.name,
            "path": self.path,
            "digest": str(self.digest),
            "size_bytes": self.size_bytes,
            "files": self.files,
            "contents": self.contents,
            "locator": self.locator,
        }

    @classmethod
    def read(cls, reader: Reader) -> Self:
        one = cls(
            name=reader.text("name"),
            path=reader.text("path"),
            digest=reader.digest("digest"),
            size_bytes=reader.integer("size_bytes"),
            files=reader.integer("files"),
            contents=reader.mapping("contents"),
            locator=reader.optional("locator", reader.text),
        )
        reader.close()
        return one


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """What came out of a recipe: the outputs, the stage's own first, then its kept checkpoints by step."""

    KIND: ClassVar[str] = "product"
    SCHEMA: ClassVar[int] = 1

    stage: str
    recipe: Digest
    outputs: tuple[Output, ...]
    extra: Mapping[str, Json] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        return self.KIND

    def to_json(self) -> dict[str, Json]:
        return {
            **self.extra,
            "kind": self.KIND,
            "schema": self.SCHEMA,
            "stage": self.stage,
            "recipe": str(self.recipe),
            "outputs": [one.to_json() for one in self.outputs],
        }

    @classmethod
    def from_json(cls, value: Json) -> Self:
        reader = opened(value, cls.KIND, cls.SCHEMA)
        return cls(
            stage=reader.text("stage"),
            recipe=reader.digest("recipe"),
            outputs=reader.objects("outputs", Output.read),
            extra=reader.rest(),
        )

    def output(self, name: str) -> Output | None:
        """The output of that name, or None."""
        return next((one for one in self.outputs if one.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """Where the code stood: the commit, its tree, and the digest of the uncommitted patch (None when clean)."""

    commit: str
    tree: str
    patch: Digest | None

    def to_json(self) -> dict[str, Json]:
        return {"commit": self.commit, "tree": self.tree, "patch": None if self.patch is None else str(self.patch)}

    @classmethod
    def read(cls, reader: Reader) -> Self:
        one = cls(commit=reader.text("commit"), tree=reader.text("tree"), patch=reader.optional("patch", reader.digest))
        reader.close()
        return one

    @property
    def dirty(self) -> bool:
        """Whether code ran that no commit holds."""
        return self.patch is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """One attempt of a recipe: who, where, when, from where it resumed, and how it ended."""

    KIND: ClassVar[str] = "execution"
    SCHEMA: ClassVar[int] = 1

    stage: str
    attempt: str
    recipe: Digest
    product: Digest | None
    outcome: Outcome
    cause: Mapping[str, Json] | None
    steps: Mapping[str, Json] | None
    resumed: Mapping[str, Json] | None
    parent: Mapping[str, Json] | None
    revision: Revision
    host: Mapping[str, Json]
    started: str
    ended: str | None
    environment: Digest | None
    trackers: tuple[Mapping[str, Json], ...]
    incidents: tuple[Mapping[str, Json], ...]
    hypothesis: Mapping[str, Json] | None
    extra: Mapping[str, Json] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        return self.KIND

    def to_json(self) -> dict[str, Json]:
        return {
            **self.extra,
            "kind": self.KIND,
            "schema": self.SCHEMA,
            "stage": self.stage,
            "attempt": self.attempt,
            "recipe": str(self.recipe),
            "product": None if self.product is None else str(self.product),
            "outcome": self.outcome.value,
            "cause": self.cause,
            "steps": self.steps,
            "resumed": self.resumed,
            "parent": self.parent,
            "revision": self.revision.to_json(),
            "host": self.host,
            "started": self.started,
            "ended": self.ended,
            "environment": None if self.environment is None else str(self.environment),
            "trackers": list(self.trackers),
            "incidents": list(self.incidents),
            "hypothesis": self.hypothesis,
        }

    @classmethod
    def from_json(cls, value: Json) -> Self:
        reader = opened(value, cls.KIND, cls.SCHEMA)
        return cls(
            stage=reader.text("stage"),
            attempt=reader.text("attempt"),
            recipe=reader.digest("recipe"),
            product=reader.optional("product", reader.digest),
            outcome=_outcome(reader.text("outcome")),
            cause=reader.optional("cause", reader.mapping),
            steps=reader.optional("steps", reader.mapping),
            resumed=reader.optional("resumed", reader.mapping),
            parent=reader.optional("parent", reader.mapping),
            revision=reader.object("revision", Revision.read),
            host=reader.mapping("host"),
            started=reader.text("started"),
            ended=reader.optional("ended", reader.text),
            environment=reader.optional("environment", reader.digest),
            trackers=reader.objects("trackers", Reader.rest),
            incidents=reader.objects("incidents", Reader.rest),
            hypothesis=reader.optional("hypothesis", reader.mapping),
            extra=reader.rest(),
        )

    @property
    def witnesses(self) -> bool:
        """Whether this attempt speaks for its product: it ran to the end here, nothing was restored from a cache."""
        return self.outcome is Outcome.COMPLETE and self.product is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What was imported: distributions with the digest of their RECORD, Python, platform, accelerator."""

    KIND: ClassVar[str] = "environment"
    SCHEMA: ClassVar[int] = 1

    python: str
    platform: Mapping[str, Json]
    accelerator: Mapping[str, Json]
    distributions: tuple[Mapping[str, Json], ...]
    extra: Mapping[str, Json] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        return self.KIND

    def to_json(self) -> dict[str, Json]:
        return {
            **self.extra,
            "kind": self.KIND,
            "schema": self.SCHEMA,
            "python": self.python,
            "platform": self.platform,
            "accelerator": self.accelerator,
            "distributions": list(self.distributions),
        }

    @classmethod
    def from_json(cls, value: Json) -> Self:
        reader = opened(value, cls.KIND, cls.SCHEMA)
        return cls(
            python=reader.text("python"),
            platform=reader.mapping("platform"),
            accelerator=reader.mapping("accelerator"),
            distributions=reader.objects("distributions", Reader.rest),
            extra=reader.rest(),
        )


def _outcome(text: str) -> Outcome:
    if text not in set(Outcome):
        raise MalformedRecord(f"{text!r} is not an outcome; known are {', '.join(Outcome)}.")
    return Outcome(text)
