"""The order of the data: from the recorded facts alone to the sequences of any step, and back.

The rules are those of Levanter's mixture (integer counts of every component in every block, places in a block permuted,
components shuffled by blocks in windows, begun anew when they end) under JAX's default generator. They are written out
here, so that a batch can be told without JAX and without a token; tests replay Levanter and compare. Pure. Refuses
steps that the run does not have, and more sequences than Levanter counts.

Steps count completed updates: the batch of step 1 makes the first one. A place is a position in the endless stream of
sequences that the batches are cut from.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from typing import TypeAlias

from registry.core.orderfacts import LARGEST_COUNT, OrderFacts
from registry.core.permutations import BlockShuffle
from registry.core.threefry import Key
from registry.errors import Refused

Id: TypeAlias = tuple[int, int]
"""The number of a component, and a sequence in it."""


@dataclass(frozen=True)
class Order:
    """What ``facts`` say of every step. Raises ``Refused`` when a phase draws more than Levanter counts."""

    facts: OrderFacts

    def __post_init__(self) -> None:
        if max(map(max, self._before)) > LARGEST_COUNT:
            raise Refused(
                f"This order draws over {LARGEST_COUNT} sequences of a component in a phase; Levanter counts 32 bits.",
                remedy="Such an order repeats itself in a way that is not told here.",
            )

    def ids(self, step: int) -> list[Id]:
        """The batch that made update ``step``, in batch order.

        Raises ``Refused`` for a step that the run does not have.
        """
        if not 1 <= step <= self.facts.steps:
            raise Refused(f"There is no step {step}: the run has {self.facts.steps}.", remedy="Steps count from 1.")
        return [self.at(place) for place in range((step - 1) * self.facts.batch, step * self.facts.batch)]

    def at(self, place: int) -> Id:
        """What stands at a place."""
        block, inside = divmod(place, self.facts.block)
        phase = self._phase_of(block)
        component, slot = _slots(self._keys[0], block, self.counts[phase])[inside]
        drawn = self._before[phase][component] + (block - self._starts[phase]) * self.counts[phase][component] + slot
        return component, self._shuffles[component](drawn % self.facts.components[component].sequences)

    def places(self, component: int, sequences: Iterable[int], steps: range) -> Iterator[tuple[int, int]]:
        """Every time that one of ``sequences`` of a component was fed in ``steps``: (place, sequence), ascending.

        Sequences are looked up one by one, or the whole stream is gone through, whichever is less.
        """
        wanted = frozenset(sequences)
        places = range(*((step - 1) * self.facts.batch for step in (steps.start, steps.stop)))
        if len(wanted) > len(places):
            fed = ((place, self.at(place)) for place in places)
            yield from ((place, one) for place, (number, one) in fed if number == component and one in wanted)
            return
        for phase in range(len(self.facts.phases)):
            draws = self._draws(phase, component, places)
            hits = sorted(self._hits(component, wanted, draws))
            found = ((self._place(phase, component, drawn), sequence) for drawn, sequence in hits)
            yield from sorted((place, sequence) for place, sequence in found if place in places)

    def step_of(self, place: int) -> int:
        """The step whose batch holds a place."""
        return place // self.facts.batch + 1

    def fed(self, steps: range) -> tuple[int, ...]:
        """How many sequences of each component ``steps`` fed."""
        begin, end = ((step - 1) * self.facts.batch for step in (steps.start, steps.stop))
        until, before = self._fed(end), self._fed(begin)
        return tuple(after - earlier for after, earlier in zip(until, before, strict=True))

    @cached_property
    def counts(self) -> tuple[tuple[int, ...], ...]:
        """Sequences of each component in a block, by phase: cut down, and what is left over for the largest.

        In floats of 64 bits, as Levanter multiplies. Components without weight in any phase do not take part.
        """
        used = [number for number, weights in enumerate(self._weights) if any(weights)]
        return tuple(_counts(phase.weights, used, self.facts.block) for phase in self.facts.phases)

    def _fed(self, place: int) -> tuple[int, ...]:
        """Sequences of each component before a place."""
        block, inside = divmod(place, self.facts.block)
        phase = self._phase_of(block)
        begun = [one for one, _ in _slots(self._keys[0], block, self.counts[phase])[:inside]] if inside else []
        blocks = block - self._starts[phase]
        return tuple(
            before + blocks * count + begun.count(number)
            for number, (before, count) in enumerate(zip(self._before[phase], self.counts[phase], strict=True))
        )

    def _hits(self, component: int, sequences: Iterable[int], draws: range) -> Iterator[tuple[int, int]]:
        """(draw, sequence) for the draws that give one of ``sequences``: one in every turn through the component."""
        shuffle, length = self._shuffles[component], self.facts.components[component].sequences
        for sequence in sequences:
            first = draws.start + (shuffle.back(sequence) - draws.start) % length
            yield from ((drawn, sequence) for drawn in range(first, draws.stop, length))

    def _draws(self, phase: int, component: int, places: range) -> range:
        """The draws of a component that a phase makes in the blocks of these places."""
        following = self._starts[phase + 1 : phase + 2]
        stop = min((-(-places.stop // self.facts.block), *following))
        start = max(places.start // self.facts.block, self._starts[phase])
        count, before = self.counts[phase][component], self._before[phase][component]
        first, after = (before + count * (block - self._starts[phase]) for block in (start, stop))
        return range(first, max(first, after))

    def _place(self, phase: int, component: int, drawn: int) -> int:
        blocks, slot = divmod(drawn - self._before[phase][component], self.counts[phase][component])
        block = self._starts[phase] + blocks
        return block * self.facts.block + _slot_places(self._keys[0], block, self.counts[phase])[component, slot]

    def _phase_of(self, block: int) -> int:
        return bisect_right(self._starts, block) - 1

    @cached_property
    def _weights(self) -> Sequence[tuple[int, ...]]:
        """The weights of each component, by phase."""
        return list(zip(*(phase.weights for phase in self.facts.phases), strict=True))

    @cached_property
    def _starts(self) -> tuple[int, ...]:
        """The first block of each phase."""
        return tuple(phase.first_step * self.facts.batch // self.facts.block for phase in self.facts.phases)

    @cached_property
    def _before(self) -> tuple[tuple[int, ...], ...]:
        """Sequences of each component that were drawn before each phase."""
        blocks = [after - start for start, after in pairwise(self._starts)]
        drawn = [tuple(count * number for count in counts) for counts, number in zip(self.counts, blocks, strict=False)]
        nothing = tuple(0 for _ in self.facts.components)
        return tuple(
            accumulate(drawn, lambda left, right: tuple(map(sum, zip(left, right, strict=True))), initial=nothing)
        )

    @cached_property
    def _keys(self) -> tuple[Key, Key]:
        """Of the mixture and of the shuffles: the seed is split in four for data, loader, model and training."""
        mixture, shuffle = Key.of_seed(self.facts.seed).split(4)[0].split()
        return mixture, shuffle

    @cached_property
    def _shuffles(self) -> tuple[BlockShuffle, ...]:
        """One shuffle a component: each takes the next key, whether it is drawn from or not."""
        key, found = self._keys[1], []
        block, window = self.facts.shuffle.io_block_sequences, self.facts.shuffle.window_blocks
        for one in self.facts.components:
            key, own = key.split()
            found.append(BlockShuffle(one.sequences, block, window, own))
        return tuple(found)


def id_bytes(ids: Iterable[Id]) -> bytes:
    """Ids as the order digest takes them: two little-endian words of 32 bits each."""
    return b"".join(struct.pack("<2I", *one) for one in ids)


def _counts(weights: Sequence[int], used: Sequence[int], block: int) -> tuple[int, ...]:
    total = float(sum(weights))
    counts = [int(weight / total * block) for weight in weights]
    largest = max(used, key=lambda number: (counts[number], -number))
    counts[largest] += block - sum(counts)
    return tuple(counts)


@lru_cache(maxsize=1024)
def _slots(key: Key, block: int, counts: tuple[int, ...]) -> Sequence[Id]:
    """For each place of a block the component and its how-manieth sequence in the block."""
    return key.fold_in(block).shuffled([(number, slot) for number, count in enumerate(counts) for slot in range(count)])


@lru_cache(maxsize=1024)
def _slot_places(key: Key, block: int, counts: tuple[int, ...]) -> Mapping[Id, int]:
    return {one: place for place, one in enumerate(_slots(key, block, counts))}
