"""Documents: text form, identity, split and shard follow from the text alone."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.core.documents import (
    Document,
    Drop,
    Split,
    document_id,
    normalised,
    sampled,
    shard_count,
    shard_of,
    split_of,
)
from registry.errors import MalformedRecord

IDS = st.binary(min_size=32, max_size=32).map(bytes.hex)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"one\r\ntwo\rthree\n\n\n", "one\ntwo\nthree\n"),
        (b"\xef\xbb\xbfmark", "mark\n"),
        (b"\n\n  kept indent\n", "  kept indent\n"),
        ("e\u0301\t\f".encode(), "e\u0301\t\f\n"),
    ],
)
def test_text_form(data: bytes, text: str) -> None:
    assert normalised(data) == text


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"caf\xe9", Drop.NOT_UTF8),
        (b"\xed\xa0\x80", Drop.NOT_UTF8),
        (b"nul\x00", Drop.CONTROL),
        (b"del\x7f", Drop.CONTROL),
    ],
)
def test_bytes_that_are_no_text_say_why(data: bytes, reason: Drop) -> None:
    assert normalised(data) is reason


@given(st.binary(max_size=200))
def test_normalising_twice_is_normalising_once(data: bytes) -> None:
    once = normalised(data)
    if not isinstance(once, Drop):
        assert normalised(once.encode()) == once


def test_an_id_is_the_sha256_of_the_text() -> None:
    assert document_id("é\n") == hashlib.sha256("é\n".encode()).hexdigest()


def test_a_document_with_another_text_than_its_id_is_refused() -> None:
    facts = {"source": "alpha", "version": "1", "path": "a.py", "licence": "MIT", "domain": "code"}
    assert Document(id=document_id("x"), text="x", **facts).facts[0] == document_id("x")
    with pytest.raises(MalformedRecord, match=r"alpha:a\.py"):
        Document(id=document_id("x"), text="y", **facts)


@given(IDS, st.integers(0, 9999))
def test_a_larger_share_keeps_what_a_smaller_one_held_out(identity: str, share: int) -> None:
    if split_of(identity, share) is Split.HELDOUT:
        assert split_of(identity, share + 1) is Split.HELDOUT
    if sampled(identity, share):
        assert sampled(identity, share + 1)


def test_shares_are_met_and_independent_of_each_other_and_of_the_order() -> None:
    ids = [hashlib.sha256(str(number).encode()).hexdigest() for number in range(20_000)]
    heldout = [one for one in ids if split_of(one, 500) is Split.HELDOUT]
    assert 900 < len(heldout) < 1100
    assert 0.4 < sum(sampled(one, 5000) for one in heldout) / len(heldout) < 0.6
    assert 0.4 < sum(shard_of(one, 2) for one in heldout) / len(heldout) < 0.6
    assert all(split_of(one, 10_000) is Split.HELDOUT and split_of(one, 0) is Split.TRAIN for one in ids[:100])


@given(st.integers(0, 2**45), st.integers(1, 2**26))
def test_shards_hold_half_of_their_bound_or_more(text_bytes: int, bound: int) -> None:
    count = shard_count(text_bytes, bound)
    assert count & (count - 1) == 0
    assert count == 2**20 or text_bytes / count <= bound
    assert count == 1 or text_bytes / count > bound / 2


@given(IDS, st.integers(0, 16))
def test_doubling_the_shards_splits_each_in_two(identity: str, power: int) -> None:
    number = shard_of(identity, 2**power)
    assert 0 <= number < 2**power
    assert shard_of(identity, 2 ** (power + 1)) // 2 == number
