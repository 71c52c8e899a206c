"""The permutations by which Levanter shuffles a component: Feistel networks, and blocks shuffled in windows.

Written out like :mod:`registry.core.threefry`, and for the same reason: NumPy promises no stable stream of its
generator, and an order that was recorded must be derivable for good. Both directions: from a place in the shuffled
stream to the sequence that stands there, and back. Pure. Refuses empty domains and places outside of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

from registry.core.threefry import WORD, Key
from registry.errors import Refused

ROUNDS: Final = 5
_MOST_WALKS: Final = 100_000
_ROUND_FACTOR: Final = 2654435761
_PCG_FACTOR: Final = 0x2360ED051FC65DA44385DF649FCCF645
_WIDE: Final = 2**128 - 1
_POOL_WORDS: Final = 4


@dataclass(frozen=True, slots=True)
class Feistel:
    """A permutation of ``range(length)``: a balanced Feistel network, applied again until it comes back inside.

    ``half`` is the number of bits of each half, ``keys`` are those of the rounds.
    """

    length: int
    half: int
    keys: tuple[int, ...]

    @classmethod
    def of(cls, length: int, key: Key) -> Feistel:
        """The permutation that Levanter makes of a length and a random key. Raises ``Refused`` for length zero."""
        if length < 1:
            raise Refused(f"There is no permutation of {length} things.")
        half = ((length - 1).bit_length() + 1) // 2
        return cls(length, half, draws(key.below_2_30(), half, ROUNDS))

    def __call__(self, index: int) -> int:
        """Where ``index`` goes. Raises ``Refused`` for one outside of the domain."""
        mask, half = (1 << self.half) - 1, self.half
        for _ in self._walks(index):
            left, right = index >> half, index & mask
            for key in self.keys:
                left, right = right, left ^ ((right * _ROUND_FACTOR + key) & mask)
            index = left << half | right
            if index < self.length:
                break
        return index

    def back(self, index: int) -> int:
        """What goes to ``index``. Raises ``Refused`` for one outside of the domain."""
        mask, half = (1 << self.half) - 1, self.half
        for _ in self._walks(index):
            left, right = index >> half, index & mask
            for key in reversed(self.keys):
                left, right = right ^ ((left * _ROUND_FACTOR + key) & mask), left
            index = left << half | right
            if index < self.length:
                break
        return index

    def _walks(self, index: int) -> range:
        """The walks that are allowed; a domain of one needs none."""
        if not 0 <= index < self.length:
            raise Refused(f"{index} is not below {self.length}.")
        return range(_MOST_WALKS if self.length > 1 else 0)


@dataclass(frozen=True)
class BlockShuffle:
    """A component's sequences, shuffled by blocks, and again inside windows of blocks.

    A last block that is not full stays at the end and is shuffled alone. ``block`` and ``window`` (in blocks) are
    sizes, ``length`` the number of sequences.
    """

    length: int
    block: int
    window: int
    key: Key

    def __post_init__(self) -> None:
        if min(self.length, self.block, self.window) < 1:
            raise Refused("A shuffle needs at least one sequence, a block and a window.")

    def __call__(self, place: int) -> int:
        """The sequence at a place of the shuffled stream. Raises ``Refused`` for a place beyond its end."""
        if not 0 <= place < self.length:
            raise Refused(f"{place} is not below {self.length}.")
        if place >= self._full:
            return self._full + self._tail(place - self._full)
        window, offset = divmod(place, self.block * self.window)
        block, inside = divmod(self._inner(window)(offset), self.block)
        return self._outer(window * self.window + block) * self.block + inside

    def back(self, sequence: int) -> int:
        """The place of a sequence in the shuffled stream. Raises ``Refused`` for a sequence that is not there."""
        if not 0 <= sequence < self.length:
            raise Refused(f"{sequence} is not below {self.length}.")
        if sequence >= self._full:
            return self._full + self._tail.back(sequence - self._full)
        physical, inside = divmod(sequence, self.block)
        window, block = divmod(self._outer.back(physical), self.window)
        return window * self.block * self.window + self._inner(window).back(block * self.block + inside)

    @cached_property
    def _keys(self) -> tuple[Key, ...]:
        """Of the blocks, the windows, and the last block."""
        return self.key.split(3)

    @cached_property
    def _full(self) -> int:
        """Sequences in full blocks."""
        return self.length - self.length % self.block

    @cached_property
    def _outer(self) -> Feistel:
        return Feistel.of(self._full // self.block, self._keys[0])

    @cached_property
    def _tail(self) -> Feistel:
        windows = -(-(self._full // self.block + 1) // self.window)
        return Feistel.of(self.length - self._full, self._keys[2].fold_in(windows - 1))

    def _inner(self, window: int) -> Feistel:
        blocks = min(self.window, self._full // self.block - window * self.window)
        return _window_shuffle(blocks * self.block, self._keys[1], window)


@lru_cache(maxsize=1024)
def _window_shuffle(length: int, key: Key, window: int) -> Feistel:
    return Feistel.of(length, key.fold_in(window))


def draws(seed: int, bits: int, count: int) -> tuple[int, ...]:
    """As ``numpy.random.Generator(PCG64(seed)).integers(0, 2**bits, size=count, dtype=uint64)``.

    A range that is a power of two is never rejected, so a draw is the leading bits of a word, or for up to 32 bits of
    half a word, the lower half first.
    """
    words = _pcg64(seed)
    if bits == 0:
        return (0,) * count
    if bits > 32:
        return tuple(next(words) >> (64 - bits) for _ in range(count))
    halves = (half for word in words for half in (word & WORD, word >> 32))
    return tuple(next(halves) >> (32 - bits) for _ in range(count))


def _pcg64(seed: int) -> Iterator[int]:
    """The words of the generator PCG-XSL-RR-128/64 (O'Neill 2014), seeded as NumPy seeds it."""
    words = _seed_words(seed)
    start, stream = words[0] << 64 | words[1], words[2] << 64 | words[3]
    increment = (stream << 1 | 1) & _WIDE
    state = ((increment + start) * _PCG_FACTOR + increment) & _WIDE
    while True:
        state = (state * _PCG_FACTOR + increment) & _WIDE
        folded, turn = (state >> 64 ^ state) & (2**64 - 1), state >> 122
        yield (folded >> turn | folded << (64 - turn)) & (2**64 - 1)


def _seed_words(seed: int) -> list[int]:
    """Four words of 64 bits out of a seed of 32 bits, as NumPy's ``SeedSequence`` mixes them (O'Neill's seed_seq)."""
    scramble = _Scramble(0x43B0D7E5, 0x931E8875)
    pool = [scramble(value) for value in (seed, *[0] * (_POOL_WORDS - 1))]
    for source in range(_POOL_WORDS):
        for target in range(_POOL_WORDS):
            if source != target:
                mixed = (0xCA01F9DD * pool[target] - 0x4973F715 * scramble(pool[source])) & WORD
                pool[target] = mixed ^ mixed >> 16
    scramble = _Scramble(0x8B51F9DD, 0x58F38DED)
    halves = [scramble(pool[at % _POOL_WORDS]) for at in range(8)]
    return [low | high << 32 for low, high in zip(halves[::2], halves[1::2], strict=True)]


class _Scramble:
    """A multiplicative hash whose constant moves on with every value."""

    def __init__(self, constant: int, factor: int) -> None:
        self._constant, self._factor = constant, factor

    def __call__(self, value: int) -> int:
        value ^= self._constant
        self._constant = self._constant * self._factor & WORD
        value = value * self._constant & WORD
        return value ^ value >> 16
