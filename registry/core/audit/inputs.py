"""Inputs: each is the output of a recorded product, made before it was used, or a file of the repository.

The digest in the recipe must be that of the source. Whether the source's bytes are right is judged at the source; here
the edge is verified if they were hashed in this audit. Refuses a consumer that began before any execution that gave its
input had ended.
"""

from __future__ import annotations

from collections.abc import Iterator

from registry.core.audit.edges import Edge, Kind, Place, State
from registry.core.audit.evidence import Evidence, Node
from registry.core.digests import sha256
from registry.core.findings import Finding, Trouble
from registry.core.lineage import Artifact, Given, Link, Missing, Role
from registry.errors import ReckonError


def edges(node: Node, evidence: Evidence) -> Iterator[Edge]:
    """The edges to the inputs of a product's recipe."""
    for link in node.links:
        if link.role is Role.INPUT and node.recipe is not None:
            yield _edge(Place(node.label, Kind.INPUT, link.name), node, link, evidence)


def order_in_time(place: Place, node: Node, source: Artifact, evidence: Evidence) -> Iterator[Finding]:
    """Told once if the first execution of ``node`` began before any execution that gave ``source`` had ended."""
    giver = evidence.nodes.get(source.product)
    made, began = giver.first_end if giver else None, node.first_start
    if began is not None and (made is None or made > began):
        when = "no execution says when" if made is None else f"first at {made}"
        text = f"{node.label} began at {began}, before {source.output.name} was made ({when})."
        yield place.finding(Trouble.TIME, text, made, began)


def _edge(place: Place, node: Node, link: Link, evidence: Evidence) -> Edge:
    source = link.source
    if isinstance(source, Artifact):
        return _made(place, node, source, evidence)
    if isinstance(source, Given):
        return _given(place, node, link, evidence)
    return _lost(place, link, source, evidence)


def _made(place: Place, node: Node, source: Artifact, evidence: Evidence) -> Edge:
    findings = list(order_in_time(place, node, source, evidence))
    if evidence.hashed(source):
        return place.edge(State.VERIFIED, f"{source.output.name} on record, its bytes hashed", findings)
    if _private(source, evidence):
        return place.edge(State.WITHHELD, f"{source.output.name} on record, its bytes private", findings)
    return place.edge(State.CLAIMED, f"{source.output.name} on record, its bytes not hashed", findings)


def _given(place: Place, node: Node, link: Link, evidence: Evidence) -> Edge:
    """A file of the repository, as the commit has it."""
    if evidence.git is None or link.digest is None:
        return place.edge(State.CLAIMED, "no git repository was consulted")
    for revision in node.revisions:
        try:
            data = evidence.git.content(revision.commit, link.name)
        except ReckonError as error:
            return place.edge(State.CLAIMED, f"the commit was not consulted: {error.message}")
        found = None if data is None else sha256(data)
        if found != link.digest and revision.dirty:
            return place.edge(State.CLAIMED, "it was used with changes that no commit holds")
        if found != link.digest:
            text = f"{link.name} in the commit {revision.commit[:12]} is not the one that was used."
            return place.edge(State.CONTRADICTED, text, [place.finding(Trouble.COMMIT, text, link.digest, found)])
    return place.edge(State.VERIFIED, "the commit holds these bytes")


def _lost(place: Place, link: Link, source: Missing, evidence: Evidence) -> Edge:
    declared = evidence.withheld.get(link.digest) if link.digest is not None else None
    if declared is not None:
        return place.edge(State.WITHHELD, f"declared private: {declared.reason}")
    text = f"{link.name} leads nowhere: {source.gap.value}."
    return place.edge(State.MISSING, text, [place.finding(Trouble.MISSING, text, link.digest)])


def _private(source: Artifact, evidence: Evidence) -> bool:
    custody = evidence.custody.get(source.product)
    return source.output.digest in evidence.withheld or (custody is not None and source.output.name in custody.private)
