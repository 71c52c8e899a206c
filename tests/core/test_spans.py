"""Documents and sequences by offsets."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.core.spans import Documents, ranges
from registry.errors import DoesNotHold

SIZES = st.lists(st.integers(1, 12), min_size=1, max_size=30)


def documents(sizes: list[int], **changes: object) -> Documents:
    given: dict[str, object] = {
        "ids": [f"{index * 7919 % 65537:04x}" * 16 for index, _ in enumerate(sizes)],
        "shards": ["a/train-00000.parquet"] * len(sizes),
        "rows": list(range(len(sizes))),
        "offsets": [sum(sizes[:index]) for index in range(len(sizes))],
        "tokens": sizes,
    }
    return Documents(**{**given, **changes})


@given(SIZES, st.integers(1, 9))
def test_pieces_tell_every_token_once(sizes, length):
    held = documents(sizes)
    owners = [(index, token) for index, size in enumerate(sizes) for token in range(size)]
    for sequence in range(held.stream_tokens // length):
        pieces = held.pieces(sequence, length)
        told = [(piece.index, token) for piece in pieces for token in range(piece.first, piece.stop)]
        assert told == owners[sequence * length : (sequence + 1) * length]


@given(SIZES, st.integers(1, 9))
def test_sequences_are_the_inverse_of_pieces(sizes, length):
    held = documents(sizes)
    whole = range(held.stream_tokens // length)
    for index, _ in enumerate(sizes):
        expected = [one for one in whole if index in [piece.index for piece in held.pieces(one, length)]]
        assert list(held.sequences(index, length)) == expected


def test_documents_are_found_by_the_beginning_of_their_id():
    held = documents([1] * 40)
    for index, identity in enumerate(held.ids):
        assert held.beginning(identity) == [index]
        assert index in held.beginning(identity[:2])
    assert held.beginning("g" * 8) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"offsets": [1, 4, 6]},
        {"offsets": [0, 2, 5]},
        {"offsets": [0, 3]},
        {"rows": [0, 1]},
        {"tokens": [3, 0, 1], "offsets": [0, 3, 3]},
    ],
)
def test_a_table_with_gaps_is_refused(changes):
    with pytest.raises(DoesNotHold, match="gaps"):
        documents([3, 2, 1], **changes)


def test_an_empty_table_is_an_empty_stream():
    assert documents([]).stream_tokens == 0


@given(st.sets(st.integers(0, 60)))
def test_ranges_tell_the_numbers(numbers):
    found = ranges(sorted(numbers))
    assert {one for first, last in found for one in range(first, last + 1)} == numbers
    assert all(after[0] > before[1] + 1 for before, after in pairwise(found))
