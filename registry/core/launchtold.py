"""What a published run needs and nobody gave this archive, and what its checkpoints are told to take.

All of it is read from the adopted records: a digest, a reason or a size that no record tells is not known here either.
Refuses nothing; a run that no record tells of lacks its data all the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from registry.core.adopted.chains import kept, spans
from registry.core.adopted.claims import Said
from registry.core.adopted.record import Bond, Role
from registry.core.adopted.shelf import Shelf, Thing
from registry.core.canonical import Json

_TOLD = ("store", "tokenizer", "mixture_block_sequences")
_DATA = (
    "Whoever holds it makes it a stage of an archive: token caches with their digests, and the mixture in whole counts "
    "a block; a rung planned there names them."
)
_PARENT = (
    "Whoever holds it records it in an archive, where its tensor root names it; a window planned there begins from it."
)


def published(shelf: Shelf, hidden: int) -> Thing | None:
    """The run or rung of that width that others told of."""
    members = (
        one for one in shelf.things.values() if one.role in (Role.RUN, Role.RUNG) and any(one.bound(Bond.FAMILY))
    )
    return next((one for one in members if one.whole("hidden") == hidden), None)


def lacking(shelf: Shelf, run: Thing | None, first_step: int) -> Iterator[Mapping[str, Json]]:
    """The inputs that are not here: what, name, digest (None where none is told), why, and how it would be given."""
    links = [] if run is None else list(run.bound(Bond.INPUT))
    for link in links:
        data = shelf.things.get(link.name)
        told = [] if data is None else _texts(data, _TOLD)
        yield {**_lacks("data", link.name, _why(data), _DATA), "digest": _digest(data), "told": [*told]}
    if not links:
        yield _lacks("data", "token caches", "no record tells of its data", _DATA)
    if first_step:
        yield _parent(shelf, run, first_step)


def checkpoints(run: Thing | None) -> list[str]:
    """What others say that a checkpoint takes, each with its source."""
    return [] if run is None else list(_texts(run, ("checkpoint_size", "checkpoint_objects")))


def _parent(shelf: Shelf, run: Thing | None, step: int) -> Mapping[str, Json]:
    """The checkpoint that a window begins from: of the segment that reached the step."""
    chain = () if run is None else spans(run, shelf)
    made = next((span for span in chain if span.first < step and (span.last is None or step <= span.last)), None)
    thing = made.thing if made is not None else run
    name = f"{'the run' if thing is None else thing.name}@step-{step}"
    parts = [] if run is None else [run, *(span.thing for span in chain), *_trials(shelf, run)]
    links = [link for part in parts for link in part.bound(Bond.PARENT) if thing and link.target == name]
    why = f"it {kept(links[0], run).why}" if links else "no copy of it is told of"
    return _lacks("parent", name, why, _PARENT)


def _trials(shelf: Shelf, run: Thing) -> Iterator[Thing]:
    return (shelf.things[link.name] for link in run.bound(Bond.TRIAL) if link.name in shelf.things)


def _lacks(what: str, name: str, why: str, give: str) -> dict[str, Json]:
    return {"what": what, "name": name, "digest": None, "why": why, "give": give, "told": []}


def _digest(data: Thing | None) -> str | None:
    digest = getattr(data.absence, "digest", None) if data is not None else None
    return None if digest is None else str(digest)


def _why(data: Thing | None) -> str:
    if data is None or data.absence is None:
        return "no copy of it is told of"
    return f"{data.absence.WORD}: {data.absence.reason}"


def _texts(thing: Thing, quantities: tuple[str, ...]) -> list[str]:
    return [f"{name.replace('_', ' ')} {_text(one)}" for name in quantities for one in thing.said.get(name, ())]


def _text(said: Said) -> str:
    return f"{said.text} ({said.label}: {said.note})" if said.note else f"{said.text} ({said.label})"
