"""The order of the data: a pure function of the step, made by Levanter's own mixture and shuffles.

Every example carries its id (component, sequence index in the component's cache) beside its tokens, through shuffles
and mixture, so that what a batch was made of is observed, not inferred. The same objects built over :class:`Indices`
tell the order without any tokens. Refuses components without sequences and phases without weight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, cast

import jax
import numpy as np
from levanter.data import AsyncDataset
from levanter.data.mixture import MixtureDataset, StopStrategy
from levanter.data.text import TokenSeqDataset
from levanter.utils.jax_utils import key_iterator, local_cpu_mesh
from levanter.utils.thread_utils import blocking_wait

from registry.core.canonical import Json
from registry.core.digests import record_digest
from registry.core.ladder import Rung
from registry.errors import Refused
from train.settings import mapping, mappings, texts, whole

ID_WORDS = 2


class Example(TypedDict):
    """``tokens``: int32 [position]; ``id``: uint32 [2], the component's number and the sequence's index in it."""

    tokens: np.ndarray
    id: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The random keys of a run, split from the seed as ``levanter.main.train_lm`` does."""

    mixture: jax.Array
    shuffle: jax.Array
    model: jax.Array
    training: jax.Array

    @classmethod
    def of(cls, seed: int) -> Keys:
        """Split the seed."""
        data, _, model, training = jax.random.split(jax.random.PRNGKey(seed), 4)
        mixture, shuffle = jax.random.split(data)
        return cls(mixture=mixture, shuffle=shuffle, model=model, training=training)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Everything that the order of the data depends on.

    ``components`` and ``lengths`` (sequences) are in the order of their numbers; ``weights`` are those of each phase.
    """

    seed: int
    components: tuple[str, ...]
    lengths: tuple[int, ...]
    weights: tuple[tuple[int, ...], ...]
    switch_step: int
    steps: int
    batch_sequences: int
    block_sequences: int
    sequence_tokens: int
    io_block_sequences: int
    window_blocks: int

    def __post_init__(self) -> None:
        if min(self.lengths, default=0) < 1 or len(set(self.components)) != len(self.components):
            raise Refused("Every component of the order needs a name of its own and at least one sequence.")
        if any(sum(phase) <= 0 or len(phase) != len(self.components) for phase in self.weights):
            raise Refused("Every phase of the order needs a weight for each component.", remedy="Correct order.phases.")

    def mixture(self, datasets: Mapping[str, AsyncDataset]) -> MixtureDataset:
        """Levanter's mixture over ``datasets`` by component, each shuffled in windows of blocks."""
        keys = Keys.of(self.seed)
        shuffle_keys = key_iterator(keys.shuffle)
        shuffled = {
            name: datasets[name].block_shuffle(
                io_block_size=self.io_block_sequences,
                window_blocks=self.window_blocks,
                key=next(shuffle_keys),
                perm_type="feistel",
            )
            for name in self.components
        }
        starts = [0, self.switch_step * self.batch_sequences][: len(self.weights)]
        named = [dict(zip(self.components, map(float, phase), strict=True)) for phase in self.weights]
        return MixtureDataset(
            datasets=shuffled,
            weights=list(zip(starts, named, strict=True)),
            block_size=self.block_sequences,
            key=keys.mixture,
            stop_strategy=StopStrategy.RESTART_STRATEGY,
        )

    def indices(self) -> MixtureDataset:
        """The mixture over ids alone."""
        return self.mixture(
            {name: Indices(number, self.lengths[number]) for number, name in enumerate(self.components)}
        )

    def ids(self, step: int) -> np.ndarray:
        """Ids of the batch that makes update ``step + 1``: uint32 [batch_sequences, 2]."""
        return np.stack(self.rows(self.indices(), step))

    def rows(self, mixture: MixtureDataset, step: int) -> Sequence[Any]:
        """The examples of the batch that makes update ``step + 1``."""
        first = step * self.batch_sequences
        with local_cpu_mesh():
            return blocking_wait(mixture.get_batch(range(first, first + self.batch_sequences)))

    def counts(self) -> list[list[int]]:
        """Sequences of each component in one mixture block, by phase, counted in the first block of the phase."""
        mixture, starts = self.indices(), (0, self.switch_step * self.batch_sequences)
        blocks = [
            np.stack(blocking_wait(mixture.get_batch(range(start, start + self.block_sequences))))
            for start in starts[: len(self.weights)]
        ]
        return [np.bincount(block[:, 0], minlength=len(self.components)).tolist() for block in blocks]

    def facts(self) -> dict[str, Json]:
        """The order as a canonical value, integers only: enough to make it again without any token."""
        counts = self.counts()
        starts = (0, self.switch_step)
        return {
            "kind": "order",
            "schema": 1,
            "seed": self.seed,
            "components": [
                {"name": name, "sequences": length} for name, length in zip(self.components, self.lengths, strict=True)
            ],
            "phases": [
                {"first_step": start, "weights": list(weights), "sequences_per_block": found}
                for start, weights, found in zip(starts, self.weights, counts, strict=False)
            ],
            "steps": self.steps,
            "batch_sequences": self.batch_sequences,
            "block_sequences": self.block_sequences,
            "sequence_tokens": self.sequence_tokens,
            "shuffle": {
                "permutation": "feistel",
                "io_block_sequences": self.io_block_sequences,
                "window_blocks": self.window_blocks,
            },
        }

    @property
    def genesis(self) -> str:
        """The order digest before the first batch: the digest of the facts."""
        return record_digest(self.facts()).hex


