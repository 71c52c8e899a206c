"""Programs by commit: one of them, two compared, where it changed in a history, and the record of an execution's.

Two commits that hold the same code, settings and lock are the same program without lowering it twice. Lowering runs
code. That of the working tree, and of the commit that is checked out, runs without asking; refuses to run any other
commit's, unless it is asked to or the user's allow-list covers it, as for a re-derivation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from registry.core.codec import record_bytes
from registry.core.digests import Digest, record_digest
from registry.core.ledger import Ledger
from registry.core.program import Asked, Lowered, Program, Programs, Relowered
from registry.core.programdiff import ProgramDiff, compare
from registry.core.records import Recipe
from registry.core.source import import_closure
from registry.core.writing import FORM
from registry.errors import ReckonError, Refused
from registry.ports import RecordStore

MODULE: Final = "train.program"
CODE: Final = ("train", "registry/__init__.py", "registry/core", "registry/errors.py")
SETTINGS: Final = ("params.yaml", "requirements.lock")
NONE: Final = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Two programs and how they differ."""

    before: Lowered
    after: Lowered
    diff: ProgramDiff

    @property
    def same(self) -> bool:
        """Whether both are one program."""
        return self.before.digest == self.after.digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A commit of a history: its program, or why there is none, and whether that is another than before it."""

    commit: str
    subject: str
    program: Digest | None
    reason: str
    changed: bool


class Lowerings(Protocol):
    """Steps of training as programs."""

    def lower(self, asked: Asked, commit: str | None) -> Lowered:
        """The step at a commit (40 hex), or as the working tree has it when None.

        Raises ``Refused`` for what cannot be lowered, ``OutsideFailed`` when lowering fails.
        """
        ...


class Versions(Protocol):
    """Commits by name, and the files that they hold."""

    def resolve(self, name: str) -> str:
        """The full id of a commit. Raises ``Refused`` for what is none."""
        ...

    def between(self, start: str, end: str, paths: Sequence[str]) -> Sequence[tuple[str, str]]:
        """Commits after ``start`` up to ``end`` that touch one of ``paths``, oldest first, with their first lines."""
        ...

    def files(self, commit: str, folders: Sequence[str]) -> Mapping[str, Digest]:
        """Git object ids of the files of a commit under ``folders``, by path."""
        ...

    def content(self, blob: Digest) -> bytes:
        """The bytes of a file by its object id."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Programmer:
    """Lowers steps. ``told`` hears of each lowering before it begins; ``anywhere`` allows any commit's code to run, and
    ``trusted`` gives the entry of the user's allow-list that covers a commit, or None."""

    lowerings: Lowerings
    versions: Versions
    told: Callable[[str], None]
    trusted: Callable[[str], str | None]
    anywhere: bool = False
    _known: dict[Digest, Lowered] = field(default_factory=dict)

    def lower(self, asked: Asked, commit: str | None) -> Lowered:
        """The step at a commit by any name of it; None means the working tree."""
        if commit is None:
            self.told(f"Lowering {asked.name} as it lies here …")
            return self.lowerings.lower(asked, None)
        full = self.admitted(commit)
        key = self._key(asked, full)
        if key not in self._known:
            self.told(f"Lowering {asked.name} at {full[:12]} …")
            self._known[key] = self.lowerings.lower(asked, full)
        return self._known[key]

    def admitted(self, commit: str) -> str:
        """The full id of a commit whose code may run. Raises ``Refused`` for one that nobody agreed to."""
        full = self.versions.resolve(commit)
        if not (self.anywhere or full == self.versions.resolve("HEAD") or self.trusted(full)):
            raise Refused(
                f"{commit} is not the commit that is checked out, and lowering runs its code.",
                remedy=f"Look at it, then add --yes, or allow it: git config --add reckon.trust {full[:12]}",
            )
        return full

    def compare(self, asked: Asked, before: str | None, after: str | None) -> Compared:
        """How the program of ``after`` differs from that of ``before``."""
        one, other = self.lower(asked, before), self.lower(asked, after)
        return Compared(before=one, after=other, diff=compare(one.flow, other.flow))

    def history(self, asked: Asked, start: str, end: str) -> Iterator[Moment]:
        """The commits from ``start`` to ``end`` that touch what a program is made from, ``start`` first.

        Raises ``Refused`` before anything runs when one of them may not.
        """
        first, last = self.versions.resolve(start), self.versions.resolve(end)
        before: Digest | None = None
        commits = ((first, ""), *self.versions.between(first, last, (*CODE, *SETTINGS)))
        for commit, _ in commits:
            self.admitted(commit)
        for commit, subject in commits:
            try:
                found, reason = self.lower(asked, commit).digest, ""
            except ReckonError as error:
                found, reason = None, error.message
            yield Moment(
                commit=commit,
                subject=subject,
                program=found,
                reason=reason,
                changed=commit != first and found is not None and found != before,
            )
            before = found or before

    def recorded(self, recipe: Digest, asked: Recipe, commit: str, records: RecordStore) -> tuple[Digest, Program]:
        """Lower what a recipe trains with at its commit, and keep the record."""
        one = self.lower(asked_of(asked), commit).record(recipe, commit)
        return records.put(Program.KIND, record_bytes(one)), one

    def _key(self, asked: Asked, commit: str) -> Digest:
        """What a program is a function of: the code that lowering can read, settings, lock, and what is asked."""
        files = self.versions.files(commit, (*CODE, *SETTINGS))
        own = {path: blob for path, blob in files.items() if path.endswith(".py")}
        try:
            closure: Sequence[str] = import_closure(
                MODULE, {path: self.versions.content(blob) for path, blob in own.items()}
            )
        except Refused:
            closure = sorted(own)
        rows = [[path, str(files[path])] for path in (*closure, *SETTINGS) if path in files]
        return record_digest([asked.name, asked.platform or NONE, asked.devices or 0, list(asked.mesh or ()), rows])


