"""Our order beside Levanter's own: its mixture, shuffles, sequences and loader over real caches, example by example."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
from levanter.data import AsyncDataset
from levanter.data.loader import DataLoader
from levanter.utils.thread_utils import blocking_wait

from registry.adapters.token_streams import TokenStreams
from registry.core import canonical, transcript
from registry.core.documents import Split
from registry.core.order import Order, id_bytes
from registry.core.orderfacts import OrderFacts
from registry.core.orderproof import chained
from registry.core.permutations import BlockShuffle, Feistel
from registry.core.threefry import Key
from train import order as training
from train.caches import open_sequences
from train.data.store import joined, write_cache

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:Dataset .* has 0 samples")]

LENGTH = 16
TRAINED = training.Order(
    seed=3,
    components=("code", "math", "prose"),
    lengths=(1, 1, 1),  # those of the caches, in the fixture
    weights=((60, 39, 1), (20, 80, 0)),
    switch_step=12,
    steps=40,
    batch_sequences=8,
    block_sequences=32,
    sequence_tokens=LENGTH,
    io_block_sequences=4,
    window_blocks=3,
)


class Numbered(AsyncDataset[dict[str, np.ndarray]]):
    """Levanter's own sequences of a cache, each with the number of its component and its index."""

    def __init__(self, sequences: AsyncDataset, number: int) -> None:
        super().__init__()
        self.sequences, self.number = sequences, number

    async def async_len(self) -> int:
        return await self.sequences.async_len()

    def is_finite(self) -> bool:
        return True

    async def get_batch(self, indices: Sequence[int]) -> Sequence[dict[str, np.ndarray]]:
        rows = await self.sequences.get_batch(indices)
        return [
            {"tokens": np.asarray(row["input_ids"], np.int32), "id": np.asarray([self.number, index], np.uint32)}
            for index, row in zip(indices, rows, strict=True)
        ]


