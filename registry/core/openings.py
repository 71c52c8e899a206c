"""The opening of a stage: what was asked and where the code stood, written down before the stage runs.

It lies beside the run logs (it has a clock), so that an attempt which dies without a word can still be told with the
recipe and commit that it began with. Refuses unknown schemas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from registry.core.canonical import Json
from registry.core.codec import opened
from registry.core.digests import Digest
from registry.core.records import Revision


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """A stage was about to run ``recipe`` at ``revision``. ``time`` is UTC with microseconds."""

    KIND: ClassVar[str] = "opening"
    SCHEMA: ClassVar[int] = 1

    stage: str
    time: str
    recipe: Digest
    revision: Revision
    host: Mapping[str, Json]
    hypothesis: Mapping[str, Json] | None

    @property
    def kind(self) -> str:
        return self.KIND

    def to_json(self) -> dict[str, Json]:
        return {
            "kind": self.KIND,
            "schema": self.SCHEMA,
            "stage": self.stage,
            "time": self.time,
            "recipe": str(self.recipe),
            "revision": self.revision.to_json(),
            "host": self.host,
            "hypothesis": self.hypothesis,
        }

    @classmethod
    def from_json(cls, value: Json) -> Self:
        reader = opened(value, cls.KIND, cls.SCHEMA)
        one = cls(
            stage=reader.text("stage"),
            time=reader.text("time"),
            recipe=reader.digest("recipe"),
            revision=reader.object("revision", Revision.read),
            host=reader.mapping("host"),
            hypothesis=reader.optional("hypothesis", reader.mapping),
        )
        reader.close()
        return one


def opening_of(started: str, openings: Sequence[Opening]) -> Opening | None:
    """The last opening at or before the time ``started``: DVC runs one process of a stage at a time."""
    before = [opening for opening in openings if opening.time <= started]
    return max(before, key=lambda opening: opening.time, default=None)
