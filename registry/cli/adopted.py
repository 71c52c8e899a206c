"""Views of foreign things: tree, log, details, audit. Everything is claimed, and what nobody can make again is told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from registry.cli.audited import edge_view, facts, one_edge, views
from registry.cli.render import Cell, Fields, Mark, Table, Tone, Tree, View, conclude, emit
from registry.cli.words import count, cut
from registry.core.adopted.arithmetic import derived
from registry.core.adopted.by_hand import steps as by_hand
from registry.core.adopted.claims import COMMIT
from registry.core.adopted.drawing import Limb, draw, steps
from registry.core.adopted.judging import audit as judge
from registry.core.adopted.quarrels import Weighed, weigh
from registry.core.adopted.record import Bond, Role
from registry.core.adopted.remaking import reasons
from registry.core.adopted.shelf import Shelf, Thing
from registry.core.audit.edges import REASONS, State
from registry.core.names import Name
from registry.errors import Refused

_RUNS = (Role.RUN, Role.RUNG, Role.SEGMENT, Role.TRIAL, Role.ARTIFACT)
_TONES = {State.MISSING: Tone.BAD, State.CONTRADICTED: Tone.BAD, State.WITHHELD: Tone.DOUBT}


def tree(shelf: Shelf, name: Name, *, down: bool, as_json: bool) -> None:
    """Draw what a thing is told to be made of, and say what cannot be made again."""
    if down:
        raise Refused("Foreign records tell what a thing was made from, not what was made from it.")
    thing = shelf.thing(name)
    drawn = draw(thing, shelf)
    unmade = _unmade(shelf.reach(thing), shelf)
    told = {"name": str(name), "standing": "claimed", "tree": drawn, "cannot_be_made_again": unmade}
    emit(told, _tree(drawn), *_why(unmade), as_json=as_json)


def audit(shelf: Shelf, name: Name, explain: str | None, *, full: bool, as_json: bool) -> None:
    """Judge a thing, or explain one edge of it."""
    judged = judge(shelf.thing(name), shelf)
    if explain is None:
        emit(facts(judged), *views(judged, full), as_json=as_json)
        conclude(holds=judged.holds)
        return
    edge = one_edge(explain, judged.name, judged.edges)
    listed = tuple(by_hand(edge, shelf))
    told = {"id": edge.id, "state": edge.state, "reason": edge.reason, "findings": edge.findings}
    emit({**told, "means": REASONS[edge.state], "by_hand": listed}, *edge_view(edge, listed), as_json=as_json)
    conclude(holds=edge.holds)


def log(shelf: Shelf, name: Name, *, as_json: bool) -> None:
    """List what ran under a name, the latest steps first."""
    ran = [one for one in shelf.below(name.stage) if one.role in _RUNS]
    ordered = sorted(ran, key=lambda one: (one.whole("first_step") or 0, one.name), reverse=True)
    rows: list[Sequence[Cell]] = [
        (one.name, one.role.value, one.ended.value, steps(one), one.text(COMMIT)[:10], one.text("run"), _said(one))
        for one in ordered
    ]
    columns = ("name", "role", "ended", "steps", "commit", "run", "why")
    told = [{"name": one.name, **{key: one.text(key) for key in one.said}, "ended": one.ended} for one in ordered]
    emit({"executions": told, "standing": "claimed"}, Table(columns=columns, rows=rows), _CLAIMED, as_json=as_json)


def show(shelf: Shelf, name: Name, *, full: bool, as_json: bool) -> None:
    """All that is told of a thing, or the names below one that nothing is told of itself."""
    if name.stage not in shelf.things and name.step is None and name.path is None:
        below = [one.name for one in shelf.below(name.stage)]
        emit(
            {"name": str(name), "below": below},
            Table(columns=("name",), rows=[(one,) for one in below]),
            as_json=as_json,
        )
        return
    thing = shelf.thing(name)
    weighed = weigh(thing, shelf)
    why = reasons(thing, shelf)
    told = {
        "name": thing.name,
        "standing": "claimed",
        "records": [{"digest": digest, **record.to_json()} for digest, record in thing.records],
        "contradicted": weighed.quarrels,
        "derived": weighed.confirmed,
        "cannot_be_made_again": why,
    }
    emit(
        told,
        *_details(thing, shelf, weighed, full),
        *(Mark(f"Not to be made again: {one}.", Tone.DOUBT) for one in why),
        as_json=as_json,
    )


def ended(shelf: Shelf) -> Mapping[str, Mapping[str, str]]:
    """How the rungs of the published ladder are told to have ended, for JSON."""
    return {
        one.name: {"ended": one.ended.value, "steps": steps(one), "final_loss": one.text("final_loss")}
        for one in _rungs(shelf)
    }


def ends(shelf: Shelf) -> Iterator[View]:
    """How the rungs of the published ladder are told to have ended."""
    ordered = _rungs(shelf)
    rows: list[Sequence[Cell]] = [
        (one.name, one.ended.value, steps(one), one.text("final_loss"), _note(one)) for one in ordered
    ]
    columns = ("rung", "ended", "steps", "final loss", "note")
    if rows:
        yield Table(title="Adopted: how they are told to have ended (claimed)", columns=columns, rows=rows)


_CLAIMED = Mark("Claimed: told by others, no witness here.", Tone.DOUBT)


def _rungs(shelf: Shelf) -> Sequence[Thing]:
    rungs = [one for one in shelf.things.values() if any(one.bound(Bond.FAMILY))]
    return sorted(rungs, key=lambda one: one.whole("hidden") or 0)


def _note(thing: Thing) -> str:
    partial = thing.text("loss_at_80_percent")
    return f"{partial} at 80 % of its steps" if partial else thing.text("status")


def _said(thing: Thing) -> str:
    return thing.text("reason") or thing.text("outcome") or thing.text("status")


def _tree(limb: Limb) -> Tree:
    words = (limb.bond, limb.name, limb.told, limb.state.value, f"({limb.note})" if limb.note else "")
    text = "  ".join(word for word in words if word)
    tone = _TONES.get(limb.state)
    return Tree(label=Mark(text, tone) if tone else text, branches=[_tree(one) for one in limb.limbs])


def _unmade(things: Sequence[Thing], shelf: Shelf) -> Mapping[str, Sequence[str]]:
    """Each reason why something cannot be made again, with what it holds for."""
    found: dict[str, list[str]] = {}
    for thing in things:
        for reason in reasons(thing, shelf):
            found.setdefault(reason, []).append(thing.name)
    return found


def _why(unmade: Mapping[str, Sequence[str]]) -> Iterator[View]:
    every = {name for names in unmade.values() for name in names}
    rows = [
        (reason, f"all {len(every)} of them" if len(names) == len(every) > 1 else ", ".join(names))
        for reason, names in unmade.items()
    ]
    if rows:
        yield Table(title="Not to be made again from what is public", columns=("because", "holds for"), rows=rows)


def _details(thing: Thing, shelf: Shelf, weighed: Weighed, full: bool) -> Iterator[View]:
    absence = "" if thing.absence is None else f"{thing.absence.WORD}: {thing.absence.reason}"
    facts: dict[str, Cell] = {"standing": "claimed", "role": thing.role.value, "ended": thing.ended.value}
    yield Fields(title=thing.name, values={**facts, **({"absent": Mark(absence, Tone.DOUBT)} if absence else {})})
    against = {one.quantity for one in weighed.quarrels}
    ours = {one.quantity: one.text for one in derived(thing, shelf)}
    rows: list[Sequence[Cell]] = [
        (quantity, one.text, _weighed(quantity, against, weighed), ours.get(quantity, ""), one.label, one.note)
        for quantity, told in thing.said.items()
        for one in told
    ]
    columns = ("quantity", "told", "is", "derived here", "source", "note")
    yield Table(title="claims", columns=columns, rows=cut(rows, full, 40))
    links: list[Sequence[Cell]] = [
        (one.bond.value, one.target, one.kept or (f"{one.absence.WORD}: {one.absence.reason}" if one.absence else ""))
        for one in thing.links
    ]
    if links:
        yield Table(title="links", columns=("bond", "to", "kept"), rows=cut(links, full, 20))
    sources = {key: text for _, record in thing.records for key, text in record.sources.items()}
    yield Fields(title="sources", values=sources)
    yield from (Mark(f"Contradicted: {one.text}", Tone.BAD) for one in weighed.quarrels)
    yield f"{count(len(thing.records), 'record')}: {', '.join(digest.short for digest, _ in thing.records)}"


def _weighed(quantity: str, against: set[str], weighed: Weighed) -> Cell:
    if quantity in against:
        return Mark("!", Tone.BAD)
    return Mark("=", Tone.GOOD) if quantity in weighed.confirmed else ""
