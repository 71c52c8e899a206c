"""Chunk digests from pieces in any order."""

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.core.assembly import Assembly
from registry.core.tensors import CHUNK_BYTES, TensorSpec, chunk_digests
from registry.errors import MalformedRecord

DATA = random.Random(5).randbytes(3 * CHUNK_BYTES + 100)
SPEC = TensorSpec(name="w", dtype="uint8", shape=(len(DATA),))
DIGESTS = tuple(chunk_digests(DATA))


@settings(max_examples=40)
@given(st.lists(st.integers(1, len(DATA) - 1), max_size=9, unique=True), st.randoms(), st.integers(1, 3))
def test_pieces_in_any_order_over_several_assemblies_give_the_same_digests(cuts, random, assemblies):
    borders = [0, *sorted(cuts), len(DATA)]
    pieces = list(itertools.pairwise(borders))
    random.shuffle(pieces)
    parts = [Assembly(SPEC) for _ in range(assemblies)]
    for start, stop in pieces:
        random.choice(parts).add(start, memoryview(DATA)[start:stop])
    random.shuffle(parts)
    whole = parts[0]
    for part in parts[1:]:
        whole.merge(part)
    assert whole.chunk_list().digests == DIGESTS


def test_a_piece_that_waits_is_copied():
    buffer = bytearray(DATA)
    assembly = Assembly(SPEC)
    for start in (CHUNK_BYTES // 2, 0, CHUNK_BYTES):
        stop = len(DATA) if start == CHUNK_BYTES else start + CHUNK_BYTES // 2
        assembly.add(start, memoryview(buffer)[start:stop])
        buffer[start:stop] = bytes(stop - start)
    assert assembly.chunk_list().digests == DIGESTS


def test_missing_bytes_are_refused():
    assembly = Assembly(SPEC)
    assembly.add(0, DATA[:-1])
    with pytest.raises(MalformedRecord, match="3 of 4 chunks"):
        assembly.chunk_list()


def test_a_tensor_without_bytes_is_complete():
    assert Assembly(TensorSpec(name="w", dtype="uint8", shape=(0,))).chunk_list().digests == ()
