"""JAX's generator in the standard library. The figures are JAX's own; ``test_order_replay`` asks it anew."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.core.threefry import WORD, Key
from registry.errors import Refused

KEY = Key.of_seed(7)


def test_keys_are_split_and_folded_as_jax_does_it():
    assert [(one.high, one.low) for one in KEY.split(3)] == [
        (3625411723, 1954958720),
        (195045567, 4062205631),
        (966301609, 1948237315),
    ]
    folded = KEY.fold_in(2**31 + 5)
    assert (folded.high, folded.low) == (3129736998, 445282630)


def test_values_are_permuted_and_drawn_as_jax_does_it():
    assert KEY.shuffled(range(8)) == [4, 2, 3, 5, 0, 7, 6, 1]
    assert KEY.shuffled(range(3000))[:6] == [2846, 88, 2378, 1526, 2050, 993]
    assert KEY.below_2_30() == 752193311


@given(st.integers(0, WORD), st.integers(0, WORD), st.integers(1, 200))
def test_lanes_do_not_touch_one_another(high, low, count):
    """Many counters side by side give what fewer of them give."""
    key = Key(high, low)
    assert list(key.bits(count))[:1] == list(key.bits(1))
    assert key.split(count)[: count // 2] == key.split(count // 2 + 1)[: count // 2]
    assert all(0 <= one <= WORD for one in key.bits(count))


@given(st.integers(0, WORD), st.integers(0, 300))
def test_a_shuffle_loses_nothing(low, count):
    assert sorted(Key(0, low).shuffled(range(count))) == list(range(count))


@pytest.mark.parametrize("seed", [-1, 2**31])
def test_a_seed_that_jax_reads_by_its_settings_is_refused(seed):
    with pytest.raises(Refused, match="31 bits"):
        Key.of_seed(seed)
