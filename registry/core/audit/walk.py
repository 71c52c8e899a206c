"""The walk: the products that an artifact descends from, each as a node with all that the records say of it.

Everything is indexed once, so that the work grows with the records and not with their square. Records are hostile:
refuses more inputs or outputs than any stage has, names and paths that are too long, names that stand twice in one
product, and lineages that lead back to themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from registry.core.audit.evidence import Node, is_time
from registry.core.digests import Digest
from registry.core.ledger import Ledger
from registry.core.lineage import Lineage, Link
from registry.core.names import Name
from registry.core.records import Execution, Product, Recipe
from registry.errors import MalformedRecord

MOST_PARTS: Final = 4096
LONGEST_TEXT: Final = 1024


@dataclass(slots=True)
class Index:
    """The executions of a ledger by what they speak of, oldest first."""

    ledger: Ledger
    by_product: dict[Digest, list[tuple[Digest, Execution]]] = field(default_factory=dict)
    products: dict[Digest, dict[Digest, int]] = field(default_factory=dict)
    attempts: dict[str, dict[str, Execution]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ordered = sorted(self.ledger.executions.items(), key=lambda pair: (pair[1].attempt, pair[0]))
        for digest, execution in ordered:
            self.attempts.setdefault(execution.stage, {})[execution.attempt] = execution
            if execution.witnesses and execution.product is not None:
                self.by_product.setdefault(execution.product, []).append((digest, execution))
                counts = self.products.setdefault(execution.recipe, {})
                counts[execution.product] = counts.get(execution.product, 0) + 1

    def rivals(self, recipe: Digest, product: Digest) -> tuple[tuple[Digest, int], ...]:
        """Other products of a recipe and how often they came out."""
        return tuple(sorted((one, times) for one, times in self.products.get(recipe, {}).items() if one != product))


def walk(ledger: Ledger, lineage: Lineage, product: Digest) -> Mapping[Digest, Node]:
    """The nodes of everything that ``product`` descends from, itself first.

    Raises ``MalformedRecord`` for records beyond the limits and ``DoesNotHold`` for a lineage that leads to itself.
    """
    for recipe in ledger.recipes.values():
        _check_recipe(recipe)
    for digest, one in ledger.products.items():
        _check_product(digest, one)
    index = Index(ledger)
    links = lineage.upwards(product)
    labels = _labels(ledger, links)
    return {
        digest: _node(index, digest, labels[digest], found)
        for digest, found in links.items()
        if digest in ledger.products
    }


def newest(ledger: Ledger, nodes: Iterable[Node]) -> frozenset[Digest]:
    """The nodes that are the newest product of their stage."""
    heads = {stage: ledger.head(stage) for stage in {node.product.stage for node in nodes}}
    return frozenset(found[1].product for found in heads.values() if found is not None and found[1].product is not None)


def _node(index: Index, digest: Digest, label: str, links: tuple[Link, ...]) -> Node:
    product = index.ledger.products[digest]
    executions = tuple(index.by_product.get(digest, ()))
    return Node(
        label=label,
        digest=digest,
        product=product,
        recipe=index.ledger.recipes.get(product.recipe),
        executions=executions,
        links=links,
        rivals=index.rivals(product.recipe, digest),
        attempts=index.attempts.get(product.stage, {}),
        first_start=_first(executions, lambda execution: execution.started),
        first_end=_first(executions, lambda execution: execution.ended),
    )


def _first(executions: Iterable[tuple[Digest, Execution]], time: Callable[[Execution], str | None]) -> str | None:
    told = (time(execution) for _, execution in executions)
    return min((one for one in told if one is not None and is_time(one)), default=None)


def _labels(ledger: Ledger, digests: Iterable[Digest]) -> Mapping[Digest, str]:
    """Stages, with the first digits of the product where the lineage has several of a stage."""
    stages = {digest: ledger.products[digest].stage for digest in digests if digest in ledger.products}
    counts: dict[str, int] = {}
    for stage in stages.values():
        counts[stage] = counts.get(stage, 0) + 1
    return {digest: stage if counts[stage] == 1 else f"{stage}~{digest.short}" for digest, stage in stages.items()}


def _check_recipe(recipe: Recipe) -> None:
    _check_count(recipe.stage, "inputs", recipe.inputs)
    for one in recipe.inputs:
        _check_text(recipe.stage, one.name, one.path)


def _check_product(digest: Digest, product: Product) -> None:
    _check_count(product.stage, "outputs", product.outputs)
    for output in product.outputs:
        _check_text(product.stage, output.name, output.path)
        Name.parse(output.name)
    names, paths = ({getattr(one, key) for one in product.outputs} for key in ("name", "path"))
    if len(names) != len(product.outputs) or len(paths) != len(product.outputs):
        raise MalformedRecord(f"The product {digest} has a name or path twice.")


def _check_count(stage: str, what: str, parts: Sequence[object]) -> None:
    if len(parts) > MOST_PARTS:
        raise MalformedRecord(f"A record of {stage[:80]} has {len(parts)} {what}, more than any stage.")


def _check_text(stage: str, *texts: str) -> None:
    if any(len(text) > LONGEST_TEXT for text in texts):
        raise MalformedRecord(f"A record of {stage[:80]} has a name or path of over {LONGEST_TEXT} characters.")
