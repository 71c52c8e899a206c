"""A foreign thing as a tree: what it is told to be made of, every line with how well it is known.

What is reached twice is drawn once and referred to afterwards. Refuses to follow a lineage beyond ``DEEPEST``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from registry.core.adopted.absence import Withheld
from registry.core.adopted.chains import kept, spans
from registry.core.adopted.claims import COMMIT
from registry.core.adopted.record import Bond, Ended, Link, Role
from registry.core.adopted.remaking import run_of
from registry.core.adopted.shelf import Shelf, Thing
from registry.core.audit.edges import State

DEEPEST = 200
ABOVE, DEEPER = "above", "deeper"
_SHORT = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Limb:
    """One line of the tree: the bond to the line above it, the name, what is told in short, its state and a note."""

    bond: str
    name: str
    told: str
    state: State
    note: str
    limbs: tuple[Limb, ...]


def draw(thing: Thing, shelf: Shelf) -> Limb:
    """What the thing is told to be made of."""
    return _Pen(shelf).limb(None, thing, None)


class _Pen:
    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._drawn: set[str] = set()
        self._depth = 0

    def limb(self, link: Link | None, thing: Thing, holder: Thing | None) -> Limb:
        again = thing.name in self._drawn
        self._drawn.add(thing.name)
        self._depth += 1
        deep = self._depth > DEEPEST
        beyond = () if again or deep else tuple(self._limbs(thing))
        self._depth -= 1
        state, note = self._known(link, thing, holder)
        if (again or deep) and next(self._next(thing), None) is not None:
            cut = ABOVE if again else DEEPER
            note = f"{note}; {cut}" if note else cut
        return Limb(
            bond="" if link is None else link.bond.value,
            name=thing.name if link is None else link.target,
            told=told(thing),
            state=state,
            note=note,
            limbs=beyond,
        )

    def _limbs(self, thing: Thing) -> Iterator[Limb]:
        for member in self._shelf.members(thing):
            yield self.limb(None, member, thing)
        for link in self._next(thing):
            other = self._shelf.things.get(link.name)
            if other is not None:
                yield self.limb(link, other, thing)
                continue
            note = "nothing is told of it"
            yield Limb(bond=link.bond.value, name=link.target, told="", state=State.MISSING, note=note, limbs=())

    def _next(self, thing: Thing) -> Iterator[Link]:
        """A run leads to its last segment, which leads to its parent, and so on; then to what else it was made of."""
        chain = spans(thing, self._shelf)
        last = chain[-1].thing.name if chain else None
        yield from (link for link in thing.bound(Bond.PART) if last is None or link.name == last)
        for bond in (Bond.PARENT, Bond.INPUT, Bond.TRIAL, Bond.FORECAST, Bond.REST):
            yield from thing.bound(bond)

    def _known(self, link: Link | None, thing: Thing, holder: Thing | None) -> tuple[State, str]:
        if link is not None and holder is not None and link.bond is Bond.PARENT:
            copy = kept(link, run_of(holder, self._shelf))
            return (State.CLAIMED if copy.durable else State.MISSING), copy.why
        if isinstance(thing.absence, Withheld):
            return State.WITHHELD, thing.absence.reason
        if link is not None and link.bond is Bond.REST and not thing.said.get("final_loss"):
            return State.MISSING, f"no final loss{': ' + link.kept if link.kept else ''}"
        return State.CLAIMED, ""


def told(thing: Thing) -> str:
    """A thing in a few words."""
    words = [thing.text("label"), steps(thing), _commit(thing), _ending(thing)]
    loss = thing.text("final_loss") or thing.text("predicted_loss")
    words.append(f"loss {loss}" if loss else "")
    return "  ".join(word for word in words if word)


def steps(thing: Thing) -> str:
    """The steps that it ran, or is to run."""
    first, last = thing.text("first_step"), thing.text("last_step")
    if first:
        return f"steps {first}..{last}"
    last = last or thing.text("reached_step")
    if thing.text("steps"):
        return f"{last} of {thing.text('steps')} steps" if last else f"{thing.text('steps')} steps"
    return ""


def _commit(thing: Thing) -> str:
    return f"commit {thing.text(COMMIT)[:_SHORT]}" if thing.said.get(COMMIT) else ""


def _ending(thing: Thing) -> str:
    quiet = thing.ended in (Ended.UNKNOWN, Ended.COMPLETE) or thing.role is Role.SEGMENT
    return "" if quiet else thing.ended.value
