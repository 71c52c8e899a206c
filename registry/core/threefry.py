"""JAX's default generator, ``threefry2x32`` in its partitionable form, in integers of the standard library alone.

The order of the data follows from random keys. An archive must be able to derive it when no version of JAX that agrees
can be installed any more, so the rules are written out here; tests hold them against JAX itself. Many counters are
computed side by side, as lanes of one long integer. Pure. Refuses seeds that JAX reads differently by its settings.

The cipher is that of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011), with 20 rounds.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, log
from typing import Final, TypeVar

from registry.errors import Refused

T = TypeVar("T")

WORD: Final = 2**32 - 1
_LANE_BITS: Final = 64  # twice a word, so that sums and shifts of one lane never reach the next
_PARITY: Final = 0x1BD11BDA
_ROTATIONS: Final = ((13, 15, 26, 6), (17, 29, 16, 24))
_SHUFFLE_EXPONENT: Final = 3


@dataclass(frozen=True, slots=True)
class Key:
    """A random key: two words of 32 bits."""

    high: int
    low: int

    @classmethod
    def of_seed(cls, seed: int) -> Key:
        """As ``jax.random.PRNGKey`` makes it. Raises ``Refused`` for a seed that does not fit 31 bits."""
        if not 0 <= seed < 2**31:
            raise Refused(f"The seed {seed} does not fit 31 bits.", remedy="Choose a smaller one.")
        return cls(0, seed)

    def split(self, count: int = 2) -> tuple[Key, ...]:
        """As ``jax.random.split``."""
        high, low = _cipher(self, 0, _counters(count), count)
        return tuple(map(Key, _unpacked(high, count), _unpacked(low, count)))

    def fold_in(self, number: int) -> Key:
        """As ``jax.random.fold_in`` with a number of 32 bits."""
        return Key(*_cipher(self, 0, number & WORD, 1))

    def bits(self, count: int) -> Sequence[int]:
        """As ``jax.random.bits``: 32 random bits each."""
        high, low = _cipher(self, 0, _counters(count), count)
        return _unpacked(high ^ low, count)

    def shuffled(self, values: Sequence[T]) -> list[T]:
        """As ``jax.random.permutation``: sorted by random bits, as often as makes collisions unlikely."""
        key, found = self, list(values)
        for _ in range(ceil(_SHUFFLE_EXPONENT * log(max(1, len(found))) / log(WORD))):
            key, fresh = key.split()
            bits = fresh.bits(len(found))
            found = [found[at] for at in sorted(range(len(found)), key=bits.__getitem__)]
        return found

    def below_2_30(self) -> int:
        """As ``jax.random.randint(key, (), 0, 2**30)``: the span is a power of two, so only the lower draw counts."""
        return self.split()[1].bits(1)[0] & (2**30 - 1)


def _cipher(key: Key, high: int, low: int, lanes: int) -> tuple[int, int]:
    """Encrypt the counters (high, low) of every lane."""
    ones = _ones(lanes)
    mask = WORD * ones
    keys = [key.high * ones, key.low * ones, (key.high ^ key.low ^ _PARITY) * ones]
    x, y = (high + keys[0]) & mask, (low + keys[1]) & mask
    for group in range(5):
        for turn in _ROTATIONS[group % 2]:
            x = (x + y) & mask
            y = ((y << turn | y >> (32 - turn)) & mask) ^ x
        x = (x + keys[(group + 1) % 3]) & mask
        y = (y + keys[(group + 2) % 3] + (group + 1) * ones) & mask
    return x, y


@lru_cache(maxsize=64)
def _ones(lanes: int) -> int:
    return _packed([1] * lanes)


@lru_cache(maxsize=64)
def _counters(lanes: int) -> int:
    return _packed(range(lanes))


def _packed(values: Sequence[int]) -> int:
    return int.from_bytes(struct.pack(f"<{len(values)}Q", *values), "little")


def _unpacked(lanes: int, count: int) -> Sequence[int]:
    return struct.unpack(f"<{count}Q", lanes.to_bytes(count * _LANE_BITS // 8, "little"))
