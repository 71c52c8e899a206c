"""Reading many records of one kind, so that a bad one hides no other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias, TypeVar

from registry.core import canonical
from registry.core.canonical import Json
from registry.core.digests import Digest
from registry.errors import ReckonError

Record = TypeVar("Record")
RawRecords: TypeAlias = Iterable[tuple[Digest, bytes | ReckonError]]


def read_each(
    raw: RawRecords, read: Callable[[Json], Record]
) -> tuple[tuple[tuple[Digest, Record], ...], tuple[str, ...]]:
    """The records that ``read`` makes of their bytes, in the order given, and a sentence for each that is damaged.

    ``raw`` has digests with bytes, or with what went wrong in reading them.
    """
    found: list[tuple[Digest, Record]] = []
    damages: list[str] = []
    for digest, data in raw:
        try:
            if isinstance(data, ReckonError):
                raise data
            found.append((digest, read(canonical.decode(data))))
        except ReckonError as error:
            damages.append(f"{digest}: {error.message}")
    return tuple(found), tuple(damages)
