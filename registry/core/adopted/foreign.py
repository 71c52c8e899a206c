"""Bytes of somebody else as plain values: JSON with any spelling, flattened to quantities with texts.

A number stays the text that was printed, a float's too. Texts lose line ends, control characters, secrets in addresses
and paths of a machine. Long lists become their digest. Refuses files over a limit, keys that stand twice, deep nesting
and more facts than any record has.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final

from registry.core import canonical
from registry.core.adopted.claims import LONGEST, Claim
from registry.core.canonical import Json
from registry.core.digests import sha256
from registry.core.pointers import scrubbed
from registry.errors import MalformedRecord

LARGEST_BYTES: Final = 16 * 2**20
MOST_FACTS: Final = 5_000
_LONGEST_KEY = 300
_LONGEST_LIST = 400
_SLUG = re.compile(r"[^a-z0-9._-]+")


def read_json(data: bytes, what: str) -> Json:
    """The value of foreign JSON, floats and large integers as the text that they had. Raises ``MalformedRecord``."""
    if len(data) > LARGEST_BYTES:
        raise MalformedRecord(f"{what} has {len(data)} bytes; the limit is {LARGEST_BYTES}.")
    try:
        value: Json = json.loads(
            data.decode("utf-8"), object_pairs_hook=_unique, parse_float=str, parse_constant=str, parse_int=_whole
        )
        canonical.encode(value)
    except RecursionError as error:
        raise MalformedRecord(f"{what} is nested too deeply.") from error
    except ValueError as error:
        raise MalformedRecord(f"{what} is not JSON: {str(error)[:200]}.") from error
    return value


def claims(facts: Mapping[str, Json], source: str) -> tuple[Claim, ...]:
    """Nested facts as claims, one a leaf, named by dotted path. Raises ``MalformedRecord`` for too many."""
    found: list[Claim] = []
    for quantity, text in _leaves(facts, ""):
        if len(found) >= MOST_FACTS:
            raise MalformedRecord(f"More than {MOST_FACTS} facts in one foreign record.")
        if text:
            found.append(Claim(quantity=quantity, value=text, source=source, about=False, note=""))
    return tuple(found)


def clean(text: str, longest: int = LONGEST) -> str:
    """``text`` on one printable line, scrubbed of secrets and machine paths; a long one is told by its digest."""
    line = "".join(char if char.isprintable() else " " for char in text)
    if len(line) > _LONGEST_LIST:
        return f"{len(text)} characters, sha256:{sha256(text.encode('utf-8', 'replace')).hex}"
    return scrubbed(line)[:longest].strip()


def slug(text: str) -> str:
    """``text`` as words of a name: lower case, without anything that a name cannot hold."""
    words = (_SLUG.sub("-", word).strip("-._") for word in text.lower().replace("@", "/").split("/"))
    return "/".join(word for word in words if word)[:200].strip("/") or "unnamed"


def _leaves(value: Json, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            name = clean(str(key), _LONGEST_KEY)
            yield from _leaves(inner, f"{path}.{name}" if path else name)
    elif value is not None and path:
        yield path[:_LONGEST_KEY], clean(value if isinstance(value, str) else canonical.encode(value).decode())


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def _whole(text: str) -> int | str:
    return int(text) if len(text) < 16 else text
