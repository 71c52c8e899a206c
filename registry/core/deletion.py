"""The plan of a clean-up: what goes, what stays and why, how much it frees, and what must not be lost.

Pure: places were looked at by somebody else. One rule stands above all others: a file that is reached loses no copy
unless another copy, whose bytes were hashed, stays. Refuses nothing; in doubt a thing stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from registry.core.digests import Digest
from registry.core.reaching import Reason


class Place(StrEnum):
    """Where bytes lie that a clean-up may take away."""

    CACHE = "cache"
    REMOTE = "remote"
    SCRATCH = "scratch"
    RUNS = "runs"
    LEFTOVER = "leftover"


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A regular file: its path in the archive, size, identity on the disk, and number of names that it has there."""

    path: str
    size_bytes: int
    inode: tuple[int, int]
    names: int
    modified_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What goes or stays as one: an object of a store, or a folder of scratch or of an attempt, with all its files.

    ``name`` is what it is: an object's md5, a stage's folder, an attempt. ``path`` lies in the archive. ``modified_ns``
    is when anything in it last changed.
    """

    place: Place
    name: str
    path: str
    files: tuple[File, ...]
    modified_ns: int

    @property
    def size_bytes(self) -> int:
        """The bytes of its files."""
        return sum(file.size_bytes for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Going:
    """A unit that may go, what it was part of, and why nothing needs it."""

    unit: Unit
    what: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Staying:
    """A unit that stays, what it is part of, on what ground, and why."""

    unit: Unit
    what: str
    ground: str
    why: str


Fate: TypeAlias = Going | Staying


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """A recorded file that is reached: of which artifact, and why."""

    what: str
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What a clean-up would take away. ``freed_bytes`` counts no file that keeps another name on the disk."""

    units: int
    files: int
    size_bytes: int
    freed_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What goes and what stays, in the order of places and paths, and what was left alone."""

    going: tuple[Going, ...]
    staying: tuple[Staying, ...]
    notes: tuple[str, ...]

    @property
    def forecast(self) -> Forecast:
        """Everything that goes, together."""
        return forecast(one.unit for one in self.going)


HasCopy: TypeAlias = Callable[[Digest, Set[str]], bool]
"""Whether a file of these bytes lies, hashed now, in a place outside of the given paths."""

HashFile: TypeAlias = Callable[[str], Digest]
"""The SHA-256 of a file in the archive."""


def spare(
    fates: Sequence[Fate], needed: Mapping[Digest, Needed], sizes: frozenset[int], look: tuple[HashFile, HasCopy]
) -> list[Fate]:
    """Keep what is the last copy of anything that is needed.

    Only files of a size that a needed one has are hashed. A unit stays when one of its files is needed and no other
    copy stays; of several copies that would all go, the first in the order of ``fates`` stays.
    """
    hash_file, has_copy = look
    decided: list[Fate] = []
    saved: set[Digest] = set()
    leaving = {file.path for fate in fates if isinstance(fate, Going) for file in fate.unit.files}
    for fate in fates:
        held = [hash_file(file.path) for file in fate.unit.files if file.size_bytes in sizes] if _goes(fate) else []
        last = next((one for one in held if one in needed and one not in saved and not has_copy(one, leaving)), None)
        if last is None:
            decided.append(fate)
            continue
        leaving -= {file.path for file in fate.unit.files}
        saved.update(held)
        why = f"it is the last copy of {needed[last].what}, which stays: {needed[last].reason.why}"
        ground = needed[last].reason.ground.value
        decided.append(Staying(unit=fate.unit, what=fate.what, ground=ground, why=why))
    return decided


def _goes(fate: Fate) -> bool:
    return isinstance(fate, Going)


def forecast(units: Iterable[Unit]) -> Forecast:
    """How much units hold, and how much of it becomes free."""
    every = list(units)
    files = [file for unit in every for file in unit.files]
    names: dict[tuple[int, int], int] = {}
    for file in files:
        names[file.inode] = names.get(file.inode, 0) + 1
    freed = {file.inode: file.size_bytes for file in files if names[file.inode] >= file.names}
    return Forecast(
        units=len(every),
        files=len(files),
        size_bytes=sum(file.size_bytes for file in files),
        freed_bytes=sum(freed.values()),
    )


def grouped(staying: Iterable[Staying]) -> Iterator[tuple[str, str, str, Place, Forecast]]:
    """What stays, together where artifact, ground, reason and place are the same."""
    found: dict[tuple[str, str, str, Place], list[Unit]] = {}
    for one in staying:
        found.setdefault((one.what, one.ground, one.why, one.unit.place), []).append(one.unit)
    for (what, ground, why, place), units in found.items():
        yield what, ground, why, place, forecast(units)
