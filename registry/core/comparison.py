"""What differs between what is recorded and what is found: files of trees, tensors, facts, recipes.

Pure, and sorted by key, so that "the first differing" means the same on every host. Refuses nothing: a key that stands
on one side only is a difference like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from registry.core import canonical
from registry.core.canonical import Json
from registry.core.digests import FileEntry
from registry.core.records import Recipe
from registry.core.tensors import Leaf

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(Generic[T]):
    """A key with other values on the two sides; None where the key is absent."""

    key: str
    recorded: T | None
    found: T | None


class Part(StrEnum):
    """The parts of a recipe."""

    COMMAND = "command"
    SETTINGS = "settings"
    CODE = "code"
    INPUTS = "inputs"
    LOCK = "lock"
    DETERMINISM = "determinism"


def changes(recorded: Mapping[str, T], found: Mapping[str, T]) -> tuple[Change[T], ...]:
    """The keys whose values differ, sorted."""
    keys = sorted(recorded.keys() | found.keys())
    pairs = (Change(key=key, recorded=recorded.get(key), found=found.get(key)) for key in keys)
    return tuple(pair for pair in pairs if pair.recorded != pair.found)


def file_changes(recorded: Iterable[FileEntry], found: Iterable[FileEntry]) -> tuple[Change[FileEntry], ...]:
    """Files of two trees that differ in size or bytes or stand in one only, by path."""
    return changes({entry.path: entry for entry in recorded}, {entry.path: entry for entry in found})


def leaf_changes(recorded: Iterable[Leaf], found: Iterable[Leaf]) -> tuple[Change[Leaf], ...]:
    """Tensors that differ in dtype, shape or values or stand on one side only, by name."""
    return changes({leaf.name: leaf for leaf in recorded}, {leaf.name: leaf for leaf in found})


def fact_changes(recorded: Mapping[str, Json], found: Mapping[str, Json]) -> tuple[Change[str], ...]:
    """Facts that differ, by dotted key; values as canonical JSON, lists as one value."""
    return changes(dict(_flat(recorded)), dict(_flat(found)))


def recipe_changes(recorded: Recipe, found: Recipe) -> Mapping[Part, tuple[Change[str], ...]]:
    """The parts of a recipe that differ, with what differs in each."""
    parts = {
        Part.COMMAND: changes({"command": " ".join(recorded.command)}, {"command": " ".join(found.command)}),
        Part.SETTINGS: fact_changes(recorded.config, found.config),
        Part.CODE: changes(_code(recorded), _code(found)),
        Part.INPUTS: changes(_inputs(recorded), _inputs(found)),
        Part.LOCK: changes({"lock": str(recorded.lock)}, {"lock": str(found.lock)}),
        Part.DETERMINISM: fact_changes(recorded.determinism, found.determinism),
    }
    return {part: differing for part, differing in parts.items() if differing}


def _code(recipe: Recipe) -> dict[str, str]:
    return {file.path: str(file.blob) for file in recipe.source}


def _inputs(recipe: Recipe) -> dict[str, str]:
    return {one.name: str(one.digest) for one in recipe.inputs}


def _flat(facts: Mapping[str, Json], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in facts.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", canonical.encode(value).decode()