@pytest.fixture(scope="module")
def caches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Caches of three components as the stage ``tokens`` writes them; the smallest is gone through several times."""
    root, dice = tmp_path_factory.mktemp("caches"), np.random.default_rng(5)
    for name, documents in (("code", 60), ("math", 9), ("prose", 30)):
        texts = [dice.integers(0, 4096, size=dice.integers(1, 90)).astype(np.int32) for _ in range(documents)]
        write_cache(root / "artifacts/tokens" / name / "train", joined(texts), name="train", metadata={})
    return root


def sequences(caches: Path, name: str) -> AsyncDataset:
    return open_sequences(caches / "artifacts/tokens" / name, "train", LENGTH)


@pytest.fixture(scope="module")
def trained(caches: Path) -> training.Order:
    lengths = (blocking_wait(sequences(caches, name).async_len()) for name in TRAINED.components)
    return replace(TRAINED, lengths=tuple(lengths))


def told(order: training.Order) -> Order:
    """Our order, from the facts as a stage writes them."""
    return Order(OrderFacts.read(canonical.encode(order.facts())))


def test_batches_are_those_of_levanters_loader(caches, trained):
    """Ids, tokens and order digests of every step, through the switch of phases and several turns of a component."""
    numbered = {name: Numbered(sequences(caches, name), at) for at, name in enumerate(trained.components)}
    mesh = jax.sharding.Mesh(np.asarray(jax.devices()[:1]), ("data",))
    loader = DataLoader(trained.mixture(numbered), trained.batch_sequences, mesh=mesh, axis_resources={"batch": "data"})
    order, streams, before = told(trained), TokenStreams(caches), trained.genesis
    assert before == order.facts.genesis
    batches = loader.iter_from_step(0)
    fed = set()
    for step in range(1, trained.steps + 1):
        batch = next(batches)
        assert [tuple(one) for one in np.asarray(batch["id"]).tolist()] == order.ids(step)
        found = chained(
            order, step, before, lambda name, spans: streams.read(f"artifacts/tokens/{name}", Split.TRAIN, spans)
        )
        ids, tokens = np.ascontiguousarray(batch["id"], "<u4"), np.ascontiguousarray(batch["tokens"], "<i4")
        before = transcript.chain(before, ids.tobytes(), tokens.tobytes())
        assert found == before
        fed.update(order.ids(step))
    draws = order.fed(range(1, trained.steps + 1))
    assert draws[1] > 3 * trained.lengths[1]
    assert order.counts == ((20, 12, 0), (6, 26, 0))


def test_random_orders_are_those_of_levanter():
    dice = random.Random(17)
    for _ in range(10):
        order = _random_order(dice)
        mine = told(order)
        facts = order.facts()
        assert [list(one) for one in mine.counts] == [phase["sequences_per_block"] for phase in facts["phases"]]
        places = range(order.steps * order.batch_sequences)
        theirs = np.stack(blocking_wait(order.indices().get_batch(places))).tolist()
        assert [list(mine.at(place)) for place in places] == theirs


def _random_order(dice: random.Random) -> training.Order:
    count, block, batch = dice.randint(1, 5), dice.choice([1, 2, 3, 8, 64, 100]), dice.choice([1, 2, 5, 16])
    phases = dice.randint(1, 2)
    weights = [[dice.choice([0, 0, 1, 3, 40]) for _ in range(count - 1)] + [dice.randint(1, 9)] for _ in range(phases)]
    switch = block * dice.randint(1, 3) if phases == 2 else 0
    return training.Order(
        seed=dice.randrange(2**31),
        components=tuple(f"c{one}" for one in range(count)),
        lengths=tuple(dice.randint(1, 200) for _ in range(count)),
        weights=tuple(map(tuple, weights)),
        switch_step=switch,
        steps=switch + dice.randint(1, 20),
        batch_sequences=batch,
        block_sequences=block,
        sequence_tokens=8,
        io_block_sequences=dice.choice([1, 4, 16]),
        window_blocks=dice.choice([1, 2, 512]),
    )


def test_the_generator_is_jaxs_own():
    for seed in (0, 1, 12345, 2**31 - 1):
        theirs, mine = jax.random.PRNGKey(seed), Key.of_seed(seed)
        assert [tuple(map(int, one)) for one in jax.random.split(theirs, 5)] == [(k.high, k.low) for k in mine.split(5)]
        folded = mine.fold_in(seed)
        assert tuple(map(int, jax.random.fold_in(theirs, seed))) == (folded.high, folded.low)
        assert int(jax.random.randint(theirs, (), 0, 2**30)) == mine.below_2_30()
        for count in (1, 64, 1700):  # none, one and two rounds of sorting
            assert jax.random.permutation(theirs, np.arange(count)).tolist() == mine.shuffled(range(count))


def test_the_shuffles_are_levanters_own():
    from levanter.data._prp import FeistelPermutation
    from levanter.data.dataset import ListAsyncDataset

    key = jax.random.PRNGKey(9)
    for length in (1, 2, 3, 100, 4097, 2**33 + 5):
        theirs, mine = FeistelPermutation(length, key), Feistel.of(length, Key.of_seed(9))
        assert all(theirs(one) == mine(one) for one in range(0, length, max(1, length // 40)))
    for length, block, window in ((1, 4, 2), (16, 16, 2), (33, 16, 1), (160, 16, 3), (999, 4, 512)):
        dataset = ListAsyncDataset(list(range(length)))
        theirs = dataset.block_shuffle(io_block_size=block, window_blocks=window, key=key, perm_type="feistel")
        shuffle = BlockShuffle(length, block, window, Key.of_seed(9))
        assert blocking_wait(theirs.get_batch(range(length))) == [shuffle(place) for place in range(length)]


def test_ids_are_packed_as_training_packs_them():
    ids = [(0, 5), (2, 2**31)]
    assert id_bytes(ids) == np.asarray(ids, np.uint32).astype("<u4").tobytes()