def asked_of(recipe: Recipe) -> Asked:
    """What to lower for the program that a recipe trains with."""
    platform, devices = recipe.determinism.get("platform"), recipe.determinism.get("devices")
    return Asked(
        name=recipe.stage,
        platform=platform if isinstance(platform, str) else None,
        devices=devices if isinstance(devices, int) else None,
    )


def trains(recipe: Recipe) -> bool:
    """Whether the recipe is of a stage that has a program: a rung or a segment."""
    return recipe.stage.startswith(("rung/", "hero/")) and bool(recipe.determinism)


def unrecorded(ledger: Ledger, programs: Programs, digests: Sequence[Digest]) -> Iterator[tuple[Digest, Recipe, str]]:
    """Recipe and commit of those complete, clean executions whose recipe trains and has no program yet."""
    seen: set[Digest] = set()
    for digest in digests:
        execution = ledger.executions.get(digest)
        recipe = None if execution is None else ledger.recipes.get(execution.recipe)
        if execution is None or recipe is None or not execution.witnesses or execution.revision.dirty:
            continue
        if trains(recipe) and execution.recipe not in {*programs.of_recipe, *seen}:
            seen.add(execution.recipe)
            yield execution.recipe, recipe, execution.revision.commit


def again(one: Program) -> Asked:
    """What to lower to check a record, its mesh included when it has all four axes."""
    names = ("replica_dcn", "data", "expert", "model")
    sizes = tuple(size for name in names if isinstance(size := one.mesh.get(name), int))
    return replace(one.asked, mesh=sizes if len(sizes) == len(names) and set(one.mesh) == set(names) else None)


def relowered(work: Programmer, one: Program, others: Sequence[str]) -> tuple[Relowered, ...]:
    """A recorded program lowered again: from its commit, from the working tree, and from other commits."""
    return tuple(_again(work, one, commit) for commit in dict.fromkeys((one.commit, None, *others)))


def _again(work: Programmer, one: Program, commit: str | None) -> Relowered:
    try:
        full = None if commit is None else work.versions.resolve(commit)
        found = work.lower(again(one), full)
    except ReckonError as error:
        return Relowered(commit=commit, program=None, form=FORM, libraries={}, reason=error.message)
    libraries = found.facts.get("libraries")
    return Relowered(
        commit=full,
        program=found.digest,
        form=FORM,
        libraries=libraries if isinstance(libraries, Mapping) else {},
        reason="",
    )
