"""What a trained product wrote of itself: transcript, data order and history, each a small file with its own edge.

The bytes must be the recorded ones, and what they say must fit the recipe and the steps. A file that does not lie here
is claimed, unless hashing found it missing. Refuses a transcript that lacks a step or has one too many, and an order
whose counts, components or seed are not those of the recipe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from registry.core import canonical, transcript
from registry.core.audit.custody import paper
from registry.core.audit.edges import Edge, Kind, Place, State
from registry.core.audit.evidence import HISTORY, ORDER, TRANSCRIPT, Evidence, Node
from registry.core.canonical import Json
from registry.core.findings import Finding, Trouble
from registry.core.records import Output
from registry.core.standing import covered
from registry.errors import DoesNotHold, ReckonError, UnknownName

OURS: Final = "history"
_KINDS = {Kind.TRANSCRIPT: TRANSCRIPT, Kind.ORDER: ORDER, Kind.HISTORY: HISTORY}


def edges(node: Node, evidence: Evidence) -> Iterator[Edge]:
    """The edges of a trained product to its transcript, data order and history."""
    if not node.trained or not node.own:
        return
    rules: dict[Kind, Callable[[Place, Node, bytes], Iterator[Finding]]] = {
        Kind.TRANSCRIPT: _lines,
        Kind.ORDER: _facts,
        Kind.HISTORY: lambda *_: _gaps(node, evidence),
    }
    for kind, rule in rules.items():
        yield _edge(Place(node.label, kind), node, rule, evidence)
    yield from _copies(node, evidence)


def _edge(
    place: Place, node: Node, rule: Callable[[Place, Node, bytes], Iterator[Finding]], evidence: Evidence
) -> Edge:
    output, name = node.own[0], _KINDS[place.kind]
    digest = evidence.part(output, name)
    if digest is None:
        text = f"{output.name} has no {name} on record."
        return place.edge(State.MISSING, text, [place.finding(Trouble.MISSING, text)])
    hashed = paper(evidence.custody.get(node.digest), output, name)
    if hashed:
        return place.edge(State.CONTRADICTED, "hashing found it wrong", hashed)
    try:
        data = evidence.paper(f"{output.path}/{name}", digest)
    except UnknownName as error:
        declared = digest in evidence.withheld or _private(node, output, evidence)
        return place.edge(State.WITHHELD if declared else State.CLAIMED, f"not read: {error.message}")
    except DoesNotHold as error:
        if node.digest not in evidence.current:
            return place.edge(State.CLAIMED, f"a newer {name} lies in its place")
        return place.edge(State.CONTRADICTED, error.message, [place.finding(Trouble.ALTERED, error.message, digest)])
    return place.edge(State.VERIFIED, f"{name} was hashed and read", list(rule(place, node, data)))


def _private(node: Node, output: Output, evidence: Evidence) -> bool:
    custody = evidence.custody.get(node.digest)
    return output.digest in evidence.withheld or (custody is not None and output.name in custody.private)


def _lines(place: Place, node: Node, data: bytes) -> Iterator[Finding]:
    """One line for every step after the parent's, up to the last."""
    try:
        told = transcript.span(data)
    except ReckonError as error:
        yield place.finding(Trouble.TRANSCRIPT, f"The transcript of {node.label} is malformed: {error.message}")
        return
    steps = next((steps for _, one in node.executions if (steps := covered(one, node.attempts)) is not None), None)
    expected = None if steps is None else (steps.start + 1, steps.stop)
    if expected is not None and told != expected:
        wanted, found = f"{expected[0]} to {expected[1]}", "none" if told is None else f"{told[0]} to {told[1]}"
        text = f"The transcript of {node.label} tells the steps {found}, not {wanted}."
        yield place.finding(Trouble.TRANSCRIPT, text, wanted, found)


def _facts(place: Place, node: Node, data: bytes) -> Iterator[Finding]:
    """The facts of the order add up and are those of the recipe."""
    try:
        facts = canonical.decode(data.removesuffix(b"\n"))
    except ReckonError as error:
        yield place.finding(Trouble.ORDER, f"The order of {node.label} is malformed: {error.message}")
        return
    if not isinstance(facts, Mapping) or facts.get("kind") != "order":
        yield place.finding(Trouble.ORDER, f"The order of {node.label} is no order.")
        return
    settings = _section(node, "order")
    yield from _compared(place, "seed", settings.get("seed"), facts.get("seed"))
    yield from _compared(place, "block_sequences", settings.get("block_sequences"), facts.get("block_sequences"))
    names = [one.get("name") for one in _objects(facts.get("components"))]
    yield from _compared(place, "components", settings.get("components"), names)
    given = sorted(one.name for one in node.recipe.inputs) if node.recipe else []
    streams = {name.rpartition("/")[2] for name in given if "/" in name}
    for name in names:
        if name not in streams:
            text = f"The order of {node.label} draws from {name}, which its recipe was not given."
            yield place.finding(Trouble.ORDER, text, ", ".join(given), name)
    for phase in _objects(facts.get("phases")):
        yield from _phase(place, phase, facts)


def _phase(place: Place, phase: Mapping[str, Json], facts: Mapping[str, Json]) -> Iterator[Finding]:
    """The integer counts of a phase fill a block, one count for each component."""
    counts = phase.get("sequences_per_block")
    whole = isinstance(counts, list) and all(isinstance(one, int) and one >= 0 for one in counts)
    total = sum(one for one in counts if isinstance(one, int)) if isinstance(counts, list) else None
    if not whole or total != facts.get("block_sequences"):
        text = f"The counts of a phase of {place.holder} add up to {total}, a block has {facts.get('block_sequences')}."
        yield place.finding(Trouble.ORDER, text, facts.get("block_sequences"), total)


def _compared(place: Place, what: str, asked: Json, told: Json) -> Iterator[Finding]:
    if asked is not None and asked != told:
        text = f"The order of {place.holder} has the {what} {told}; its recipe asked for {asked}."
        yield place.finding(Trouble.ORDER, text, asked, told)


def _section(node: Node, name: str) -> Mapping[str, Json]:
    """A section of the settings, with what the segment changes in it."""
    config = node.recipe.config if node.recipe else {}
    section = config.get(name)
    merged = dict(section) if isinstance(section, Mapping) else {}
    for value in config.values():
        changes = value.get("changes") if isinstance(value, Mapping) else None
        changed = changes.get(name) if isinstance(changes, Mapping) else None
        merged.update(changed if isinstance(changed, Mapping) else {})
    return merged


def _objects(value: Json) -> Iterable[Mapping[str, Json]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _gaps(node: Node, evidence: Evidence) -> Iterator[Finding]:
    """Steps that our own history skips."""
    copies = (copy for digest, _ in node.executions for copy in evidence.copies.get(digest, ()))
    return (finding for copy in copies if copy.system == OURS for finding in copy.findings)


def _copies(node: Node, evidence: Evidence) -> Iterator[Edge]:
    """One edge for each tracker that was consulted."""
    found: dict[str, list[Finding]] = {}
    points: dict[str, int] = {}
    for digest, _ in node.executions:
        for copy in (one for one in evidence.copies.get(digest, ()) if one.system != OURS):
            found.setdefault(copy.system, []).extend(copy.findings)
            points[copy.system] = points.get(copy.system, 0) + copy.points
    for system in sorted(found):
        place = Place(node.label, Kind.TRACKER, system)
        yield place.edge(State.VERIFIED, f"{points[system]} points and facts agree", found[system])
