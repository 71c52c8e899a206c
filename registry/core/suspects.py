"""Orders that differ from a given one in a single fact: what a run may have been fed by instead.

They are tried when a batch cannot be made again, so that the fact which was altered can be named. Pure. Leaves out what
no run can have had; a seed or size far from the usual is not found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice, permutations
from typing import Final

from registry.core.canonical import Json
from registry.core.order import Order
from registry.core.orderfacts import OrderFacts
from registry.errors import ReckonError

MOST_SEEDS: Final = 64
MOST_ARRANGEMENTS: Final = 720
NEAR: Final = 16
SIZES: Final = tuple(sorted({factor * 2**power for power in range(15) for factor in (1, 3)}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """An order in which the fact ``name`` has another value."""

    name: str
    value: Json
    order: Order


def named_facts(facts: OrderFacts) -> dict[str, Json]:
    """The facts that decide an order, by the name that people give them."""
    return {
        "seed": facts.seed,
        "component order": list(facts.names),
        "weights": [list(phase.weights) for phase in facts.phases],
        "block size": facts.block,
        "batch size": facts.batch,
        "sequence length": facts.sequence_tokens,
        "shuffle block": facts.shuffle.io_block_sequences,
        "shuffle window": facts.shuffle.window_blocks,
        "steps": facts.steps,
    }


def suspects(facts: OrderFacts, streams: Mapping[str, int]) -> Iterator[Suspect]:
    """Orders that differ from ``facts`` in one thing. ``streams`` are the components' tokens, by name."""
    own = named_facts(facts)
    for name, changes in _changes(facts, streams):
        try:
            order = _order(facts, changes)
        except ReckonError:
            continue
        value = named_facts(order.facts)[name]
        if value != own[name]:
            yield Suspect(name=name, value=value, order=order)


def _changes(facts: OrderFacts, streams: Mapping[str, int]) -> Iterator[tuple[str, dict[str, object]]]:
    for arranged in islice(permutations(range(len(facts.components))), MOST_ARRANGEMENTS):
        yield "component order", _arranged(facts, arranged)
    if len(facts.phases) > 1:
        weights = [phase.weights for phase in reversed(facts.phases)]
        phases = tuple(replace(phase, weights=own) for phase, own in zip(facts.phases, weights, strict=True))
        yield "weights", {"phases": phases}
    for seed in range(MOST_SEEDS):
        yield "seed", {"seed": seed}
    for size in _near(facts.sequence_tokens):
        yield "sequence length", _cut(facts, streams, size)
    for size in _near(facts.block):
        yield "block size", {"block": size}
    for size in _near(facts.batch):
        yield "batch size", {"batch": size}
    for size in SIZES:
        yield "shuffle block", {"shuffle": replace(facts.shuffle, io_block_sequences=size)}
        yield "shuffle window", {"shuffle": replace(facts.shuffle, window_blocks=size)}


def _near(own: int) -> Iterator[int]:
    """Sizes that are not many times smaller or larger."""
    return (size for size in SIZES if own <= size * NEAR and size <= own * NEAR)


def _order(facts: OrderFacts, changes: dict[str, object]) -> Order:
    """The order of changed facts, whose counts follow from the others."""
    changed = Order(replace(facts, **changes))  # type: ignore[arg-type]  # fields of OrderFacts by their names
    counted = zip(changed.facts.phases, changed.counts, strict=True)
    return Order(replace(changed.facts, phases=tuple(replace(phase, told=counts) for phase, counts in counted)))


def _arranged(facts: OrderFacts, numbers: tuple[int, ...]) -> dict[str, object]:
    phases = (replace(phase, weights=tuple(phase.weights[one] for one in numbers)) for phase in facts.phases)
    return {"components": tuple(facts.components[one] for one in numbers), "phases": tuple(phases)}


def _cut(facts: OrderFacts, streams: Mapping[str, int], length: int) -> dict[str, object]:
    """The same streams, cut into sequences of another length."""
    components = (replace(one, sequences=streams.get(one.name, 0) // length) for one in facts.components)
    return {"sequence_tokens": length, "components": tuple(components)}
