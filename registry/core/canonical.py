"""Canonical JSON: one value, one byte string (the form of RFC 8785, without floats).

Refuses what has two spellings: floats, integers beyond 2**53 (they do not survive other JSON readers), duplicate keys,
lone surrogates, and, when reading, any bytes that are not exactly what :func:`encode` would write.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from registry.errors import MalformedRecord

Json: TypeAlias = "bool | int | str | Sequence[Json] | Mapping[str, Json] | None"

LARGEST_INTEGER = 2**53 - 1
MAXIMUM_DEPTH = 32
MAXIMUM_BYTES = 16 * 2**20


def encode(value: Json) -> bytes:
    """Return the canonical bytes of ``value``: sorted keys, no blanks, UTF-8, no final newline.

    Raises ``MalformedRecord`` for a float, an integer beyond ±(2**53 - 1), a key that is not a string, a lone surrogate
    or a nesting deeper than ``MAXIMUM_DEPTH``.
    """
    ordered = _ordered(value, depth=0)
    text = json.dumps(ordered, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise MalformedRecord("A string holds half of a surrogate pair and has no UTF-8 form.") from error


def decode(data: bytes) -> Json:
    """Return the value whose canonical bytes are ``data``.

    Raises ``MalformedRecord`` when the bytes are too long (``MAXIMUM_BYTES``), not JSON, or not in canonical form.
    """
    if len(data) > MAXIMUM_BYTES:
        raise MalformedRecord(f"A record of {len(data)} bytes is over the limit of {MAXIMUM_BYTES}.")
    try:
        value: Json = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_without_duplicates,
            parse_float=_refuse_float,
            parse_constant=_refuse_float,
            parse_int=_parsed_integer,
        )
    except RecursionError as error:
        raise MalformedRecord("A record is nested too deeply.") from error
    except ValueError as error:
        raise MalformedRecord(f"Not JSON: {str(error)[:200]}.") from error
    if not _plainly_canonical(value, data) and encode(value) != data:
        raise MalformedRecord("The bytes are not in canonical form (key order, blanks or escapes differ).")
    return value


def _plainly_canonical(value: Json, data: bytes) -> bool:
    """A quick yes for plain ASCII: there the order of keys is that of their bytes, which the library knows."""
    if not data.isascii() or _depth(value) > MAXIMUM_DEPTH:
        return False
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return text.isascii() and text.encode("ascii") == data


def _depth(value: Json) -> int:
    """How deeply objects and lists are nested; a scalar is not."""
    level: list[Json] = [value]
    depth = -1
    while level:
        depth += 1
        inner: list[Json] = []
        for one in level:
            inner += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        level = [one for one in inner if isinstance(one, dict | list)] or ([None] if inner else [])
    return depth


def _ordered(value: Json, *, depth: int) -> Json:
    if depth > MAXIMUM_DEPTH:
        raise MalformedRecord(f"A record is nested deeper than {MAXIMUM_DEPTH} levels.")
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return _bounded(value)
    if isinstance(value, Mapping):
        return _ordered_object(value, depth)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return [_ordered(item, depth=depth + 1) for item in value]
    raise MalformedRecord(f"A {type(value).__name__} has no canonical form; write decimals as strings.")


def _ordered_object(value: Mapping[str, Json], depth: int) -> dict[str, Json]:
    for key in value:
        if not isinstance(key, str):
            raise MalformedRecord(f"An object key must be a string, not {type(key).__name__}.")
    return {key: _ordered(value[key], depth=depth + 1) for key in sorted(value, key=_utf16)}


def _utf16(key: str) -> bytes:
    """RFC 8785 sorts keys by UTF-16 code units."""
    return key.encode("utf-16-be", "surrogatepass")


def _bounded(value: int) -> int:
    if abs(value) > LARGEST_INTEGER:
        raise MalformedRecord(f"An integer of {value.bit_length()} bits is beyond 2**53 - 1; write it as a string.")
    return value


def _without_duplicates(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return unique


def _parsed_integer(text: str) -> int:
    return _bounded(int(text))


def _refuse_float(text: str) -> Json:
    raise ValueError(f"the number {text[:40]} is not an integer")
