"""The course of a run: its segments from the first to the last, each with the order of its data and what that was.

A run is named like a stage (``rung/d48``, ``hero/2``) or like a chain of them (``hero``). The chain is followed from
its last segment back through the checkpoints that were proved, so that it is the one that was trained. Pure: files and
tables are read by what it is given. Refuses stages that were not trained, and segments that do not join.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeAlias

from registry.core.digests import Digest, FileEntry
from registry.core.documents import Split
from registry.core.ledger import Ledger
from registry.core.lineage import Artifact, FileTable, Lineage, Link, Role
from registry.core.names import Name, known
from registry.core.order import Order
from registry.core.orderfacts import OrderFacts
from registry.core.records import Output, Product, Recipe
from registry.core.resolving import digest_inside, file_in
from registry.core.spans import Documents
from registry.core.transcript import parse
from registry.errors import DoesNotHold, ReckonError, Refused, UnknownName

ORDER: Final = "order.json"
TRANSCRIPT: Final = "transcript.jsonl"
TABLE: Final = "documents.parquet"
SHARDS: Final = "shards"
_PLACES: Final = {"id": str, "shard": str, "row": int, "token_offset": int, "tokens": int}
_ORIGINS: Final = {"id": str, "source": str}
_DETERMINISM: Final = {"generator": "threefry2x32", "partitionable_generator": True, "x64": False}

ReadFile: TypeAlias = Callable[[Output, FileEntry], bytes]
ReadColumns: TypeAlias = Callable[[Output, FileEntry, Mapping[str, type]], Mapping[str, Sequence[Any]]]


@dataclass(frozen=True, kw_only=True)
class Leg:
    """One segment: its product, the updates that it made (``steps``), the checkpoints that it kept, and its order.

    ``links`` say what it was made from. ``order`` and the rest are read when they are asked for.
    """

    digest: Digest
    product: Product
    recipe: Recipe | None
    steps: range
    links: tuple[Link, ...]
    navigator: Navigator

    @property
    def stage(self) -> str:
        """Its name."""
        return self.product.stage

    @property
    def own(self) -> Output:
        """The output of the stage, without its checkpoints' own entries."""
        return self.product.outputs[0]

    @property
    def kept(self) -> tuple[int, ...]:
        """The steps of the kept checkpoints, ascending."""
        return _kept(self.product)

    @cached_property
    def order(self) -> Order:
        """The order of its data. Raises like :meth:`ordered` and :meth:`paper`."""
        return self.ordered(self.paper(ORDER))

    def ordered(self, facts: bytes) -> Order:
        """The order that the bytes of an ``order.json`` tell.

        Raises ``Refused`` where the recipe's generator is not the one that is known here, and for malformed facts.
        """
        for name, wanted in _DETERMINISM.items():
            found = wanted if self.recipe is None else self.recipe.determinism.get(name, wanted)
            if found != wanted:
                raise Refused(
                    f"{self.stage} was trained with {name} {found}; orders are known for {wanted} alone.",
                    remedy="Derive it with the recorded code and libraries: 'reckon rederive'.",
                )
        return Order(OrderFacts.read(facts))

    @cached_property
    def inherited(self) -> str | None:
        """The order digest after the parent's last step as its transcript tells it. None where there is no parent."""
        parent = self.navigator.parent(self.digest)
        if parent is None:
            return None
        own = self.navigator.ledger.products[parent.product].outputs[0]
        line = parse(self.navigator.paper(own, TRANSCRIPT)).at(self.steps.start - 1)
        return None if line is None else line.order

    def paper(self, path: str) -> bytes:
        """A file of the stage's output, with the recorded bytes. Raises ``UnknownName`` and ``DoesNotHold``."""
        return self.navigator.paper(self.own, path)

    def source(self, component: str) -> Artifact:
        """The token caches of a component. Raises ``DoesNotHold`` when the recipe was not given any."""
        for link in self.links:
            if _stage_of(link) == f"tokens/{component}" and isinstance(link.source, Artifact):
                return link.source
        raise DoesNotHold(
            f"{self.stage} was fed from {component}, but no recorded tokens of it were among its inputs.",
            remedy="See 'reckon tree' for what is missing.",
        )

    def documents(self, component: str, split: Split = Split.TRAIN) -> Documents:
        """The documents of a component's stream."""
        return self.navigator.documents(self.source(component), split)


