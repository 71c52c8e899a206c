"""Programs: what is lowered, for what, and the record that says which program a recipe trains with.

A program record is a function of recipe, commit, platform, devices and libraries; recording it twice writes one file.
An execution's program is that of its recipe, so records from before there were programs stay as they are. Refuses
unknown schemas, a commit that is none, and forms of canonical text that are none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Self

from registry.core.canonical import Json
from registry.core.codec import Reader, opened
from registry.core.dataflow import Dataflow
from registry.core.digests import Digest
from registry.core.reading import RawRecords, read_each
from registry.core.writing import FORM, canonical_text, fingerprint, read_program
from registry.errors import MalformedRecord, Refused

PLATFORMS = ("cpu", "cuda")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A run by name (``d48``, ``rung/d48``, ``hero/2``, ``d6144``), and what its step is lowered for.

    None leaves it to the run: its own platform, number of devices and mesh. What devices of ``device_gigabytes`` times
    10**9 bytes cannot hold is not lowered.
    """

    name: str
    platform: str | None = None
    devices: int | None = None
    mesh: tuple[int, ...] | None = None
    device_gigabytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class Lowered:
    """A step that was lowered: StableHLO in MLIR's generic form, and what it was lowered for."""

    commit: str | None
    facts: Mapping[str, Json]
    mlir: str

    @cached_property
    def flow(self) -> Dataflow:
        """The program's dataflow."""
        return read_program(self.mlir)

    @cached_property
    def text(self) -> str:
        """The program's canonical text."""
        return canonical_text(self.flow)

    @cached_property
    def digest(self) -> Digest:
        """The program's fingerprint."""
        return fingerprint(self.text)

    @property
    def operations(self) -> int:
        """Operations of the dataflow, arguments among them."""
        return len(self.flow.nodes)

    def record(self, recipe: Digest | None, commit: str) -> Program:
        """The record of it. Raises ``Refused`` when what was lowered does not tell what a record needs."""
        told = Reader(self.facts, "what was lowered")
        return Program(
            stage=told.text("stage"),
            recipe=recipe,
            commit=commit,
            platform=told.text("platform"),
            devices=told.integer("devices"),
            mesh=told.mapping("mesh"),
            libraries=told.mapping("libraries"),
            form=FORM,
            program=self.digest,
            operations=self.operations,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The step of ``stage`` at ``commit``, lowered for ``platform`` on ``devices``, is the program ``program``.

    ``recipe`` is the recipe that it belongs to, None for a run that has none here. ``form`` is the form of canonical
    text that ``program`` is the SHA-256 of; fingerprints of different forms cannot be compared.
    """

    KIND: ClassVar[str] = "program"
    SCHEMA: ClassVar[int] = 1

    stage: str
    recipe: Digest | None
    commit: str
    platform: str
    devices: int
    mesh: Mapping[str, Json]
    libraries: Mapping[str, Json]
    form: int
    program: Digest
    operations: int
    extra: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not _COMMIT.fullmatch(self.commit) or self.form < 1 or self.devices < 1:
            raise MalformedRecord("A program needs a full commit, a form and a number of devices.")

    @property
    def kind(self) -> str:
        return self.KIND

    @property
    def asked(self) -> Asked:
        """What to lower to have it again."""
        return Asked(name=self.stage.removeprefix("published/"), platform=self.platform, devices=self.devices)

    def to_json(self) -> dict[str, Json]:
        return {
            **self.extra,
            "kind": self.KIND,
            "schema": self.SCHEMA,
            "stage": self.stage,
            "recipe": None if self.recipe is None else str(self.recipe),
            "commit": self.commit,
            "platform": self.platform,
            "devices": self.devices,
            "mesh": self.mesh,
            "libraries": self.libraries,
            "form": self.form,
            "program": str(self.program),
            "operations": self.operations,
        }

    @classmethod
    def from_json(cls, value: Json) -> Self:
        reader = opened(value, cls.KIND, cls.SCHEMA)
        return cls(
            stage=reader.text("stage"),
            recipe=reader.optional("recipe", reader.digest),
            commit=reader.text("commit"),
            platform=reader.text("platform"),
            devices=reader.integer("devices"),
            mesh=reader.mapping("mesh"),
            libraries=reader.mapping("libraries"),
            form=reader.integer("form"),
            program=reader.digest("program"),
            operations=reader.integer("operations"),
            extra=reader.rest(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Relowered:
    """What came of lowering a recorded program again, at a commit or (None) from the working tree.

    ``program`` is None when it could not be lowered, for ``reason``.
    """

    commit: str | None
    program: Digest | None
    form: int
    libraries: Mapping[str, Json]
    reason: str

    @property
    def where(self) -> str:
        """The code that was lowered, in words."""
        return "today's code" if self.commit is None else f"the code of {self.commit[:12]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """All program records by the recipe that they belong to; damaged ones are told in ``damages``."""

    of_recipe: Mapping[Digest, tuple[Program, ...]]
    damages: tuple[str, ...] = ()

    @classmethod
    def build(cls, raw: RawRecords) -> Self:
        """From the bytes of records, or what went wrong with them."""
        read, damages = read_each(raw, Program.from_json)
        found: dict[Digest, list[Program]] = {}
        for _, one in read:
            if one.recipe is not None:
                found.setdefault(one.recipe, []).append(one)
        ordered = {recipe: tuple(sorted(many, key=_order)) for recipe, many in found.items()}
        return cls(of_recipe=ordered, damages=tuple(f"the program record {damage}" for damage in damages))


def parse_mesh(text: str) -> tuple[int, ...]:
    """Four sizes such as ``11,1,64,1``. Raises ``Refused`` for anything else."""
    sizes = text.split(",")
    if len(sizes) != 4 or not all(size.isascii() and size.isdecimal() and 0 < len(size) < 6 for size in sizes):
        raise Refused(f"{text!r} is no mesh.", remedy="Write the sizes of replica_dcn,data,expert,model: 11,1,64,1.")
    return tuple(int(size) for size in sizes)


def _order(one: Program) -> tuple[str, int, str, str]:
    return one.platform, one.devices, one.commit, str(one.program)
