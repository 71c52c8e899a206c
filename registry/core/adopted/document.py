"""A document of facts: what public sources say of runs, written down by hand, every fact under its source.

::

    {"format": "reckon-facts", "schema": 1, "id": "marin", "sources": {"launcher": "repository path @ commit"},
     "things": [{"name": "marin/rung/d768", "role": "rung", "ended": "complete",
                 "claims": {"launcher": {"steps": "11420", "loss": {"value": "3.0154", "about": true, "note": "…"}}},
                 "links": [{"bond": "input", "name": "marin/data", "source": "launcher"}]}]}

A list under a quantity is several values that one source tells. A document holds claims and no findings: what they
contradict is for an audit to find. Refuses unknown fields, so that a misspelt one is not lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final, TypeVar

from registry.core.adopted.absence import Absence, read_absence
from registry.core.adopted.claims import Claim
from registry.core.adopted.foreign import read_json
from registry.core.adopted.record import Adopted, Bond, Ended, Link, Origin, Role
from registry.core.canonical import Json
from registry.core.codec import Reader
from registry.core.digests import Digest, sha256
from registry.errors import MalformedRecord

T = TypeVar("T", bound=StrEnum)
FORMAT: Final = "reckon-facts"
SCHEMA: Final = 1
MOST_THINGS: Final = 2000
_THING = ("name", "role", "ended", "claims", "links", "absence")
_LINK = ("bond", "name", "step", "source", "kept", "absence")
_CLAIM = ("value", "about", "note")


def is_document(value: Json) -> bool:
    """Whether a JSON value calls itself a document of facts."""
    return isinstance(value, Mapping) and value.get("format") == FORMAT


def read_document(data: bytes, time: str) -> tuple[Adopted, ...]:
    """The records of a document, adopted at ``time``. Raises ``MalformedRecord`` with the place that is wrong."""
    return records_of(read_json(data, "the document"), sha256(data), time)


def records_of(value: Json, digest: Digest, time: str) -> tuple[Adopted, ...]:
    """The records of a document's value, read from bytes of ``digest``. Raises like :func:`read_document`."""
    reader = Reader(value, "the document")
    if reader.text("format") != FORMAT or reader.integer("schema") != SCHEMA:
        raise MalformedRecord(f"This is no document of facts of schema {SCHEMA}.")
    origin = Origin(system="document", id=reader.text("id"), digest=digest)
    sources = {key: text for key, text in reader.mapping("sources").items() if isinstance(text, str)}
    reader.text("title")
    found = reader.objects("things", lambda thing: _thing(_filled(thing, _THING), origin, sources, time))
    reader.close()
    if len(found) > MOST_THINGS:
        raise MalformedRecord(f"The document tells of {len(found)} things; at most {MOST_THINGS} are read.")
    names = [one.name for one in found]
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise MalformedRecord(f"The document tells twice of {', '.join(twice)}.")
    return found


def _thing(reader: Reader, origin: Origin, sources: Mapping[str, str], time: str) -> Adopted:
    name = reader.text("name")
    claims = tuple(_claims(reader.mapping("claims"), name))
    links = reader.objects("links", _link)
    cited = {*(one.source for one in claims), *(one.source for one in links)}
    if cited - sources.keys():
        raise MalformedRecord(f"{name} cites {', '.join(sorted(cited - sources.keys()))}, which is no source.")
    thing = Adopted(
        name=name,
        role=_word(reader.text("role"), Role),
        ended=_word(reader.text("ended"), Ended),
        origin=origin,
        sources={key: sources[key] for key in sorted(cited)},
        claims=claims,
        links=links,
        absence=reader.optional("absence", lambda field: reader.object(field, _absence)),
        time=time,
    )
    reader.close()
    return thing


def _claims(by_source: Mapping[str, Json], name: str) -> Iterator[Claim]:
    for source, told in by_source.items():
        if not isinstance(told, Mapping):
            raise MalformedRecord(f"What {source} says of {name} must be an object of quantities.")
        for quantity, values in told.items():
            for value in values if isinstance(values, list) else [values]:
                yield _claim(value, quantity, source)


def _claim(value: Json, quantity: str, source: str) -> Claim:
    if isinstance(value, Mapping):
        reader = _filled(Reader(value, f"the claim of {quantity}"), _CLAIM)
        claim = Claim(
            quantity=quantity,
            value=reader.text("value"),
            source=source,
            about=reader.optional("about", reader.flag) or False,
            note=reader.optional("note", reader.text) or "",
        )
        reader.close()
        return claim
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise MalformedRecord(f"A value of {quantity} is neither text nor a whole number; write decimals as strings.")
    return Claim(quantity=quantity, value=str(value), source=source, about=False, note="")


def _link(reader: Reader) -> Link:
    reader = _filled(reader, _LINK)
    link = Link(
        bond=_word(reader.text("bond"), Bond),
        name=reader.text("name"),
        step=reader.optional("step", reader.integer),
        source=reader.text("source"),
        kept=reader.optional("kept", reader.text) or "",
        absence=reader.optional("absence", lambda field: reader.object(field, _absence)),
    )
    reader.close()
    return link


def _absence(reader: Reader) -> Absence:
    return read_absence(_filled(reader, tuple(reader.rest())))


def _filled(reader: Reader, fields: tuple[str, ...]) -> Reader:
    """The same object with null for what it leaves out."""
    return Reader({**dict.fromkeys(fields), **reader.rest()}, "a thing of the document")


def _word(text: str, words: type[T]) -> T:
    if text not in set(words):
        raise MalformedRecord(f"{text!r} is not known here; known are {', '.join(words)}.")
    return words(text)