@dataclass(frozen=True, kw_only=True)
class Course:
    """A run from its first segment to its last."""

    run: str
    legs: tuple[Leg, ...]

    def leg(self, step: int) -> Leg:
        """The segment that made update ``step``. Raises ``Refused`` for a step of none."""
        for leg in self.legs:
            if step in leg.steps:
                return leg
        first, last = self.legs[0].steps.start, self.legs[-1].steps.stop - 1
        raise Refused(f"{self.run} made the steps {first} to {last}, not {step}.", remedy="Steps count from 1.")


@dataclass(frozen=True)
class Navigator:
    """Finds courses in one archive. ``files`` gives file tables; ``read`` and ``columns`` files with recorded bytes."""

    ledger: Ledger
    lineage: Lineage
    files: FileTable
    read: ReadFile
    columns: ReadColumns
    _documents: dict[tuple[Digest, Split], Documents] = field(default_factory=dict, repr=False, compare=False)

    def runs(self) -> tuple[str, ...]:
        """Every run on record: chains of segments under their common name, and stages that stand alone."""
        stages = self._trained()
        chained = {_family(stage) for stage in stages if self.parent(stages[stage]) is not None}
        return tuple(sorted({_family(stage) if _family(stage) in chained else stage for stage in stages}))

    def course(self, run: str) -> Course:
        """The course of a run.

        Raises ``UnknownName``, ``Refused`` for a stage that is no run, ``DoesNotHold`` for segments that do not join.
        """
        stages = self._trained()
        if run in stages:
            return Course(run=run, legs=(self._leg(stages[run]),))
        members = [stage for stage in stages if _family(stage) == run]
        if not members:
            self._require_run(run)
            known(run, [*stages, *self.runs()])
        legs = tuple(self._chain(run, [stages[stage] for stage in members]))
        if set(members) - {leg.stage for leg in legs}:
            raise Refused(f"{run} is more than one run.", remedy=f"Name one of {', '.join(sorted(members))}.")
        return Course(run=run, legs=legs)

    def _require_run(self, name: str) -> None:
        """Raises ``Refused`` for the name of stages on record that are no runs."""
        if any(f"{stage}/".startswith(f"{name}/") for stage in self.ledger.stages()):
            runs = self.runs()
            raise Refused(
                f"{name} has no batches and no order of data: only runs have, the rungs and the segments of the hero.",
                remedy=f"Name a run, such as {runs[-1]}; known are {', '.join(runs)}." if runs else "None is recorded.",
            )

    def parent(self, product: Digest) -> Artifact | None:
        """The recorded checkpoint that a product began from."""
        sources = [link.source for link in self.lineage.links(product) if link.role is Role.PARENT]
        return next((source for source in sources if isinstance(source, Artifact)), None)

    def paper(self, output: Output, path: str) -> bytes:
        """The recorded bytes of a file of an output. Raises ``UnknownName`` and ``DoesNotHold``."""
        return self.read(output, self.entry(output, path))

    def entry(self, output: Output, path: str) -> FileEntry:
        """A file of an output, as its table tells it. Raises ``UnknownName``."""
        return file_in(self.files(output.digest), path)[0]

    def documents(self, source: Artifact, split: Split) -> Documents:
        """The documents of a split of recorded token caches."""
        key = (source.output.digest, split)
        if key not in self._documents:
            entry = self.entry(source.output, f"{split}/{TABLE}")
            table = self.columns(source.output, entry, _PLACES)
            self._documents[key] = Documents(
                ids=table["id"],
                shards=table["shard"],
                rows=table["row"],
                offsets=table["token_offset"],
                tokens=table["tokens"],
            )
        return self._documents[key]

    def packages(self, tokens: Artifact, documents: Documents, wanted: Iterable[int]) -> dict[int, str | None]:
        """The package that each wanted document comes from, None where its shard lies nowhere here.

        Only shards that hold a wanted document are read.
        """
        found: dict[int, str | None] = {}
        by_shard: dict[str, list[int]] = {}
        for index in sorted(set(wanted)):
            by_shard.setdefault(documents.shards[index], []).append(index)
        for shard, indices in by_shard.items():
            rows = self._shard(tokens, shard)
            for index in indices:
                known_row = (documents.rows[index], documents.ids[index])
                found[index] = None if rows is None else _package(rows, *known_row)
        return found

    def _shard(self, tokens: Artifact, shard: str) -> Mapping[str, Sequence[Any]] | None:
        for link in self.lineage.links(tokens.product):
            if _stage_of(link) == SHARDS and isinstance(link.source, Artifact):
                output = link.source.output
                try:
                    return self.columns(output, self.entry(output, shard), _ORIGINS)
                except UnknownName:
                    return None
        return None

    def _trained(self) -> dict[str, Digest]:
        """The newest product of every stage that kept checkpoints and told the order of its data."""
        heads = {stage: self.ledger.head(stage) for stage in self.ledger.stages()}
        found = {stage: head[1].product for stage, head in heads.items() if head is not None}
        products = self.ledger.products
        return {
            stage: one
            for stage, one in found.items()
            if one is not None and one in products and _kept(products[one]) and self._ordered(products[one])
        }

    def _ordered(self, product: Product) -> bool:
        try:
            return digest_inside(self.files(product.outputs[0].digest), ORDER) is not None
        except ReckonError:
            return False

    def _chain(self, run: str, members: Sequence[Digest]) -> Iterator[Leg]:
        """The segments from the first to the last, found from the last one backwards."""
        legs = [self._leg(max(members, key=lambda one: (self._first_step(one), one)))]
        while (parent := self.parent(legs[0].digest)) is not None:
            if parent.product in {leg.digest for leg in legs}:
                raise DoesNotHold(f"The segments of {run} lead back to themselves.")
            legs.insert(0, self._leg(parent.product, until=Name.parse(parent.output.name).step))
        if legs[0].steps.start != 1:
            raise DoesNotHold(
                f"The run {run} is on record only after step {legs[0].steps.start - 1}.",
                remedy=f"See 'reckon tree {legs[0].stage}' for what is missing.",
            )
        yield from legs

    def _leg(self, product: Digest, until: int | None = None) -> Leg:
        record = self.ledger.products[product]
        last = _kept(record)[-1] if until is None else until
        return Leg(
            digest=product,
            product=record,
            recipe=self.ledger.recipes.get(record.recipe),
            steps=range(self._first_step(product) + 1, last + 1),
            links=self.lineage.links(product),
            navigator=self,
        )

    def _first_step(self, product: Digest) -> int:
        """Completed updates before the segment."""
        parent = [link for link in self.lineage.links(product) if link.role is Role.PARENT]
        return (Name.parse(parent[0].name).step or 0) if parent else 0


def _kept(product: Product) -> tuple[int, ...]:
    steps = (Name.parse(output.name).step for output in product.outputs)
    return tuple(sorted(step for step in steps if step is not None))


def _stage_of(link: Link) -> str:
    """The stage whose output, or part of it, was an input."""
    return link.name.partition(":")[0]


def _family(stage: str) -> str:
    return stage.partition("/")[0]


def _package(shard: Mapping[str, Sequence[Any]], row: int, identity: str) -> str:
    ids = shard["id"]
    if not 0 <= row < len(ids) or ids[row] != identity:
        raise DoesNotHold(
            f"The document {identity[:12]} is not in row {row} of its shard.", remedy="See 'reckon verify shards'."
        )
    return str(shard["source"][row])
