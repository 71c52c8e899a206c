"""What an audit needs to look up: the tables to check with the parts to find in them, and when forecasts were sealed.

Pure; a workflow does the looking up. Refuses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from registry.core.audit.evidence import FORECAST, PAPERS, Node, Surveyed, holders
from registry.core.audit.walk import Index
from registry.core.digests import Digest
from registry.core.ledger import Ledger
from registry.core.resolving import root_of
from registry.errors import ReckonError

_SMALL_TREE_FILES = 64


def wanted(nodes: Iterable[Node], ledger: Ledger) -> Mapping[Digest, list[str]]:
    """The trees to check, with the paths whose digests the rules will ask for."""
    found: dict[Digest, list[str]] = {}
    for node in nodes:
        by_path = {output.path: output for output in node.product.outputs}
        for output in node.product.outputs:
            found.setdefault(output.digest, [])
            for outer, inside in holders(output.path, by_path):
                found.setdefault(outer.digest, []).append(inside)
        for output in node.own:
            found[output.digest] += [*PAPERS, FORECAST]
    for product in ledger.products.values():
        for output in product.outputs:
            if output.files <= _SMALL_TREE_FILES and "step" not in output.contents:
                found.setdefault(output.digest, []).append(FORECAST)
    return found


def tabled_roots(nodes: Iterable[Node]) -> list[Digest]:
    """The tensor roots that have a leaf table: those of kept checkpoints."""
    kept = (output for node in nodes for output in node.product.outputs if "step" in output.contents)
    return sorted({root for output in kept if (root := root_of(output)) is not None})


def sealed(ledger: Ledger, surveyed: Mapping[Digest, Surveyed | ReckonError]) -> Mapping[Digest, str | None]:
    """When each forecast that a product holds was there for the first time."""
    index = Index(ledger)
    found: dict[Digest, str | None] = {}
    for digest, product in ledger.products.items():
        ends = [one.ended for _, one in index.by_product.get(digest, ()) if one.ended is not None]
        for output in product.outputs:
            table = surveyed.get(output.digest)
            forecast = table.parts.get(FORECAST) if isinstance(table, Surveyed) else None
            if forecast is not None and ends:
                earlier = found.get(forecast)
                found[forecast] = min(ends) if earlier is None else min(*ends, earlier)
    return found
