"""JSON that somebody else wrote: any spacing and key order, but one meaning.

Envelopes and signatures come from other tools, so they are not canonical; what was signed are their bytes, and this is
how a view beside them is read. Refuses bytes beyond a limit, keys that stand twice, floats and not-a-number, integers
beyond 2**53, nesting beyond the limit of records, and lone surrogates.
"""

from __future__ import annotations

import base64
import binascii
import json

from registry.core import canonical
from registry.core.canonical import Json
from registry.errors import MalformedRecord


def read(data: bytes, what: str, limit: int = canonical.MAXIMUM_BYTES) -> Json:
    """The value of JSON bytes; ``what`` names them in errors. Raises ``MalformedRecord``."""
    if len(data) > limit:
        raise MalformedRecord(f"{what} has {len(data)} bytes; the limit is {limit}.")
    try:
        value: Json = json.loads(
            data.decode("utf-8"), object_pairs_hook=_unique, parse_float=_no_float, parse_constant=_no_float
        )
        canonical.encode(value)
    except RecursionError as error:
        raise MalformedRecord(f"{what} is nested too deeply.") from error
    except MalformedRecord as error:
        raise MalformedRecord(f"{what} is not acceptable: {error.message}") from error
    except ValueError as error:
        raise MalformedRecord(f"{what} is not JSON: {str(error)[:200]}.") from error
    return value


def unbase64(text: str, what: str) -> bytes:
    """The bytes of standard base64 in its one spelling, padding included. Raises ``MalformedRecord``."""
    try:
        data = base64.b64decode(text.encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error) as error:
        raise MalformedRecord(f"{what} is not base64.") from error
    if base64.b64encode(data).decode() != text:
        raise MalformedRecord(f"{what} is base64 in a second spelling.")
    return data


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def _no_float(text: str) -> Json:
    raise ValueError(f"the number {text[:40]} is not an integer")
