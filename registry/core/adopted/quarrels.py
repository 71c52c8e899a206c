"""Quarrels: claims about one thing, or about neighbours, that cannot all be true. Found from the claims alone.

Nothing here knows a figure of any run. Each rule compares what is told, and what follows from it, and says which of it
stands against which. Without one side there is no quarrel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from registry.core.adopted.arithmetic import derived, impossible, rung_of
from registry.core.adopted.claims import Said, agree, camps, number, sides
from registry.core.adopted.record import Bond, Ended
from registry.core.adopted.shelf import Shelf, Thing

SHAPE = "shape"
LOSSES = "losses"
_LIMITED = ("last_step", "reached_step", "phase_switch_step")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarrel:
    """Two groups of claims about ``quantity`` of ``thing`` that cannot be true together."""

    thing: str
    quantity: str
    text: str
    one: str
    other: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """All figures of a thing: the quarrels, what was derived and agrees, what several or single sources tell."""

    quarrels: tuple[Quarrel, ...]
    confirmed: tuple[str, ...]
    shared: tuple[str, ...]
    single: tuple[str, ...]


def weigh(thing: Thing, shelf: Shelf) -> Weighed:
    """Hold the claims of a thing against each other and against the arithmetic."""
    own = list(derived(thing, shelf))
    found: list[Quarrel] = []
    confirmed: list[str] = []
    shared: list[str] = []
    single: list[str] = []
    for quantity, told in thing.said.items():
        ours = [one for one in own if one.quantity == quantity]
        groups = camps([*told, *ours])
        if len(groups) > 1:
            found += _quarrels(thing, quantity, groups)
        elif ours:
            confirmed.append(quantity)
        else:
            (shared if len({one.source for one in told}) > 1 else single).append(quantity)
    found += _across(thing)
    return Weighed(quarrels=tuple(found), confirmed=tuple(confirmed), shared=tuple(shared), single=tuple(single))


def falling(runs: Sequence[Thing]) -> Iterator[Quarrel]:
    """A larger run of a ladder that is said to end no better than a smaller one, by the FLOPs of their shapes."""
    ended = [(rung.flops, run) for run in runs if (rung := rung_of(run)) and run.said.get("final_loss")]
    for (_, smaller), (_, larger) in pairwise(sorted(ended, key=lambda pair: (pair[0], pair[1].name))):
        one, other = smaller.said["final_loss"][0], larger.said["final_loss"][0]
        first, second = number(one.value), number(other.value)
        if first is not None and second is not None and second >= first:
            text = f"{larger.name} is larger than {smaller.name} and is said to end no better."
            yield Quarrel(thing=larger.name, quantity=LOSSES, text=text, one=sides([one]), other=sides([other]))


def _quarrels(thing: Thing, quantity: str, groups: Sequence[Sequence[Said]]) -> Iterator[Quarrel]:
    """The largest group against each of the others."""
    told = [sides(group) for group in groups]
    for other in told[1:]:
        text = f"{_words(quantity)} of {thing.name}: {told[0]} against {other}."
        yield Quarrel(thing=thing.name, quantity=quantity, text=text, one=told[0], other=other)


def _across(thing: Thing) -> Iterator[Quarrel]:
    """Rules over several quantities of one thing."""
    why = impossible(thing)
    if why is not None:
        text = f"No model has the shape that is told of {thing.name}: {why}"
        yield Quarrel(thing=thing.name, quantity=SHAPE, text=text, one="as told", other="refused by the arithmetic")
    if thing.ended is not Ended.RUNNING:
        yield from _trained(thing)
    yield from _beyond(thing)


def _trained(thing: Thing) -> Iterator[Quarrel]:
    """The tokens that a run is listed with, and those that it is said to have seen."""
    for listed in thing.said.get("tokens", ()):
        for seen in thing.said.get("trained_tokens", ()):
            if not agree(listed, seen):
                text = f"tokens of {thing.name}: {sides([listed])} against {sides([seen])}; it ended {thing.ended}."
                yield Quarrel(thing=thing.name, quantity="tokens", text=text, one=sides([listed]), other=sides([seen]))


def _beyond(thing: Thing) -> Iterator[Quarrel]:
    """Steps beyond the end of the run."""
    wholes = [one for one in thing.said.get("steps", ()) if number(one.value) is not None]
    for quantity in _LIMITED:
        for reached in thing.said.get(quantity, ()):
            value = number(reached.value)
            over = [one for one in wholes if value is not None and (number(one.value) or 0) < value]
            if wholes and len(over) == len(wholes):
                text = f"{_words(quantity)} of {thing.name} lies beyond its steps."
                yield Quarrel(thing=thing.name, quantity=quantity, text=text, one=sides(over), other=sides([reached]))


def rests(forecast: Thing, shelf: Shelf) -> Iterable[Thing]:
    """The runs that a forecast rests on, as far as they are told of."""
    return (shelf.things[link.name] for link in forecast.bound(Bond.REST) if link.name in shelf.things)


def _words(quantity: str) -> str:
    return quantity.replace("_", " ")
