"""All records together, indexed: which executions a stage has, which products a recipe gave, who witnesses them.

Pure: it is built from bytes that somebody else read. A record that cannot be read becomes :class:`Damage`, never an
exception, so that one bad file hides nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from registry.core import canonical
from registry.core.digests import Digest
from registry.core.records import Environment, Execution, Product, Recipe
from registry.core.rederivation import rederives
from registry.errors import ReckonError


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """A record file that does not hold what its name says."""

    kind: str
    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Witnesses:
    """The executions that gave one product of one recipe, oldest first."""

    recipe: Digest
    product: Digest
    executions: tuple[Digest, ...]


_KINDS = {one.KIND: one for one in (Recipe, Product, Execution, Environment)}
KINDS = tuple(_KINDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """Every recipe, product, execution and environment that could be read, by digest."""

    recipes: Mapping[Digest, Recipe] = field(default_factory=dict)
    products: Mapping[Digest, Product] = field(default_factory=dict)
    executions: Mapping[Digest, Execution] = field(default_factory=dict)
    environments: Mapping[Digest, Environment] = field(default_factory=dict)
    damages: tuple[Damage, ...] = ()

    @classmethod
    def build(cls, raw: Iterable[tuple[str, Digest, bytes | ReckonError]]) -> Self:
        """Index raw records: (kind, digest, bytes or what went wrong in reading them)."""
        found: dict[str, dict[Digest, object]] = {kind: {} for kind in _KINDS}
        damages = []
        for kind, digest, data in raw:
            try:
                if isinstance(data, ReckonError):
                    raise data
                found[kind][digest] = _KINDS[kind].from_json(canonical.decode(data))
            except ReckonError as error:
                damages.append(Damage(kind=kind, name=str(digest), reason=error.message))
        fields = {f"{kind}s": records for kind, records in found.items()}
        return cls(**fields, damages=tuple(damages))  # type: ignore[arg-type]

    def executions_of(self, stage: str) -> tuple[tuple[Digest, Execution], ...]:
        """Executions of a stage, newest attempt first."""
        mine = [(digest, one) for digest, one in self.executions.items() if one.stage == stage]
        return tuple(sorted(mine, key=lambda pair: (pair[1].attempt, pair[0]), reverse=True))

    def newest(self) -> tuple[tuple[Digest, Execution], ...]:
        """All executions, newest attempt first."""
        pairs = self.executions.items()
        return tuple(sorted(pairs, key=lambda pair: (pair[1].attempt, pair[0]), reverse=True))

    def stages(self) -> tuple[str, ...]:
        """Every stage that has an execution, sorted."""
        return tuple(sorted({one.stage for one in self.executions.values()}))

    def head(self, stage: str) -> tuple[Digest, Execution] | None:
        """The newest execution of a stage that came to a product, re-derivations only where there is no other."""
        complete = [pair for pair in self.executions_of(stage) if pair[1].witnesses]
        return next((pair for pair in complete if not rederives(pair[1])), complete[0] if complete else None)

    def witnesses(self, recipe: Digest) -> tuple[Witnesses, ...]:
        """Products of a recipe with their executions; more than one is a contradiction."""
        by_product: dict[Digest, list[tuple[str, Digest]]] = {}
        for digest, one in self.executions.items():
            if one.recipe == recipe and one.witnesses and one.product is not None:
                by_product.setdefault(one.product, []).append((one.attempt, digest))
        return tuple(
            Witnesses(recipe=recipe, product=product, executions=tuple(digest for _, digest in sorted(pairs)))
            for product, pairs in sorted(by_product.items())
        )

    def attempts(self, stage: str) -> frozenset[str]:
        """The attempts of a stage that have an execution record."""
        return frozenset(one.attempt for one in self.executions.values() if one.stage == stage)

    def product_of(self, stage: str) -> Product | None:
        """The product of the newest complete execution of a stage, if its record could be read."""
        head = self.head(stage)
        return None if head is None or head[1].product is None else self.products.get(head[1].product)
