"""The records themselves: whole, agreeing with each other, and one product for one recipe.

Every record is named by the SHA-256 of its bytes, which was computed when it was read; so an edge to records is
verified or wrong. That a recipe gives a product is a claim until somebody runs it again; two products of one recipe
contradict each other and are reported on that edge. Refuses tables that do not add up to the product.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from registry.core.audit.attestations import lifting
from registry.core.audit.edges import Edge, Kind, Place, State
from registry.core.audit.evidence import Evidence, Node, Surveyed, holders, is_time
from registry.core.digests import Digest
from registry.core.findings import Finding, Trouble
from registry.core.names import Name
from registry.core.records import Execution, Output
from registry.core.resolving import root_of
from registry.core.standing import Standing, standing
from registry.errors import ReckonError, UnknownName

MANIFESTS = "manifests"
MOST_WITNESSES = 1000


def whole(evidence: Evidence) -> Edge:
    """The edge for all records: none is damaged, and what was committed is as it was."""
    place = Place(MANIFESTS, Kind.RECORD)
    damaged = [
        place.finding(
            Trouble.RECORD, f"The {damage.kind} record {damage.name} is damaged: {damage.reason}", damage.name
        )
        for damage in evidence.ledger.damages
    ]
    damaged += [place.finding(Trouble.RECORD, f"A record is damaged: {text}") for text in evidence.damages]
    altered = [
        Finding(
            subject=MANIFESTS,
            trouble=Trouble.RECORD,
            path=path,
            text=f"{path} was committed, and is now missing or has other bytes.",
        )
        for path in evidence.altered
    ]
    return place.edge(State.VERIFIED, "every record has the bytes of its name", [*damaged, *altered])


def edges(node: Node, evidence: Evidence) -> Iterator[Edge]:
    """The edges from a product to its records, and to its recipe."""
    record = Place(node.label, Kind.RECORD)
    findings = [*_agreement(record, node), *_tables(record, node, evidence)]
    yield record.edge(State.VERIFIED, "recipe, product and executions agree, tables add up", findings)
    yield _recipe(node, evidence)


def witnessed(node: Node) -> Standing:
    """How far the product was made again."""
    return standing([one for _, one in node.executions[:MOST_WITNESSES]], node.attempts)


def _recipe(node: Node, evidence: Evidence) -> Edge:
    place = Place(node.label, Kind.RECIPE)
    findings = [
        place.finding(
            Trouble.CONTRADICTION,
            f"The recipe {node.product.recipe.short} gave this product {len(node.executions)} times and "
            f"another, {rival.short}, {times} times.",
            node.digest,
            rival,
        )
        for rival, times in node.rivals
    ]
    told = witnessed(node)
    reason = f"executions that gave this product: {told.witnesses} ({told.label})"
    attested = lifting(node, evidence)
    if attested is None:
        return place.edge(State.CLAIMED, reason, findings)
    word = f"{attested.rederivation.coverage} by {attested.by}"
    return place.edge(State.ATTESTED, f"{reason}; made again, {word}", findings)


def _agreement(place: Place, node: Node) -> Iterator[Finding]:
    product, recipe = node.product, node.recipe
    if recipe is None:
        text = f"The recipe {product.recipe} of {node.label} is not readable on record."
        yield place.finding(Trouble.MISSING, text, product.recipe)
    elif recipe.stage != product.stage:
        text = f"The product is of {product.stage}, its recipe of {recipe.stage}."
        yield place.finding(Trouble.REFERENCE, text, product.stage, recipe.stage)
    for output in product.outputs:
        named, told = Name.parse(output.name), output.contents.get("step")
        if (named.stage, named.step) != (product.stage, told):
            text = f"An output called {output.name} says that it is of {product.stage} and of step {told}."
            yield place.finding(Trouble.REFERENCE, text, output.name, told)
    for digest, execution in node.executions:
        yield from _execution(place, node, digest, execution)


def _execution(place: Place, node: Node, digest: Digest, execution: Execution) -> Iterator[Finding]:
    if not is_time(execution.started):
        text = f"The execution {digest.short} has the odd time {execution.started[:40]!r}."
        yield place.finding(Trouble.RECORD, text, found=execution.started)
    told, claimed = (execution.stage, execution.recipe), (node.product.stage, node.product.recipe)
    if told != claimed:
        text = f"The execution {digest.short} speaks of another stage or recipe than its product."
        yield place.finding(Trouble.REFERENCE, text, claimed, told)


def _tables(place: Place, node: Node, evidence: Evidence) -> Iterator[Finding]:
    by_path = {output.path: output for output in node.product.outputs}
    for output in node.product.outputs:
        yield from _nested(place, output, by_path, evidence)
        found = evidence.surveyed.get(output.digest, _unknown(output))
        if isinstance(found, Surveyed):
            yield from _sums(place, output, found)
        else:
            yield _table_finding(place, output, found)
        root = root_of(output)
        leaves = evidence.leaves.get(root) if root is not None else None
        if "step" in output.contents and isinstance(leaves, ReckonError):
            yield _table_finding(place, output, leaves)
        elif isinstance(leaves, int) and output.contents.get("leaves", leaves) != leaves:
            text = f"{output.name} says {output.contents['leaves']} tensors; its leaf table has {leaves}."
            yield place.finding(Trouble.REFERENCE, text, output.contents["leaves"], leaves)


def _sums(place: Place, output: Output, found: Surveyed) -> Iterator[Finding]:
    claimed, summed = (output.files, output.size_bytes), (found.files, found.size_bytes)
    if claimed != summed:
        text = f"{output.name} says {claimed[0]} files of {claimed[1]} bytes; its table has {summed[0]} of {summed[1]}."
        yield place.finding(Trouble.REFERENCE, text, claimed, summed)


def _nested(place: Place, inner: Output, by_path: Mapping[str, Output], evidence: Evidence) -> Iterator[Finding]:
    """An output inside another must stand in the other's table with the same files."""
    for outer, inside in holders(inner.path, by_path):
        found = evidence.part(outer, inside)
        if isinstance(evidence.surveyed.get(outer.digest), Surveyed) and found != inner.digest:
            text = f"The table of {outer.name} does not hold {inner.name}."
            yield place.finding(Trouble.REFERENCE, text, inner.digest, found)


def _table_finding(place: Place, output: Output, error: ReckonError) -> Finding:
    trouble = Trouble.MISSING if isinstance(error, UnknownName) else Trouble.RECORD
    return place.finding(trouble, f"The table of {output.name} is not usable: {error.message}", output.digest)


def _unknown(output: Output) -> ReckonError:
    return UnknownName(f"the table {output.digest} was not read.")
