"""Segments: a run is a chain, every link proved by step and tensor root, without a gap, an overlap or a stale head.

A segment must begin from a checkpoint that its recipe was given, that the parent on record kept under that step with
that root, and that is the parent's last one. A cut back to an earlier checkpoint is honest only if an incident of the
kind ``rewind`` tells that the steps after it were given up. Refuses a segment that was given a checkpoint and began
without one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from registry.core.audit.edges import Edge, Kind, Place, State
from registry.core.audit.evidence import Evidence, Node
from registry.core.audit.inputs import order_in_time
from registry.core.canonical import Json
from registry.core.findings import Finding, Trouble
from registry.core.incidents import Kind as Kinds
from registry.core.lineage import Artifact, Link, Role
from registry.core.names import Name
from registry.core.records import Execution
from registry.core.standing import covered
from registry.errors import ReckonError

_MOST: Final = 20


def edges(node: Node, evidence: Evidence) -> Iterator[Edge]:
    """The edges of a trained product to its parent and to its steps."""
    if not node.trained:
        return
    parents = [link for link in node.links if link.role is Role.PARENT]
    for link in parents:
        yield _parent(Place(node.label, Kind.PARENT, link.name), node, link, evidence)
    if not parents and _given_checkpoints(node):
        place = Place(node.label, Kind.PARENT)
        named = ", ".join(map(str, _given_checkpoints(node)))
        text = f"{node.label} was given {named}, and no execution says that it began there."
        yield place.edge(State.CONTRADICTED, text, [place.finding(Trouble.PARENT, text, named, "from nothing")])
    yield _steps(node, parents)


def _parent(place: Place, node: Node, link: Link, evidence: Evidence) -> Edge:
    findings = list(_asked(place, node, link))
    source = link.source
    if not isinstance(source, Artifact):
        text = f"{link.name} with the root {link.digest} is on record nowhere: {_why(source)}."
        return place.edge(State.MISSING, text, [*findings, place.finding(Trouble.PARENT, text, link.digest)])
    findings += [*_stale(place, node, source, evidence), *order_in_time(place, node, source, evidence)]
    if evidence.hashed(source):
        return place.edge(State.VERIFIED, "step and tensor root are the recorded ones, its tensors hashed", findings)
    return place.edge(State.CLAIMED, "step and tensor root are the recorded ones, its tensors not hashed", findings)


def _why(source: object) -> str:
    gap = getattr(source, "gap", None)
    return "it is no artifact" if gap is None else str(gap.value)


def _asked(place: Place, node: Node, link: Link) -> Iterator[Finding]:
    """The parent must be what the recipe was given, and what its settings name."""
    given, named = _given_checkpoints(node), _named_parent(node)
    parent = _name(link.name)
    allowed = {one.artifact for one in given}
    if parent is None or not allowed & {parent.artifact, parent.stage}:
        told = ", ".join(sorted(allowed)) or "no checkpoint"
        text = f"{node.label} began from {link.name}; its recipe was given {told}."
        yield place.finding(Trouble.PARENT, text, told, link.name)
    elif named is not None and named != link.name:
        text = f"{node.label} began from {link.name}; its settings name {named}."
        yield place.finding(Trouble.PARENT, text, named, link.name)


def _stale(place: Place, node: Node, source: Artifact, evidence: Evidence) -> Iterator[Finding]:
    """The checkpoint must be the last one that the parent kept, unless the segment declares a rewind."""
    giver = evidence.nodes.get(source.product)
    kept = giver.kept if giver is not None else ()
    step = Name.parse(source.output.name).step
    if not kept or step is None or step == kept[-1][0] or _rewinds(node, step, evidence):
        return
    text = f"{node.label} began from {source.output.name}; its parent's last checkpoint is {kept[-1][1].name}."
    yield place.finding(Trouble.PARENT, text, kept[-1][1].name, source.output.name)


def _rewinds(node: Node, step: int, evidence: Evidence) -> bool:
    """Whether an incident tells that the steps after ``step`` were given up."""
    told = evidence.incidents.of(node.product.stage, family=True)
    return any(one.incident == Kinds.REWIND and one.first_step == step + 1 for one in told)


def _given_checkpoints(node: Node) -> list[Name]:
    """What of the recipe's inputs can be a parent: a checkpoint, or a whole segment of the same family."""
    family = node.product.stage.partition("/")[0]
    names = [one.name for one in node.recipe.inputs if one.name != one.path] if node.recipe else []
    parsed = [name for name in map(_name, names) if name is not None and name.path is None]
    return [name for name in parsed if name.step is not None or name.stage.partition("/")[0] == family]


def _named_parent(node: Node) -> str | None:
    """The checkpoint that the recipe's settings call the parent, if they do."""
    for section in node.recipe.config.values() if node.recipe else ():
        told = section.get("parent") if isinstance(section, Mapping) else None
        name = _name(told) if isinstance(told, str) else None
        if name is not None and name.step is not None:
            return name.artifact
    return None


def _name(text: str) -> Name | None:
    try:
        return Name.parse(text)
    except ReckonError:
        return None


def _steps(node: Node, parents: list[Link]) -> Edge:
    """Each execution, with those that it resumed from, must tell every step from the parent's to the last one kept."""
    place = Place(node.label, Kind.STEPS)
    findings: list[Finding] = []
    told = None
    for digest, execution in node.executions[:_MOST]:
        told = covered(execution, node.attempts)
        findings += _whole(place, node, execution, told)
        if told is None:
            text = f"The execution {digest.short} of {node.label} does not say which steps it ran."
            findings.append(place.finding(Trouble.STEPS, text))
    begun = f"after {parents[0].name}" if parents else "from nothing"
    steps = "" if told is None else f"{told.start}..{told.stop} "
    return place.edge(State.CLAIMED, f"steps {steps}{begun}, told without gap or overlap", findings)


def _whole(place: Place, node: Node, execution: Execution, told: range | None) -> Iterator[Finding]:
    if told is None:
        return
    begin = _integer(execution.parent, "step") if execution.parent is not None else 0
    if begin is not None and told.start != begin:
        what = f"steps {begin} to {told.start} are told by nobody"
        if told.start < begin:
            what = f"steps {told.start} to {begin} are told twice"
        text = f"{node.label} tells the steps {told.start} to {told.stop} and begins at {begin}: {what}."
        yield place.finding(Trouble.STEPS, text, begin, told.start)
    kept = [step for step, _ in node.kept]
    outside = [step for step in kept if not told.start < step <= told.stop]
    if outside or (kept and kept[-1] != told.stop):
        text = f"{node.label} tells the steps {told.start} to {told.stop} and kept {', '.join(map(str, kept[-5:]))}."
        yield place.finding(Trouble.STEPS, text, f"{told.start}..{told.stop}", kept[-1])


def _integer(facts: Mapping[str, Json], key: str) -> int | None:
    value = facts.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
