"""NumPy's draws and Levanter's shuffles in the standard library."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.core.permutations import BlockShuffle, Feistel, draws
from registry.core.threefry import Key
from registry.errors import Refused

KEY = Key.of_seed(7)
LEVANTERS = [
    15, 41, 11, 8, 40, 14, 42, 10, 9, 12, 13, 43, 20, 16, 0, 23, 17, 21, 3, 1, 2, 19, 22,
    18, 24, 32, 36, 27, 33, 25, 39, 37, 38, 35, 26, 34, 6, 4, 31, 30, 29, 7, 28, 5, 44,
]  # fmt: skip


@given(st.integers(0, 2**30 - 1), st.integers(0, 63), st.integers(0, 9))
def test_draws_are_those_of_numpy(seed, bits, count):
    generator = np.random.Generator(np.random.PCG64(seed))
    assert draws(seed, bits, count) == tuple(generator.integers(0, 2**bits, size=count, dtype=np.uint64).tolist())


def test_a_network_gives_what_levanter_gives():
    shuffle = Feistel.of(1000, KEY)
    assert [shuffle(one) for one in (0, 1, 2, 999)] == [104, 200, 288, 683]


def test_a_shuffle_gives_what_levanter_gives():
    shuffle = BlockShuffle(45, 4, 3, KEY)
    assert [shuffle(place) for place in range(45)] == LEVANTERS


@given(st.integers(1, 5000), st.integers(0, 2**31 - 1))
def test_a_network_is_a_permutation_that_can_be_undone(length, seed):
    shuffle = Feistel.of(length, Key.of_seed(seed))
    for one in {0, length // 2, length - 1}:
        assert 0 <= shuffle(one) < length
        assert shuffle.back(shuffle(one)) == one == shuffle(shuffle.back(one))


def test_a_large_domain_can_be_undone():
    length = 2**40 + 17
    shuffle = Feistel.of(length, KEY)
    assert all(shuffle.back(shuffle(one)) == one for one in range(0, length, length // 50))


@settings(max_examples=40)
@given(st.integers(1, 400), st.integers(1, 40), st.integers(1, 9), st.integers(0, 1000))
def test_a_shuffle_loses_nothing_and_can_be_undone(length, block, window, seed):
    shuffle = BlockShuffle(length, block, window, Key.of_seed(seed))
    found = [shuffle(place) for place in range(length)]
    assert sorted(found) == list(range(length))
    assert [shuffle.back(one) for one in found] == list(range(length))


@pytest.mark.parametrize("sizes", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_nothing_to_shuffle_is_refused(sizes):
    with pytest.raises(Refused):
        BlockShuffle(*sizes, KEY)
    with pytest.raises(Refused):
        Feistel.of(0, KEY)


@pytest.mark.parametrize("place", [-1, 45])
def test_a_place_outside_is_refused(place):
    shuffle, network = BlockShuffle(45, 4, 3, KEY), Feistel.of(45, KEY)
    for call in (shuffle, shuffle.back, network, network.back):
        with pytest.raises(Refused, match="not below 45"):
            call(place)
