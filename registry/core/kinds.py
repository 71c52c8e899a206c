"""All kinds of record under ``manifests/`` and how each is read.

Refuses bytes that are not canonical, a kind that it does not know, and a record in the folder of another kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from registry.core import canonical
from registry.core.adopted.record import Adopted
from registry.core.attestation import Attestation
from registry.core.canonical import Json
from registry.core.codec import Record, record_bytes
from registry.core.forecast import Forecast
from registry.core.incidents import Incident
from registry.core.notices import Notice
from registry.core.pointers import Pointer
from registry.core.program import Program
from registry.core.publications import Publication
from registry.core.records import Environment, Execution, Product, Recipe
from registry.core.release import Release
from registry.core.retention import Retention
from registry.core.withheld import Withheld
from registry.errors import MalformedRecord

READERS: Mapping[str, Callable[[Json], Record]] = {
    Recipe.KIND: Recipe.from_json,
    Product.KIND: Product.from_json,
    Execution.KIND: Execution.from_json,
    Environment.KIND: Environment.from_json,
    Pointer.KIND: Pointer.from_json,
    Forecast.KIND: Forecast.from_json,
    Withheld.KIND: Withheld.from_json,
    Incident.KIND: Incident.from_json,
    Retention.KIND: Retention.from_json,
    Attestation.KIND: Attestation.from_json,
    Adopted.KIND: Adopted.from_json,
    Program.KIND: Program.from_json,
    Publication.KIND: Publication.from_json,
    Notice.KIND: Notice.from_json,
    Release.KIND: Release.from_json,
}

_FOLDERS: Mapping[str, str] = {Adopted.KIND: "adopted"}
_KINDS: Mapping[str, str] = {folder: kind for kind, folder in _FOLDERS.items()}


def folder_of(kind: str) -> str:
    """The folder of a kind below ``manifests/``: its plural, but for kinds that have none."""
    return _FOLDERS.get(kind, f"{kind}s")


def kind_in(folder: str) -> str | None:
    """The kind whose folder is called so; None when no kind's can be."""
    if folder in _KINDS:
        return _KINDS[folder]
    kind = folder.removesuffix("s")
    return kind if kind != folder and kind not in _FOLDERS else None


def read(kind: str, data: bytes) -> Record:
    """The record of that kind whose bytes are ``data``. Raises ``MalformedRecord``."""
    reader = READERS.get(kind)
    if reader is None:
        raise MalformedRecord(
            f"This version of reckon knows no records of the kind {kind!r}.",
            remedy="Use a version of reckon that knows them; nothing was changed.",
        )
    record = reader(canonical.decode(data))
    if record_bytes(record) != data:
        raise MalformedRecord(f"A {kind} record is not written back as it was read.")
    return record
