"""What others say of a product by signature: each attestation is an edge, and lifts the claim that a recipe gives it.

A good signature is as much as can be checked here: nobody looked again, so the edge is attested and no better. A
signature that is not good, and a word that a recipe gave something else, contradict. Refuses to count a key that the
trust policy refuses: that is told and stays a claim.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from registry.core.attestation import Attested, Outcome
from registry.core.audit.edges import Edge, Kind, Place, State
from registry.core.audit.evidence import Evidence, Node
from registry.core.findings import Trouble

BIT_EXACT = ("T1", "T2")


def edges(node: Node, evidence: Evidence) -> Iterator[Edge]:
    """One edge for each attestation of the product's recipe."""
    for one in evidence.attested.get(node.product.recipe, ()):
        yield _edge(Place(node.label, Kind.ATTESTATION, one.source), node, one)


def lifting(node: Node, evidence: Evidence) -> Attested | None:
    """An attestation that all of the product was made again bit for bit, the one on another host first."""
    told = evidence.attested.get(node.product.recipe, ())
    whole = [one for one in told if one.counts and _agrees(one, node) and _is_whole(one)]
    return max(whole, key=lambda one: one.rederivation.tier, default=None)


def envelopes(evidence: Evidence) -> Mapping[str, bytes]:
    """The attestations of a lineage that count, by the file name that each gets in a release."""
    told = (one for node in evidence.nodes.values() for one in evidence.attested.get(node.product.recipe, ()))
    return {f"{one.source}.dsse.json": one.envelope.encode() for one in told if one.counts}


def _edge(place: Place, node: Node, one: Attested) -> Edge:
    said = one.rederivation
    if one.damage is not None:
        return place.edge(State.ATTESTED, "", [place.finding(Trouble.SIGNATURE, one.damage)])
    trust = one.judgement.text if one.judgement is not None else "nobody judged its key"
    if not one.counts:
        return place.edge(State.CLAIMED, f"an attestation that does not count: {trust}")
    if said.outcome is Outcome.MISMATCH:
        return place.edge(State.CLAIMED, f"{one.by} came to other bytes under another setup, {said.machine}; {trust}")
    if not _agrees(one, node):
        text = f"{one.by} attests that this recipe gives something else, on {said.machine}; {trust}."
        return place.edge(State.ATTESTED, "", [place.finding(Trouble.CONTRADICTION, text, node.digest, said.product)])
    return place.edge(State.ATTESTED, f"derived again by {one.by}: {said.coverage} on {said.machine}; {trust}")


def _agrees(one: Attested, node: Node) -> bool:
    return one.rederivation.outcome is Outcome.AGREES and one.rederivation.product == node.digest


def _is_whole(one: Attested) -> bool:
    said = one.rederivation
    return said.tier in BIT_EXACT and (said.total_steps is None or said.replayed_steps == said.total_steps)
