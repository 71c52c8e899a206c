"""The list of second digests: what is read of it, and what is refused."""

import pytest
from blake3 import blake3

from registry.core import twins
from registry.core.digests import Algorithm, Digest, sha256
from registry.core.twins import FILE, Twin, encode, parse, signed_twins
from registry.errors import DoesNotHold, MalformedRecord, ReckonError, UnknownName

ONE, OTHER = (Digest(Algorithm.BLAKE3, blake3(data).hexdigest()) for data in (b"one", b"other"))
LINE = f"{ONE.hex}  a.safetensors\n"


def test_the_list_is_what_b3sum_writes():
    data = encode({"b/ä c.bin": OTHER, "a.safetensors": ONE})
    assert data.decode() == f"{LINE}{OTHER.hex}  b/ä c.bin\n"
    assert parse(data) == {"a.safetensors": ONE, "b/ä c.bin": OTHER}
    assert parse(b"") == {}


@pytest.mark.parametrize(
    "data",
    [
        LINE[:-1],
        LINE + "\n",
        LINE + LINE,
        f"{ONE.hex}  b\n{LINE}",
        LINE.replace("  ", " *"),
        LINE.replace("  ", " "),
        LINE.upper(),
        LINE[1:],
        f"\\{LINE}",
        f"{ONE.hex}  ../a\n",
        f"{ONE.hex}  /a\n",
        f"{ONE.hex}  a\\nb\n",
        f"{ONE.hex}  a\r\n",
        f"{ONE.hex}  \n",
    ],
)
def test_another_spelling_is_refused(data):
    with pytest.raises(ReckonError):
        parse(data.encode())


def test_what_is_no_text_or_too_long_is_refused(monkeypatch):
    with pytest.raises(MalformedRecord, match="UTF-8"):
        parse(f"{ONE.hex}  ".encode() + b"\xff\n")
    monkeypatch.setattr(twins, "MOST_LINES", 1)
    with pytest.raises(MalformedRecord, match="at most 1 lines"):
        parse(LINE.encode() + LINE.replace("a.", "b.").encode())
    monkeypatch.setattr(twins, "LONGEST", 10)
    with pytest.raises(MalformedRecord, match="too many"):
        parse(LINE.encode())


def test_both_digests_come_from_what_was_signed():
    signed = {"a.safetensors": sha256(b"one"), "b": sha256(b"other"), FILE: sha256(LINE.encode())}
    found = signed_twins({FILE: LINE.encode()}.__getitem__, signed)
    assert found == {"a.safetensors": Twin(sha256=sha256(b"one"), blake3=ONE)}


def test_a_list_that_nobody_signed_is_not_read():
    def read(path):
        raise AssertionError(path)

    assert signed_twins(read, {"a.safetensors": sha256(b"one")}) == {}


def test_a_list_that_is_missing_altered_or_of_unsigned_files_is_refused():
    signed = {"a.safetensors": sha256(b"one"), FILE: sha256(LINE.encode())}

    def missing(path):
        raise UnknownName(path)

    with pytest.raises(UnknownName):
        signed_twins(missing, signed)
    with pytest.raises(DoesNotHold, match="other bytes"):
        signed_twins(lambda _: LINE.replace("a.", "b.").encode(), signed)
    with pytest.raises(MalformedRecord, match="which is not signed"):
        signed_twins(lambda _: LINE.encode(), {FILE: sha256(LINE.encode())})
