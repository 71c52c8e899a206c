"""Many records of one kind are read one by one: a damaged one is told by its digest, and the others are there."""

from __future__ import annotations

from registry.core.canonical import Json
from registry.core.digests import sha256
from registry.core.reading import read_each
from registry.errors import MalformedRecord

FIRST, TORN, ABSENT, REFUSED, LAST = (sha256(bytes([number])) for number in range(5))


def number(value: Json) -> int:
    if not isinstance(value, int):
        raise MalformedRecord("This is no number.")
    return value


def test_a_bad_record_hides_no_other() -> None:
    gone = MalformedRecord("The file is gone.")
    raw = [(FIRST, b"1"), (TORN, b'{"a"'), (ABSENT, gone), (REFUSED, b'"x"'), (LAST, b"2")]
    found, damages = read_each(raw, number)
    assert found == ((FIRST, 1), (LAST, 2))
    assert [damage.partition(": ")[0] for damage in damages] == [str(one) for one in (TORN, ABSENT, REFUSED)]
    assert damages[1:] == (f"{ABSENT}: The file is gone.", f"{REFUSED}: This is no number.")
