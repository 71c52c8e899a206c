"""The segments of a foreign run as a chain: whether they follow each other, and whether each one's parent is kept.

A checkpoint is durable only where a copy is told of that no clean-up takes: one kept for good, or a step on the grid of
permanent checkpoints that the run names. What is told to be deleted or temporary is lost. Refuses nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from registry.core.adopted.absence import Lost
from registry.core.adopted.record import Bond, Link
from registry.core.adopted.shelf import Shelf, Thing

PERMANENT = "permanent"
EVERY, ALSO = "permanent_checkpoint_every", "permanent_checkpoint_at"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A segment with its steps; ``last`` is None while it runs."""

    thing: Thing
    first: int
    last: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """Where two neighbours of a chain do not fit. ``one`` and ``other`` are the two sides."""

    thing: str
    text: str
    one: str
    other: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What is known of a parent checkpoint: whether some durable copy is told of, and why or why not.

    ``why`` goes on from the checkpoint's name. ``broken`` is set when what is told cannot be true.
    """

    durable: bool
    why: str
    broken: bool = False


def spans(run: Thing, shelf: Shelf) -> tuple[Span, ...]:
    """The segments of a run that say where they begin, in the order of their steps."""
    parts = [shelf.things[link.name] for link in run.bound(Bond.PART) if link.name in shelf.things]
    told = [(first, part.whole("last_step"), part) for part in parts if (first := part.whole("first_step")) is not None]
    ordered = sorted(told, key=lambda one: (one[0], one[1] if one[1] is not None else one[0], one[2].name))
    return tuple(Span(thing=part, first=first, last=last) for first, last, part in ordered)


def breaks(run: Thing, shelf: Shelf) -> Iterator[Break]:
    """Gaps, overlaps, parents that are not the end of the segment before, and ends beyond the run's."""
    chain = spans(run, shelf)
    told = {span.thing.name for span in chain}
    for link in run.bound(Bond.PART):
        if link.name not in told:
            yield Break(
                thing=link.name,
                text=f"{link.name} is a part of {run.name}, and nothing tells where it begins.",
                one=f"a part of {run.name}",
                other="no first step",
            )
    if chain and chain[0].first != 0:
        head = chain[0]
        yield _apart(head.thing.name, f"{run.name} begins", 0, head.first)
    for before, after in pairwise(chain):
        yield from _joint(before, after)
    yield from _open(chain)


def _joint(before: Span, after: Span) -> Iterator[Break]:
    if before.last is not None and before.last != after.first:
        yield _apart(after.thing.name, f"{before.thing.name} ends", before.last, after.first)
    for link in after.thing.bound(Bond.PARENT):
        if link.name != before.thing.name or link.step not in (None, after.first):
            yield Break(
                thing=after.thing.name,
                text=f"{after.thing.name} begins at step {after.first} after {before.thing.name}, "
                f"and names {link.target} as its parent.",
                one=f"{before.thing.name}@step-{after.first}",
                other=link.target,
            )


def _open(chain: tuple[Span, ...]) -> Iterator[Break]:
    for span in chain[:-1]:
        if span.last is None:
            text = f"{span.thing.name} has no last step, and others follow it."
            yield Break(thing=span.thing.name, text=text, one="followed by others", other="still open")
    for span in chain:
        if span.last is not None and span.last < span.first:
            text = f"{span.thing.name} ends at step {span.last}, before it begins at {span.first}."
            yield Break(thing=span.thing.name, text=text, one=f"first {span.first}", other=f"last {span.last}")


def _apart(name: str, what: str, wanted: int, found: int) -> Break:
    kind = "gap" if found > wanted else "overlap"
    text = f"A {kind} of {abs(found - wanted)} steps: {what} at {wanted}, {name} begins at {found}."
    return Break(thing=name, text=text, one=str(wanted), other=str(found))


def kept(link: Link, run: Thing | None) -> Kept:
    """What is known of the checkpoint that a link names, with the run's own grid of permanent ones."""
    if isinstance(link.absence, Lost):
        return Kept(durable=False, why=f"is lost: {link.absence.reason}")
    on_grid = None if run is None or link.step is None else _on_grid(link.step, run)
    if link.kept == PERMANENT:
        if on_grid is False:
            why = f"is told to be permanent, and step {link.step} is not on the run's grid of permanent checkpoints"
            return Kept(durable=False, why=why, broken=True)
        return Kept(durable=True, why="is told to be permanent")
    if on_grid:
        return Kept(durable=True, why="is on the run's grid of permanent checkpoints")
    said = f"it is told to lie in a {link.kept}" if link.kept else "none is told of"
    grid = "" if run is None or not run.text(EVERY) else f", and permanent ones are kept every {run.text(EVERY)} steps"
    return Kept(durable=False, why=f"has no durable copy: {said}{grid}")


def _on_grid(step: int, run: Thing) -> bool | None:
    """Whether a permanent checkpoint is kept at a step; None when the run tells of no grid."""
    every = run.whole(EVERY)
    if not every:
        return None
    return step % every == 0 or any(one.value == str(step) for one in run.said.get(ALSO, ()))
