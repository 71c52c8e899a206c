"""The audit of foreign records: every figure, handoff, input and forecast of a thing and of what its links lead to.

It uses the words of the archive's own audit. *Verified* is only what was checked here: that a record has the bytes of
its name, and that a figure follows from others by arithmetic. What two claims contradict is found by comparing them;
no record can state a finding. Refuses to hold where something is missing or contradicted, as always.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from registry.core.adopted import chains, quarrels
from registry.core.adopted.absence import Lost, Withheld
from registry.core.adopted.claims import COMMIT
from registry.core.adopted.record import Bond, Ended, Link, Role
from registry.core.adopted.remaking import IDENTITIES, code_is_known, run_of
from registry.core.adopted.shelf import Shelf, Thing
from registry.core.audit.edges import Edge, Kind, Place, State
from registry.core.audit.judging import Audit, Looked, Mark
from registry.core.findings import Finding, Trouble

DEPTH: Final = "claims"
ALL: Final = "manifests/adopted"
_TRAINED: Final = (Role.RUN, Role.RUNG)
_FINAL = "final_loss"
_STOPPED: Final = {
    Ended.PARTIAL: "it ended before its last step and was not resumed",
    Ended.FAILED: "it is told to have failed",
    Ended.PLANNED: "it was scheduled, and nothing tells that it ran",
}


def audit(thing: Thing, shelf: Shelf) -> Audit:
    """Judge a thing and all that it is told to be made of."""
    reached = shelf.reach(thing)
    records = sum(len(one.records) for one in reached)
    edges = (_whole(shelf, records), *(edge for one in reached for edge in _edges(one, shelf)))
    return Audit(
        name=thing.name,
        product=thing.records[0][0],
        depth=DEPTH,
        edges=edges,
        looked=Looked(records=records),
        reproduced=(),
        consulted=_consulted(reached),
        marks=tuple(mark for one in reached for mark in _marks(one)),
    )


def _consulted(reached: tuple[Thing, ...]) -> dict[str, str]:
    told = {text for one in reached for _, record in one.records for text in record.sources.values()}
    return {
        "foreign sources": f"{len(told)} cited; none was opened: a record tells what they said when it was adopted",
        "ladder arithmetic": "consulted",
    }


def _whole(shelf: Shelf, records: int) -> Edge:
    """Whoever read the records hashed them: one that has not the bytes of its name is a damage."""
    place = Place(ALL, Kind.RECORD)
    damages = [place.finding(Trouble.RECORD, f"A foreign record is damaged: {one}") for one in shelf.damages]
    what = f"{records} foreign records have the bytes of their names; what they say is claimed"
    return place.edge(State.VERIFIED, what, damages)


def _edges(thing: Thing, shelf: Shelf) -> Iterator[Edge]:
    yield from _figures(thing, shelf)
    yield from _ending(thing)
    if thing.role is Role.RUN:
        yield from _chain(thing, shelf)
    if thing.role in _TRAINED:
        yield _weights(thing)
    for link in thing.bound(Bond.PARENT):
        yield _parent(thing, link, shelf)
    for link in thing.bound(Bond.INPUT):
        yield _input(thing, link, shelf)
    if COMMIT in thing.said or thing.role in (Role.SEGMENT, Role.TRIAL):
        yield _commit(thing)
    if thing.role is Role.FORECAST:
        yield from _forecast(thing, shelf)


def _figures(thing: Thing, shelf: Shelf) -> Iterator[Edge]:
    weighed = quarrels.weigh(thing, shelf)
    for quantity in dict.fromkeys(quarrel.quantity for quarrel in weighed.quarrels):
        place = Place(thing.name, Kind.FIGURE, quantity)
        found = [_finding(place, one) for one in weighed.quarrels if one.quantity == quantity]
        yield place.edge(State.CONTRADICTED, found[0].text, found)
    if weighed.confirmed:
        what = f"{len(weighed.confirmed)} figures agree with the arithmetic here, to their last printed digit"
        yield Place(thing.name, Kind.FIGURE, "derived").edge(State.VERIFIED, what)
    if weighed.shared or weighed.single:
        several = f"{len(weighed.shared)} by sources that agree, " if weighed.shared else ""
        what = f"told: {several}{len(weighed.single)} by one source alone"
        yield Place(thing.name, Kind.FIGURE, "told").edge(State.CLAIMED, what)


def _finding(place: Place, quarrel: quarrels.Quarrel) -> Finding:
    return place.finding(Trouble.CLAIM, quarrel.text, quarrel.one, quarrel.other)


def _ending(thing: Thing) -> Iterator[Edge]:
    if thing.ended in _STOPPED:
        place = Place(thing.name, Kind.STEPS, "ended")
        last, steps = thing.text("last_step"), thing.text("steps")
        where = f", at step {last} of {steps}" if last and steps else ""
        text = f"{thing.name}: {_STOPPED[thing.ended]}{where}."
        yield place.edge(State.MISSING, text, [place.finding(Trouble.MISSING, text, steps or None, last or None)])


def _chain(run: Thing, shelf: Shelf) -> Iterator[Edge]:
    chain = chains.spans(run, shelf)
    if not chain and not any(run.bound(Bond.PART)):
        return
    place = Place(run.name, Kind.STEPS, "segments")
    found = [place.finding(Trouble.STEPS, one.text, one.one, one.other) for one in chains.breaks(run, shelf)]
    last = chain[-1].last if chain else None
    end = "and on" if last is None else f"to {last}"
    yield place.edge(
        State.CLAIMED, f"{len(chain)} segments follow each other from step 0 {end}, without a gap or overlap", found
    )


def _weights(thing: Thing) -> Edge:
    place = Place(thing.name, Kind.WEIGHTS)
    text = f"No digest of any checkpoint of {thing.name} is told, so that no copy could be recognised as one."
    if any(thing.said.get(quantity) for quantity in IDENTITIES):
        return place.edge(State.CLAIMED, "a digest is told; the bytes are not here")
    return place.edge(State.MISSING, text, [place.finding(Trouble.MISSING, text)])


def _parent(thing: Thing, link: Link, shelf: Shelf) -> Edge:
    place = Place(thing.name, Kind.PARENT, link.target)
    copy = chains.kept(link, run_of(thing, shelf))
    if copy.durable:
        return place.edge(State.CLAIMED, f"it {copy.why}; no digest of it is told")
    text = f"The checkpoint {link.target} {copy.why}."
    trouble = Trouble.CLAIM if copy.broken else Trouble.MISSING
    return place.edge(State.MISSING, text, [place.finding(trouble, text)])


def _input(thing: Thing, link: Link, shelf: Shelf) -> Edge:
    place = Place(thing.name, Kind.INPUT, link.name)
    data = shelf.things.get(link.name)
    if data is None:
        text = f"{link.name} is named as an input, and nothing is told of it."
        return place.edge(State.MISSING, text, [place.finding(Trouble.MISSING, text)])
    if isinstance(data.absence, Withheld):
        known = f"by the digest {data.absence.digest}" if data.absence.digest else "without a digest"
        return place.edge(State.WITHHELD, f"told {known}, not published: {data.absence.reason}")
    if isinstance(data.absence, Lost):
        text = f"{link.name} is lost: {data.absence.reason}."
        return place.edge(State.MISSING, text, [place.finding(Trouble.MISSING, text)])
    return place.edge(State.CLAIMED, data.absence.reason if data.absence else "told of, not here")


def _commit(thing: Thing) -> Edge:
    place = Place(thing.name, Kind.COMMIT)
    wrong = code_is_known(thing)
    if wrong is None:
        return place.edge(State.CLAIMED, f"{thing.text(COMMIT)[:12]}: their repository is not here")
    if thing.said.get(COMMIT):
        return place.edge(State.CLAIMED, f"{thing.text(COMMIT)}: {wrong}, and their repository is not here")
    text = f"Of {thing.name} no commit is told."
    return place.edge(State.MISSING, text, [place.finding(Trouble.MISSING, text)])


def _forecast(thing: Thing, shelf: Shelf) -> Iterator[Edge]:
    """A forecast rests on final losses: one that nobody observed is missing, whatever was put in its place."""
    for link in thing.bound(Bond.REST):
        place = Place(thing.name, Kind.FORECAST, link.name)
        run = shelf.things.get(link.name)
        if run is not None and run.said.get(_FINAL):
            yield place.edge(State.CLAIMED, f"it ended at {run.text(_FINAL)}, as told")
            continue
        instead = f": {link.kept}" if link.kept else ""
        text = f"{thing.name} rests on the final loss of {link.name}, which nobody observed{instead}."
        yield place.edge(State.MISSING, text, [place.finding(Trouble.MISSING, text)])
    yield from _outcome(thing, shelf)
    place = Place(thing.name, Kind.FORECAST, "order")
    found = [_finding(place, one) for one in quarrels.falling(list(quarrels.rests(thing, shelf)))]
    yield place.edge(State.CLAIMED, "the runs that it rests on end the lower the larger they are", found)


def _outcome(forecast: Thing, shelf: Shelf) -> Iterator[Edge]:
    """What it predicted beside what is told of the end of the run; nothing here says which loss is close enough."""
    for run in shelf.things.values():
        if any(link.name == forecast.name for link in run.bound(Bond.FORECAST)):
            place = Place(forecast.name, Kind.FORECAST, run.name)
            predicted = forecast.text("predicted_loss") or "nothing"
            ended = (
                f"it ended at {run.text(_FINAL)}" if run.said.get(_FINAL) else f"it is told as {run.ended}, unscored"
            )
            yield place.edge(State.CLAIMED, f"predicted is {predicted}; {ended}")


def _marks(thing: Thing) -> Iterator[Mark]:
    if thing.role is Role.TRIAL:
        yield Mark(holder=thing.name, what=thing.ended.value, text=thing.text("outcome"))
    if thing.ended is Ended.RUNNING:
        yield Mark(holder=thing.name, what="running", text=thing.text("status") or "not ended yet")
