"""Canonical JSON: one value, one byte string."""

import json
from enum import IntEnum, StrEnum

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from registry.core.canonical import LARGEST_INTEGER, MAXIMUM_BYTES, MAXIMUM_DEPTH, decode, encode
from registry.errors import MalformedRecord

TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-LARGEST_INTEGER, LARGEST_INTEGER) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_what_is_encoded_is_decoded_and_encoded_alike(value):
    data = encode(value)
    assert decode(data) == value
    assert encode(decode(data)) == data
    assert json.loads(data) == value


@given(st.dictionaries(TEXT, st.integers(0, 9), min_size=2), st.randoms())
def test_the_order_of_keys_does_not_matter(value, random):
    items = list(value.items())
    random.shuffle(items)
    assert encode(dict(items)) == encode(value)


@given(st.binary(max_size=60))
@example(b"[1]")
def test_any_bytes_are_canonical_or_refused(data):
    try:
        value = decode(data)
    except MalformedRecord:
        return
    assert encode(value) == data


def test_keys_are_sorted_by_utf16_as_the_standard_says():
    """The example of RFC 8785, 3.2.3: the emoji's surrogates sort before the Hebrew presentation form."""
    keys = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\u0080", "\u00f6"]
    assert list(json.loads(encode(dict.fromkeys(keys, 0)))) == [
        "\r",
        "1",
        "\u0080",
        "\u00f6",
        "\u20ac",
        "\U0001f600",
        "\ufb33",
    ]


def test_text_is_escaped_as_the_standard_says():
    assert encode('\x00\x08\t\n\x0c\r\x1f"\\/\x7f\u2028é') == (
        b'"\\u0000\\b\\t\\n\\f\\r\\u001f\\"\\\\/\x7f\xe2\x80\xa8\xc3\xa9"'
    )


def test_named_constants_are_their_values():
    class Colour(StrEnum):
        RED = "red"

    class Count(IntEnum):
        TWO = 2

    assert encode({Colour.RED: [Colour.RED, Count.TWO]}) == b'{"red":["red",2]}'


@pytest.mark.parametrize(
    "value",
    [
        1.0,
        float("nan"),
        LARGEST_INTEGER + 1,
        -LARGEST_INTEGER - 1,
        pytest.param(10**5000, id="huge"),
        {1: 2},
        {None: 1},
        "\ud800",
        {"\udfff": 1},
        b"bytes",
        memoryview(b"bytes"),
        {1, 2},
        [object()],
    ],
)
def test_values_without_one_spelling_are_refused(value):
    with pytest.raises(MalformedRecord):
        encode(value)


def test_nesting_is_bounded():
    value = 1
    for _ in range(MAXIMUM_DEPTH):
        value = [value]
    assert decode(encode(value)) == value
    with pytest.raises(MalformedRecord, match="deeper"):
        encode([value])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" 1",
        b"1\n",
        b"-0",
        b"01",
        b"1.0",
        b"1e2",
        b"1" * 5000,
        b"1" * 400,
        b"1." + b"0" * 100_000,
        b"NaN",
        b"-Infinity",
        b'{"b":1,"a":2}',
        b'{"a":1,"a":1}',
        b'{"a": 1}',
        b'"\\u0041"',
        b'"\\/"',
        b'"\\ud800"',
        b'"\\ud83d\\ude00"',
        b'"\\u001F"',
        b'"\xff"',
        b'"\xed\xa0\x80"',
        b"\xef\xbb\xbf1",
        b"[" * 100_000,
        b"[" * 34 + b"]" * 34,
        b"[1,]",
        b"1 2",
    ],
    ids=lambda data: repr(data[:16]),
)
def test_bytes_in_another_form_are_refused_in_a_short_sentence(data):
    with pytest.raises(MalformedRecord) as refusal:
        decode(data)
    assert len(str(refusal.value)) < 400


def test_a_record_of_any_size_is_not_read():
    with pytest.raises(MalformedRecord, match="limit"):
        decode(b'"' + b"a" * MAXIMUM_BYTES + b'"')
