"""The facts of a data order, as a trained stage writes them into ``order.json``: integers only, no token.

Pure. Refuses facts that Levanter would not take, sizes beyond what it counts with, and numbers of another kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from registry.core import canonical
from registry.core.canonical import Json
from registry.core.codec import Reader, opened
from registry.core.digests import record_digest
from registry.core.transcript import LARGEST_STEP
from registry.errors import MalformedRecord

KIND: Final = "order"
SCHEMA: Final = 1
PERMUTATION: Final = "feistel"
MOST_COMPONENTS: Final = 4096
MOST_PHASES: Final = 64
LARGEST_BLOCK: Final = 2**16 - 1
LARGEST_BATCH: Final = 2**20
LARGEST_COUNT: Final = 2**31 - 1
_CHAIN: Final = "chain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """One source of sequences. Its number is its place in the order."""

    name: str
    sequences: int

    @classmethod
    def read(cls, reader: Reader) -> Component:
        one = cls(name=reader.text("name"), sequences=reader.integer("sequences"))
        reader.close()
        return one


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """Weights from after one step on, one a component; ``told`` is what the facts say of the counts in a block."""

    first_step: int
    weights: tuple[int, ...]
    told: tuple[int, ...]

    @classmethod
    def read(cls, reader: Reader) -> Phase:
        one = cls(
            first_step=reader.integer("first_step"),
            weights=_numbers(reader, "weights"),
            told=_numbers(reader, "sequences_per_block"),
        )
        reader.close()
        return one


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """Where a segment's order digests begin: after which step, and from which digest."""

    after_step: int
    previous: str

    @classmethod
    def read(cls, reader: Reader) -> Chain:
        one = cls(after_step=reader.integer("after_step"), previous=reader.text("previous"))
        reader.close()
        if len(one.previous) != 64 or one.previous.strip("0123456789abcdef"):
            raise MalformedRecord("The chain of an order begins from something that is no digest.")
        return one


@dataclass(frozen=True, slots=True, kw_only=True)
class Shuffle:
    """How every component is shuffled: sequences in a block, and blocks in a window."""

    permutation: str
    io_block_sequences: int
    window_blocks: int

    @classmethod
    def read(cls, reader: Reader) -> Shuffle:
        one = cls(
            permutation=reader.text("permutation"),
            io_block_sequences=reader.integer("io_block_sequences"),
            window_blocks=reader.integer("window_blocks"),
        )
        reader.close()
        return one


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderFacts:
    """An ``order.json``: the seed, the components in their order, weights by phase, and sizes in sequences."""

    seed: int
    components: tuple[Component, ...]
    phases: tuple[Phase, ...]
    steps: int
    batch: int
    block: int
    sequence_tokens: int
    shuffle: Shuffle
    chain: Chain | None = None
    extra: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_components(self)
        _check_sizes(self)
        _check_phases(self)

    @classmethod
    def read(cls, data: bytes) -> OrderFacts:
        """Read the bytes of an ``order.json``. Raises ``MalformedRecord`` for facts that no run can have had."""
        value = canonical.decode(data.removesuffix(b"\n"))
        reader = opened(value, KIND, SCHEMA)
        return cls(
            seed=reader.integer("seed"),
            components=reader.objects("components", Component.read),
            phases=reader.objects("phases", Phase.read),
            steps=reader.integer("steps"),
            batch=reader.integer("batch_sequences"),
            block=reader.integer("block_sequences"),
            sequence_tokens=reader.integer("sequence_tokens"),
            shuffle=reader.object("shuffle", Shuffle.read),
            chain=reader.object(_CHAIN, Chain.read) if isinstance(value, Mapping) and _CHAIN in value else None,
            extra=reader.rest(),
        )

    def to_json(self) -> dict[str, Json]:
        """The facts as they are written, without the chain."""
        return {
            **self.extra,
            "kind": KIND,
            "schema": SCHEMA,
            "seed": self.seed,
            "components": [{"name": one.name, "sequences": one.sequences} for one in self.components],
            "phases": [
                {"first_step": one.first_step, "weights": list(one.weights), "sequences_per_block": list(one.told)}
                for one in self.phases
            ],
            "steps": self.steps,
            "batch_sequences": self.batch,
            "block_sequences": self.block,
            "sequence_tokens": self.sequence_tokens,
            "shuffle": {
                "permutation": self.shuffle.permutation,
                "io_block_sequences": self.shuffle.io_block_sequences,
                "window_blocks": self.shuffle.window_blocks,
            },
        }

    @property
    def genesis(self) -> str:
        """The digest of the facts, from which the order digests of a run begin."""
        return record_digest(self.to_json()).hex

    @property
    def names(self) -> tuple[str, ...]:
        """The components in their order."""
        return tuple(one.name for one in self.components)


def _check_components(facts: OrderFacts) -> None:
    names = facts.names
    _require(1 <= len(names) <= MOST_COMPONENTS, f"has {len(names)} components")
    _require(len(set(names)) == len(names), "names a component twice")
    for one in facts.components:
        _require(1 <= one.sequences <= LARGEST_COUNT, f"gives the component {one.name} {one.sequences} sequences")


def _check_sizes(facts: OrderFacts) -> None:
    _require(facts.seed < 2**31, f"has the seed {facts.seed}, which does not fit 31 bits")
    _require(1 <= facts.steps <= LARGEST_STEP, f"has {facts.steps} steps")
    _require(1 <= facts.batch <= LARGEST_BATCH, f"has batches of {facts.batch} sequences")
    _require(1 <= facts.block <= LARGEST_BLOCK, f"has blocks of {facts.block} sequences")
    _require(1 <= facts.sequence_tokens <= LARGEST_COUNT, f"has sequences of {facts.sequence_tokens} tokens")
    _require(facts.shuffle.permutation == PERMUTATION, f"shuffles by {facts.shuffle.permutation!r}, which is unknown")
    sizes = (facts.shuffle.io_block_sequences, facts.shuffle.window_blocks)
    _require(all(1 <= size <= LARGEST_COUNT for size in sizes), f"shuffles in sizes of {sizes}")


def _check_phases(facts: OrderFacts) -> None:
    phases = facts.phases
    _require(1 <= len(phases) <= MOST_PHASES and phases[0].first_step == 0, "has no phase from the first step on")
    for phase in phases:
        _require(len(phase.weights) == len(facts.components), "has a phase without a weight for every component")
        _require(0 < sum(phase.weights) <= LARGEST_COUNT, "has a phase without weight")
        whole = phase.first_step * facts.batch % facts.block == 0
        _require(whole, f"has a phase that begins inside a block, after step {phase.first_step}")
    starts = [phase.first_step for phase in phases]
    _require(all(one < after for one, after in pairwise(starts)), "has phases out of order")


def _require(holds: bool, complaint: str) -> None:
    if not holds:
        raise MalformedRecord(f"The order {complaint}.", remedy="No run can have been fed like that.")


def _numbers(reader: Reader, name: str) -> tuple[int, ...]:
    values = reader.raw(name)
    if not isinstance(values, list | tuple) or len(values) > MOST_COMPONENTS:
        raise MalformedRecord(f"The {name} of a phase are no list of numbers.")
    if any(isinstance(one, bool) or not isinstance(one, int) or one < 0 for one in values):
        raise MalformedRecord(f"The {name} of a phase are not all numbers, zero or more.")
    return tuple(one for one in values if isinstance(one, int))
