"""What a lineage was made of in the end: the packages and data sets that its first stages were asked to fetch.

A recipe states a material as an object with ``name``, ``version``, ``sha256`` and ``licence`` (an SPDX id) anywhere in
its settings. Refuses nothing itself: a material without a licence, and a first stage that states none, are told, and a
release refuses them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from registry.core.audit.evidence import Node
from registry.core.canonical import Json
from registry.core.records import Recipe

_HEX = re.compile(r"[0-9a-f]{64}")
_LICENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]*(?: (?:AND|OR|WITH) [A-Za-z0-9][A-Za-z0-9.+-]*)*")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Material:
    """One package or data set. ``licence`` is None where the recipe states none."""

    name: str
    version: str
    sha256: str
    licence: str | None
    domain: str | None


def materials(recipe: Recipe) -> tuple[Material, ...]:
    """The materials that a recipe states, sorted by name."""
    return tuple(sorted(set(_found(recipe.config)), key=lambda one: (one.name, one.version, one.sha256)))


def unlicensed(nodes: Sequence[Node]) -> tuple[str, ...]:
    """A sentence for every material without a licence, and for every first stage that states no material."""
    found = []
    for node in nodes:
        stated = () if node.recipe is None else materials(node.recipe)
        found += [
            f"{node.label} takes {one.name} {one.version} and states no licence of it."
            for one in stated
            if not one.licence
        ]
        if not node.links and not stated:
            found.append(f"{node.label} was made from nothing on record and states no source with a licence.")
    return tuple(found)


def _found(value: Json) -> Iterator[Material]:
    if isinstance(value, Mapping):
        name, version, digest = (value.get(key) for key in ("name", "version", "sha256"))
        if isinstance(name, str) and isinstance(digest, str) and _HEX.fullmatch(digest):
            yield Material(
                name=name,
                version=version if isinstance(version, str) else "",
                sha256=digest,
                licence=_licence(value.get("licence")),
                domain=_text(value.get("domain")),
            )
        else:
            for one in value.values():
                yield from _found(one)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for one in value:
            yield from _found(one)


def _licence(value: Json) -> str | None:
    return value if isinstance(value, str) and _LICENCE.fullmatch(value) else None


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) else None
