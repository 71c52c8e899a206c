"""Why a foreign thing cannot be made again from what is public: in sentences, each from its claims and links.

Making steps again needs the parent checkpoint, the data, the code, and something to know the result by. Where one of
them is lost, withheld or not told, nobody outside can do it. Refuses nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from registry.core.adopted.absence import Withheld
from registry.core.adopted.chains import kept
from registry.core.adopted.claims import COMMIT
from registry.core.adopted.record import Bond, Role
from registry.core.adopted.shelf import Shelf, Thing

MADE: Final = (Role.RUNG, Role.SEGMENT, Role.TRIAL)
FULL_COMMIT = 40
IDENTITIES: Final = ("tensor_root", "weights_sha256")


def reasons(thing: Thing, shelf: Shelf) -> tuple[str, ...]:
    """Why its steps cannot be run again by somebody outside. Empty for what has no steps."""
    return tuple(_reasons(thing, shelf)) if thing.role in MADE else ()


def run_of(thing: Thing, shelf: Shelf) -> Thing | None:
    """The run that the thing is a part or a trial of."""
    for other in shelf.things.values():
        if any(link.name == thing.name for link in other.bound(Bond.PART, Bond.TRIAL)):
            return other
    return None


def inputs_of(thing: Thing, shelf: Shelf) -> tuple[Thing, ...]:
    """What it was fed, or its run was."""
    run = run_of(thing, shelf)
    links = [*thing.bound(Bond.INPUT), *(run.bound(Bond.INPUT) if run is not None else ())]
    return tuple(shelf.things[name] for name in dict.fromkeys(link.name for link in links) if name in shelf.things)


def code_is_known(thing: Thing) -> str | None:
    """What is wrong with what is told of its code; None when a full commit is told."""
    commits = [one.value for one in thing.said.get(COMMIT, ())]
    if not commits:
        return "no commit is told"
    if all(len(commit) < FULL_COMMIT for commit in commits):
        return f"its commit is cut to {len(commits[0])} of {FULL_COMMIT} digits"
    return None


def _reasons(thing: Thing, shelf: Shelf) -> Iterator[str]:
    run = run_of(thing, shelf)
    for link in thing.bound(Bond.PARENT):
        copy = kept(link, run)
        if not copy.durable:
            yield f"its parent {link.target} {copy.why}"
    for data in inputs_of(thing, shelf):
        if isinstance(data.absence, Withheld):
            yield f"its data {data.name} is withheld: {data.absence.reason}"
    code = code_is_known(thing)
    if code is not None:
        yield code
    if not any(thing.said.get(quantity) for quantity in IDENTITIES):
        yield "no digest of its checkpoints and no witness of its order is told, so that nobody could tell a repetition"