class Sequences(AsyncDataset[Example]):
    """The sequences of one component, each with its id."""

    def __init__(self, sequences: TokenSeqDataset, component: int) -> None:
        super().__init__()
        self._sequences, self._component = sequences, component

    async def async_len(self) -> int:
        """The number of sequences."""
        return await self._sequences.async_len()

    def is_finite(self) -> bool:
        """Always."""
        return True

    async def get_batch(self, indices: Sequence[int]) -> Sequence[Example]:
        """The examples at ``indices``."""
        found = await self._sequences.get_batch(indices)
        return [
            Example(
                tokens=np.asarray(row["input_ids"], np.int32),
                id=np.asarray([self._component, index], np.uint32),
            )
            for index, row in zip(indices, found, strict=True)
        ]


class Indices(AsyncDataset[np.ndarray]):
    """The ids of one component without its tokens: uint32 [2] each."""

    def __init__(self, component: int, length: int) -> None:
        super().__init__()
        self._component, self._length = component, length

    async def async_len(self) -> int:
        """The number of sequences."""
        return self._length

    def is_finite(self) -> bool:
        """Always."""
        return True

    async def get_batch(self, indices: Sequence[int]) -> Sequence[np.ndarray]:
        """The ids at ``indices``."""
        return [np.asarray([self._component, index], np.uint32) for index in indices]


def order(settings: Mapping[str, Json], rung: Rung, lengths: Mapping[str, int], *, sequence_tokens: int) -> Order:
    """The order of a rung's run. ``settings`` is the section ``order``; ``lengths`` are sequences by component.

    Raises ``Refused`` for a component without sequences, and a phase that does not weigh exactly the components.
    """
    components = texts(settings, "components")
    phases = mappings(settings, "phases")
    if len(phases) not in (1, 2) or any(set(phase) != set(components) for phase in phases):
        raise Refused(
            "The section order needs one or two phases, each with a weight for every component.",
            remedy="Correct order.phases in params.yaml.",
        )
    shuffle = mapping(settings, "shuffle")
    return Order(
        seed=whole(settings, "seed"),
        components=components,
        lengths=tuple(lengths[name] for name in components),
        weights=tuple(tuple(whole(phase, name) for name in components) for phase in phases),
        switch_step=rung.phase_switch_step,
        steps=rung.steps,
        batch_sequences=rung.batch_sequences,
        block_sequences=whole(settings, "block_sequences", least=1),
        sequence_tokens=sequence_tokens,
        io_block_sequences=whole(shuffle, "io_block_sequences", least=1),
        window_blocks=whole(shuffle, "window_blocks", least=1),
    )


def read_order(facts: Mapping[str, Json]) -> Order:
    """The order that ``facts`` (of an ``order.json``) tell.

    Raises ``Refused`` for anything that :class:`Order` refuses.
    """
    components, phases = mappings(facts, "components"), mappings(facts, "phases")
    shuffle = mapping(facts, "shuffle")
    return Order(
        seed=whole(facts, "seed"),
        components=tuple(cast(str, one["name"]) for one in components),
        lengths=tuple(whole(one, "sequences", least=1) for one in components),
        weights=tuple(tuple(cast(Any, phase["weights"])) for phase in phases),
        switch_step=whole(phases[-1], "first_step"),
        steps=whole(facts, "steps", least=1),
        batch_sequences=whole(facts, "batch_sequences", least=1),
        block_sequences=whole(facts, "block_sequences", least=1),
        sequence_tokens=whole(facts, "sequence_tokens", least=1),
        io_block_sequences=whole(shuffle, "io_block_sequences", least=1),
        window_blocks=whole(shuffle, "window_blocks", least=1),
    )
