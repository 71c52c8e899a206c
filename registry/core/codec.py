"""Reading records field by field, with errors that say which field of what is wrong.

A :class:`Reader` wraps one JSON object. Each method takes a field once; ``rest`` gives the fields that nobody asked
for, which a record keeps and writes back. Refuses missing fields, wrong types and malformed digests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, Self, TypeVar

from registry.core import canonical
from registry.core.canonical import Json
from registry.core.digests import Digest, sha256
from registry.errors import MalformedRecord

T = TypeVar("T")


class Reader:
    """One object of a record, read field by field."""

    def __init__(self, value: Json, where: str) -> None:
        if not isinstance(value, Mapping):
            raise MalformedRecord(f"{where} must be an object, not {type(value).__name__}.")
        self._value = dict(value)
        self._where = where

    def raw(self, field: str) -> Json:
        """Take a field of any type. Raises ``MalformedRecord`` when it is missing."""
        if field not in self._value:
            raise MalformedRecord(f"{self._where} lacks the field {field!r}.")
        return self._value.pop(field)

    def text(self, field: str) -> str:
        """Take a string."""
        value = self.raw(field)
        if not isinstance(value, str):
            raise self._wrong(field, "a string")
        return value

    def integer(self, field: str) -> int:
        """Take an integer that is not negative."""
        value = self.raw(field)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self._wrong(field, "an integer, zero or more")
        return value

    def flag(self, field: str) -> bool:
        """Take a boolean."""
        value = self.raw(field)
        if not isinstance(value, bool):
            raise self._wrong(field, "true or false")
        return value

    def digest(self, field: str) -> Digest:
        """Take a digest."""
        return Digest.parse(self.text(field))

    def mapping(self, field: str) -> Mapping[str, Json]:
        """Take an object as it is."""
        value = self.raw(field)
        if not isinstance(value, Mapping):
            raise self._wrong(field, "an object")
        return value

    def optional(self, field: str, read: Callable[[str], T]) -> T | None:
        """Take a field that may be null, else with ``read`` (a method of this reader)."""
        if self._value.get(field, "missing") is None:
            self.raw(field)
            return None
        return read(field)

    def objects(self, field: str, read: Callable[[Reader], T]) -> tuple[T, ...]:
        """Take a list of objects, each read by ``read``."""
        items = self._items(field)
        return tuple(read(Reader(item, f"{self._where}, {field}[{index}]")) for index, item in enumerate(items))

    def object(self, field: str, read: Callable[[Reader], T]) -> T:
        """Take one object, read by ``read``."""
        return read(Reader(self.raw(field), f"{self._where}, {field}"))

    def texts(self, field: str) -> tuple[str, ...]:
        """Take a list of strings."""
        items = self._items(field)
        if not all(isinstance(item, str) for item in items):
            raise self._wrong(field, "a list of strings")
        return tuple(str(item) for item in items)

    def rest(self) -> Mapping[str, Json]:
        """The fields that nobody took: kept and written back."""
        return self._value

    def close(self) -> None:
        """Refuse fields that nobody took, where an object has no room for them."""
        if self._value:
            raise MalformedRecord(f"{self._where} has unknown fields: {', '.join(sorted(self._value))}.")

    def _items(self, field: str) -> Sequence[Json]:
        value = self.raw(field)
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise self._wrong(field, "a list")
        return value

    def _wrong(self, field: str, wanted: str) -> MalformedRecord:
        return MalformedRecord(f"{self._where}: the field {field!r} must be {wanted}.")


class Record(Protocol):
    """What every record can do: be told apart by kind, and be written as canonical bytes."""

    @property
    def kind(self) -> str:
        """The kind inside the hashed bytes, such as ``recipe``."""
        ...

    def to_json(self) -> Mapping[str, Json]:
        """The whole record as a JSON object, ``kind`` and ``schema`` included."""
        ...

    @classmethod
    def from_json(cls, value: Json) -> Self:
        """Read the record. Raises ``MalformedRecord``."""
        ...


def opened(value: Json, kind: str, schema: int) -> Reader:
    """Check ``kind`` and ``schema`` of a record and return a reader of its other fields.

    Raises ``MalformedRecord`` for another kind or an unknown schema.
    """
    reader = Reader(value, f"the {kind} record")
    found = reader.text("kind")
    if found != kind:
        raise MalformedRecord(f"A {kind} record was expected and a {found!r} record found.")
    version = reader.integer("schema")
    if version != schema:
        raise MalformedRecord(
            f"This {kind} record has schema {version}; this version of reckon reads schema {schema}.",
            remedy="Use a version of reckon that knows it; nothing was changed.",
        )
    return reader


def record_bytes(record: Record) -> bytes:
    """Canonical bytes of a record: what is hashed and what stands in its file."""
    return canonical.encode(record.to_json())


def name_of(record: Record) -> Digest:
    """The digest that names a record."""
    return sha256(record_bytes(record))
