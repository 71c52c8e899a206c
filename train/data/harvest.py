"""From wheels to documents: read, clean, measure, and drop what is no document or was seen before.

Domains differ in what they take from a wheel: ``source`` takes its files as they are, ``prose`` takes docstrings, pages
of documentation and the project's description. Every member that gives no document is reported with its reason.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

from registry.core.canonical import Json
from registry.core.documents import Document, Drop, document_id, normalised
from registry.errors import Refused
from train.data import prose
from train.data.wheels import Wheel, members, wheel_metadata
from train.settings import text, texts, whole

_CODE = (".py",)
_PAGES = (".rst", ".md", ".txt")
_DESCRIPTION = "METADATA"
# No text: encoded data, mostly. Levanter cuts runs of 25,000 before it encodes them, which changes tokens.
_RUN = re.compile(r"\S{10000}|\s{10000}")


class Take(StrEnum):
    """What a domain takes from a wheel."""

    SOURCE = "source"
    PROSE = "prose"


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainSettings:
    """How one domain reads its wheels. ``skip`` holds names of folders that are left out."""

    domain: str
    take: Take
    skip: tuple[str, ...]

    @classmethod
    def read(cls, domain: str, settings: Mapping[str, Json]) -> Self:
        """Read one domain's settings. Raises ``Refused`` when they are malformed."""
        take = text(settings, "take")
        if take not in set(Take):
            raise Refused(f"The domain {domain!r} takes {take!r}.", remedy=f"Take one of {', '.join(Take)}.")
        return cls(domain=domain, take=Take(take), skip=texts(settings, "skip"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Length of a document in bytes of UTF-8, and of a docstring in characters, from ``params.yaml``."""

    minimum_bytes: int
    maximum_bytes: int
    docstring_characters: int

    @classmethod
    def read(cls, settings: Mapping[str, Json]) -> Self:
        """Read the bounds. Raises ``Refused`` when they are malformed."""
        minimum = whole(settings, "minimum_bytes", least=1)
        return cls(
            minimum_bytes=minimum,
            maximum_bytes=whole(settings, "maximum_bytes", least=minimum),
            docstring_characters=whole(settings, "docstring_characters"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """A member that gave no document. ``same_as`` names the document that has its text, for a duplicate."""

    domain: str
    source: str
    path: str
    reason: Drop
    same_as: str | None

    def to_json(self) -> dict[str, Json]:
        """The drop as a JSON object."""
        return {
            "domain": self.domain,
            "source": self.source,
            "path": self.path,
            "reason": self.reason,
            "same_as": self.same_as,
        }


@dataclass(slots=True, kw_only=True)
class Harvest:
    """Documents by id, in the order in which they came, and what was dropped."""

    documents: dict[str, Document] = field(default_factory=dict)
    dropped: list[Dropped] = field(default_factory=list)

    def offer(self, wheel: Wheel, path: str, found: str | Drop, bounds: Bounds) -> None:
        """Keep ``found`` as a document unless it is a drop, out of bounds or already here."""
        reason = found if isinstance(found, Drop) else _measured(found, bounds)
        if reason is None:
            identity = document_id(found)
            kept = self.documents.get(identity)
            if kept is None:
                self.documents[identity] = _document(wheel, path, found, identity)
                return
            self._drop(wheel, path, Drop.DUPLICATE, f"{kept.source}:{kept.path}")
        else:
            self._drop(wheel, path, reason, None)

    def _drop(self, wheel: Wheel, path: str, reason: Drop, same_as: str | None) -> None:
        drop = Dropped(domain=wheel.domain, source=wheel.name, path=path, reason=reason, same_as=same_as)
        self.dropped.append(drop)


def gather(harvest: Harvest, wheel: Wheel, archive: zipfile.ZipFile, settings: DomainSettings, bounds: Bounds) -> None:
    """Offer every document of one wheel to ``harvest``, in the order of the paths."""
    for path, found in _texts(wheel, archive, settings, bounds):
        harvest.offer(wheel, path, found, bounds)


def tally(items: Iterable[str]) -> dict[str, Json]:
    """How often each item occurs, by name."""
    counts: dict[str, int] = {}
    for item in items:
        counts[item] = counts.get(item, 0) + 1
    return {name: counts[name] for name in sorted(counts)}


def _texts(
    wheel: Wheel, archive: zipfile.ZipFile, settings: DomainSettings, bounds: Bounds
) -> Iterator[tuple[str, str | Drop]]:
    for path, data in members(archive, _CODE, settings.skip):
        found = normalised(data)
        if settings.take is Take.PROSE and not isinstance(found, Drop):
            found = _docstrings(found, path, bounds)
        yield path, found
    if settings.take is Take.PROSE:
        for path, data in members(archive, _PAGES, settings.skip):
            yield path, normalised(data)
        yield _DESCRIPTION, _description(wheel, archive)


def _docstrings(source: str, path: str, bounds: Bounds) -> str | Drop:
    text_found = prose.docstrings(source, prose.module_name(path), bounds.docstring_characters)
    return Drop.UNPARSED if text_found is None else normalised(text_found.encode("utf-8", "surrogatepass"))


def _description(wheel: Wheel, archive: zipfile.ZipFile) -> str | Drop:
    payload = wheel_metadata(wheel, archive).get_payload(decode=True)
    return normalised(payload if isinstance(payload, bytes) else b"")


def _measured(found: str, bounds: Bounds) -> Drop | None:
    size = len(found.encode("utf-8"))
    if size < bounds.minimum_bytes:
        return Drop.SHORT
    if size > bounds.maximum_bytes:
        return Drop.LONG
    return Drop.RUN if _RUN.search(found) else None


def _document(wheel: Wheel, path: str, found: str, identity: str) -> Document:
    return Document(
        id=identity,
        source=wheel.name,
        version=wheel.version,
        path=path,
        licence=wheel.licence,
        domain=wheel.domain,
        text=found,
    )
