"""The order of the data from its facts. The golden figures are Levanter's; ``test_order_replay`` asks it anew."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.core import canonical
from registry.core.order import Order, id_bytes
from registry.core.orderfacts import Component, OrderFacts, Phase, Shuffle
from registry.errors import MalformedRecord, Refused

FACTS = {
    "kind": "order",
    "schema": 1,
    "seed": 7,
    "components": [
        {"name": "a", "sequences": 50},
        {"name": "b", "sequences": 7},
        {"name": "c", "sequences": 33},
    ],
    "phases": [
        {"first_step": 0, "weights": [60, 39, 1], "sequences_per_block": [10, 6, 0]},
        {"first_step": 8, "weights": [1, 1, 2], "sequences_per_block": [4, 4, 8]},
    ],
    "steps": 20,
    "batch_sequences": 4,
    "block_sequences": 16,
    "sequence_tokens": 8,
    "shuffle": {"permutation": "feistel", "io_block_sequences": 4, "window_blocks": 3},
}
GENESIS = "247215eb099149c1d3b40edad53fc9c0301a2da1c38085dd2b89c69bf372080a"
LEVANTERS = {
    1: [(1, 0), (0, 5), (0, 19), (0, 6)],
    8: [(0, 28), (1, 2), (0, 31), (0, 7)],
    9: [(2, 21), (1, 1), (2, 4), (2, 10)],
    20: [(0, 20), (2, 14), (1, 2), (0, 26)],
}


def read(**changes: object) -> OrderFacts:
    return OrderFacts.read(canonical.encode({**FACTS, **changes}))


def test_batches_are_those_of_levanter():
    order = Order(read())
    assert {step: order.ids(step) for step in LEVANTERS} == LEVANTERS
    assert [list(counts) for counts in order.counts] == [one["sequences_per_block"] for one in FACTS["phases"]]
    assert order.facts.genesis == GENESIS


def test_facts_are_written_back_as_they_were_read():
    chain = {"after_step": 0, "previous": GENESIS}
    facts = OrderFacts.read(canonical.encode({**FACTS, "chain": chain, "later": 1}) + b"\n")
    assert facts.to_json() == {**FACTS, "later": 1}
    assert facts.chain is not None
    assert facts.chain.previous == GENESIS
    assert read().genesis == GENESIS != facts.genesis


@st.composite
def orders(draw: st.DrawFn) -> Order:
    count = draw(st.integers(1, 4))
    block, batch = draw(st.sampled_from([1, 2, 3, 8, 24])), draw(st.sampled_from([1, 2, 5, 8]))
    weights = st.lists(st.sampled_from([0, 1, 3, 40]), min_size=count, max_size=count).filter(any)
    unit = block // math.gcd(block, batch)
    starts = [0, unit * draw(st.integers(1, 3))][: draw(st.integers(1, 2))]
    facts = OrderFacts(
        seed=draw(st.integers(0, 2**31 - 1)),
        components=tuple(Component(name=f"c{one}", sequences=draw(st.integers(1, 60))) for one in range(count)),
        phases=tuple(Phase(first_step=start, weights=tuple(draw(weights)), told=()) for start in starts),
        steps=starts[-1] + draw(st.integers(1, 12)),
        batch=batch,
        block=block,
        sequence_tokens=8,
        shuffle=Shuffle(
            permutation="feistel",
            io_block_sequences=draw(st.sampled_from([1, 4, 16])),
            window_blocks=draw(st.sampled_from([1, 2, 512])),
        ),
    )
    return Order(facts)


@settings(max_examples=40)
@given(orders(), st.data())
def test_places_are_the_inverse_of_batches(order, data):
    steps = range(1, order.facts.steps + 1)
    fed = [one for step in steps for one in order.ids(step)]
    first = data.draw(st.integers(1, order.facts.steps))
    asked = range(first, data.draw(st.integers(first, order.facts.steps)) + 1)
    inside = range((asked.start - 1) * order.facts.batch, (asked.stop - 1) * order.facts.batch)
    for number, component in enumerate(order.facts.components):
        wanted = set(data.draw(st.lists(st.integers(0, component.sequences - 1), max_size=5)))
        expected = [(place, fed[place][1]) for place in inside if fed[place][0] == number and fed[place][1] in wanted]
        assert list(order.places(number, wanted, asked)) == expected
        everything = list(order.places(number, range(component.sequences), asked))
        assert [place for place, _ in everything] == [place for place in inside if fed[place][0] == number]
    assert dict(enumerate(order.fed(asked))) == {
        number: Counter(fed[place][0] for place in inside)[number] for number in range(len(order.facts.components))
    }
    assert all(order.step_of(place) in asked for place in inside)


@settings(max_examples=40)
@given(orders())
def test_a_component_is_gone_through_before_it_begins_anew(order):
    """In every turn each sequence stands once, so over whole blocks no two counts differ by more than one."""
    places = range(order.facts.steps * order.facts.batch // order.facts.block * order.facts.block)
    fed = Counter(order.at(place) for place in places)
    for number, component in enumerate(order.facts.components):
        times = [fed[number, sequence] for sequence in range(component.sequences)]
        assert max(times) - min(times) <= 1


def test_ids_are_packed_as_the_digest_takes_them():
    assert id_bytes([(1, 2), (0, 2**32 - 1)]) == bytes([1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255])


@pytest.mark.parametrize("step", [0, 21])
def test_a_step_that_the_run_does_not_have_is_refused(step):
    with pytest.raises(Refused, match="20"):
        Order(read()).ids(step)


def test_more_than_levanter_counts_is_refused():
    phases = [
        {"first_step": 0, "weights": [1, 0, 0], "sequences_per_block": [16, 0, 0]},
        {"first_step": 2**30, "weights": [1, 1, 1], "sequences_per_block": [6, 5, 5]},
    ]
    with pytest.raises(Refused, match="32 bits"):
        Order(read(phases=phases, steps=2**31))


PHASE = FACTS["phases"][0]


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "ordre"},
        {"schema": 2},
        {"seed": 2**31},
        {"seed": -1},
        {"seed": True},
        {"components": []},
        {"components": [{"name": "a", "sequences": 0}, *FACTS["components"][1:]]},
        {"components": [{"name": "b", "sequences": 5}, *FACTS["components"][1:]]},
        {"components": [{"name": "a", "sequences": 5, "more": 1}, *FACTS["components"][1:]]},
        {"phases": []},
        {"phases": [{**PHASE, "first_step": 4}]},
        {"phases": [PHASE, PHASE]},
        {"phases": [PHASE, {**PHASE, "first_step": 2}]},
        {"phases": [{**PHASE, "weights": [1, 2]}]},
        {"phases": [{**PHASE, "weights": [0, 0, 0]}]},
        {"phases": [{**PHASE, "weights": [1, 2, "3"]}]},
        {"phases": [{**PHASE, "weights": [1, 2, -3]}]},
        {"phases": [{**PHASE, "weights": 3}]},
        {"steps": 0},
        {"batch_sequences": 0},
        {"batch_sequences": 2**21},
        {"block_sequences": 2**16},
        {"sequence_tokens": 0},
        {"shuffle": {**FACTS["shuffle"], "permutation": "linear"}},
        {"shuffle": {**FACTS["shuffle"], "window_blocks": 0}},
        {"chain": {"after_step": 0, "previous": "x" * 64}},
        {"chain": {"after_step": 0, "previous": "ab"}},
        {"chain": 3},
    ],
    ids=lambda changes: json.dumps(changes)[:40],
)
def test_facts_that_no_run_can_have_had_are_refused(changes):
    with pytest.raises(MalformedRecord):
        read(**changes)


@pytest.mark.parametrize("missing", sorted(FACTS))
def test_a_missing_fact_is_refused(missing):
    with pytest.raises(MalformedRecord):
        OrderFacts.read(canonical.encode({name: one for name, one in FACTS.items() if name != missing}))


@pytest.mark.parametrize("data", [b"", b"[]", b"3", b"{", b'{"kind":"order" }', b"\xff"])
def test_what_is_no_order_is_refused(data):
    with pytest.raises(MalformedRecord):
        OrderFacts.read(data)


def test_components_without_any_weight_take_no_part():
    """The remainder of a block that is too small for any goes to one that is drawn from at all."""
    phases = (Phase(first_step=0, weights=(0, 1, 1), told=()),)
    facts = replace(read(), phases=phases, block=1)
    assert Order(facts).counts == ((0, 1, 0),)
