"""What a trained product wrote of itself: transcript, data order and history, each a small file with its own edge.

The bytes must be the recorded ones, and what they say must fit the recipe and the steps. A file that does not lie here
is claimed, unless hashing found it missing. Refuses a transcript that lacks a step or has one too many, and an order
whose facts are not those of the recipe, do not follow from one another, or do not go on where the parent's ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from registry.core import transcript
from registry.core.audit.custody import paper
from registry.core.audit.edges import Edge, Kind, Place, State
from registry.core.audit.evidence import HISTORY, ORDER, TRANSCRIPT, Evidence, Node
from registry.core.findings import Finding, Trouble
from registry.core.lineage import Artifact, Role
from registry.core.order import Order
from registry.core.orderfacts import OrderFacts
from registry.core.orderproof import OrderWitness
from registry.core.records import Output
from registry.core.standing import covered
from registry.errors import DoesNotHold, ReckonError, UnknownName

OURS: Final = "history"
Rule = Callable[[Place, Node, bytes, Evidence], Iterator[Finding]]
_KINDS = {Kind.TRANSCRIPT: TRANSCRIPT, Kind.ORDER: ORDER, Kind.HISTORY: HISTORY}


def edges(node: Node, evidence: Evidence) -> Iterator[Edge]:
    """The edges of a trained product to its transcript, data order and history."""
    if not node.trained or not node.own:
        return
    rules: dict[Kind, Rule] = {
        Kind.TRANSCRIPT: _lines,
        Kind.ORDER: _facts,
        Kind.HISTORY: _gaps,
    }
    for kind, rule in rules.items():
        yield _edge(Place(node.label, kind), node, rule, evidence)
    yield from _copies(node, evidence)


def _edge(place: Place, node: Node, rule: Rule, evidence: Evidence) -> Edge:
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
    return place.edge(State.VERIFIED, f"{name} was hashed and read", list(rule(place, node, data, evidence)))


def _private(node: Node, output: Output, evidence: Evidence) -> bool:
    custody = evidence.custody.get(node.digest)
    return output.digest in evidence.withheld or (custody is not None and output.name in custody.private)


def _lines(place: Place, node: Node, data: bytes, _evidence: Evidence) -> Iterator[Finding]:
    """One line for every step after the parent's, up to the last."""
    try:
        told = transcript.span(data)
    except ReckonError as error:
        yield place.finding(Trouble.TRANSCRIPT, f"The transcript of {node.label} is malformed: {error.message}")
        return
    steps = _steps(node)
    expected = None if steps is None else (steps.start, steps.stop - 1)
    if expected is not None and told != expected:
        wanted, found = f"{expected[0]} to {expected[1]}", "none" if told is None else f"{told[0]} to {told[1]}"
        text = f"The transcript of {node.label} tells the steps {found}, not {wanted}."
        yield place.finding(Trouble.TRANSCRIPT, text, wanted, found)


def _facts(place: Place, node: Node, data: bytes, evidence: Evidence) -> Iterator[Finding]:
    """The facts of the order are those of the recipe, follow from one another, and go on where the parent's ended."""
    try:
        order = Order(OrderFacts.read(data))
    except ReckonError as error:
        yield place.finding(Trouble.ORDER, f"The order of {node.label} is malformed: {error.message}")
        return
    facts = order.facts
    witness = OrderWitness(
        stage=node.label,
        steps=_steps(node) or range(1, facts.steps + 1),
        order=order,
        lines=transcript.Transcript(lines=()),
        recipe=node.recipe,
        inherited=_inherited(node, evidence),
        streams={one.name: one.sequences * facts.sequence_tokens for one in facts.components},
        read=lambda _name, _spans: (),
    )
    yield from witness.disagreements()
    given = sorted(one.name for one in node.recipe.inputs) if node.recipe else []
    streams = {name.rpartition("/")[2] for name in given if "/" in name}
    for name in facts.names:
        if name not in streams:
            text = f"The order of {node.label} draws from {name}, which its recipe was not given."
            yield place.finding(Trouble.ORDER, text, ", ".join(given), name)


def _steps(node: Node) -> range | None:
    """The updates that the product made, first and last included; None when no execution says."""
    told = next((steps for _, one in node.executions if (steps := covered(one, node.attempts)) is not None), None)
    return None if told is None else range(told.start + 1, told.stop + 1)


def _inherited(node: Node, evidence: Evidence) -> str | None:
    """The order digest after the parent's step, if its transcript is at hand and tells it."""
    steps = _steps(node)
    parents = (link.source for link in node.links if link.role is Role.PARENT)
    parent = next((evidence.nodes.get(one.product) for one in parents if isinstance(one, Artifact)), None)
    output = parent.own[0] if parent is not None and parent.own else None
    digest = evidence.part(output, TRANSCRIPT) if output is not None else None
    if output is None or digest is None or steps is None:
        return None
    try:
        data = evidence.paper(f"{output.path}/{TRANSCRIPT}", digest)
        line = transcript.parse(_line(data, steps.start - 1)).at(steps.start - 1)
    except ReckonError:
        return None
    return None if line is None else line.order


def _line(data: bytes, step: int) -> bytes:
    """The line of a step, found by its end; empty when there is none."""
    ending = b'"step":%d}\n' % step
    at = data.rfind(ending)
    return b"" if at < 0 else data[data.rfind(b"\n", 0, at) + 1 : at + len(ending)]


def _gaps(_place: Place, node: Node, _data: bytes, evidence: Evidence) -> Iterator[Finding]:
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
