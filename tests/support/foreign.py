"""The public record as the repository holds it, and small changes of it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from registry.core.adopted.document import read_document
from registry.core.adopted.judging import audit
from registry.core.adopted.shelf import Shelf
from registry.core.audit.judging import Audit
from registry.core.codec import name_of, record_bytes
from registry.core.names import Name

ROOT = Path(__file__).resolve().parents[2]
FACTS = ROOT / "registry/facts/marin.json"
TIME = "2026-11-30T19:00:00.000000Z"
Document = dict[str, Any]


def document() -> Document:
    """The document of facts, to be changed at will."""
    return copy.deepcopy(json.loads(FACTS.read_text(encoding="utf-8")))


def thing(told: Document, name: str) -> Document:
    """One thing of a document."""
    return next(one for one in told["things"] if one["name"] == name)


def shelf_of(*told: Document, times: tuple[str, ...] = (TIME,)) -> Shelf:
    """The shelf after adopting documents one after the other."""
    records = [
        record
        for at, one in enumerate(told)
        for record in read_document(json.dumps(one).encode(), times[min(at, len(times) - 1)])
    ]
    return Shelf.build((name_of(record), record_bytes(record)) for record in records)


def audited(told: Document, name: str = "marin/hero") -> Audit:
    """The audit of a thing of a document."""
    shelf = shelf_of(told)
    assert not shelf.damages
    return audit(shelf.thing(Name.parse(name)), shelf)


def changed(change: Callable[[Document], object], name: str = "marin/hero") -> Audit:
    """The audit after a change of the document."""
    told = document()
    change(told)
    return audited(told, name)


def against(audit: Audit) -> set[str]:
    """The ids of all edges that are contradicted."""
    return {edge.id for edge in audit.edges if edge.state.value == "contradicted"}


def missing(audit: Audit) -> set[str]:
    """The ids of all edges that are missing."""
    return {edge.id for edge in audit.edges if edge.state.value == "missing"}
