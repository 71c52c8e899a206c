"""What is on record under a name or digest: an artifact with its recipe and witnesses, a file of it, or one record.

Reads records and tables only. Refuses names and digests that nothing is known under.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from registry.core import kinds
from registry.core.canonical import Json
from registry.core.codec import Record
from registry.core.digests import Digest, FileEntry
from registry.core.happened import Happened, Taint
from registry.core.incidents import Event
from registry.core.ledger import Ledger, Witnesses
from registry.core.names import Name
from registry.core.pointers import Pointer
from registry.core.records import Execution, Output, Product, Recipe
from registry.core.resolving import Held, Prefix, Reference, artifact, artifacts_with, file_in, one_of, root_of
from registry.core.standing import Standing, standing
from registry.errors import ReckonError
from registry.ports import RecordStore, TableStore

ARTIFACT = "artifact"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownArtifact:
    """An output, the product and recipe that it is of, and every attempt of its stage, newest first."""

    output: Output
    product_digest: Digest
    product: Product
    recipe: Recipe | None
    executions: tuple[tuple[Digest, Execution], ...]
    witnesses: tuple[Witnesses, ...]
    standing: Standing
    pointers: tuple[Pointer, ...]
    incidents: tuple[Event, ...]
    taints: tuple[Taint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownFiles:
    """Files of an artifact: one, or those of a folder in it."""

    path: str
    output: Output
    product_digest: Digest
    executions: tuple[Digest, ...]
    files: Sequence[FileEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRecord:
    """One record, and the records that speak of it."""

    kind: str
    digest: Digest
    record: Record
    spoken_of: tuple[tuple[str, Digest], ...]


Shown = ShownArtifact | ShownFiles | ShownRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Shower:
    """Looks things up in one archive."""

    records: RecordStore
    tables: TableStore
    ledger: Ledger
    happened: Happened = field(default_factory=Happened)

    def show(self, reference: Reference) -> Shown:
        """What is known under a name or digest. Raises ``UnknownName``, or ``DoesNotHold`` for damaged records."""
        if isinstance(reference, Prefix):
            return self._by_digest(reference)
        return self._by_name(reference)

    def _by_name(self, name: Name) -> Shown:
        held = artifact(self.ledger, name)
        if name.path is None:
            return self._artifact(held.output, held.product_digest)
        return self._files(held, name.path)

    def _by_digest(self, prefix: Prefix) -> Shown:
        kind, digest = one_of(prefix, self._candidates())
        if kind == ARTIFACT:
            product_digest, output = artifacts_with(self.ledger, digest)[0]
            return self._artifact(output, product_digest)
        product = self.ledger.products.get(digest)
        if product is not None and product.outputs:
            return self._artifact(product.outputs[0], digest)
        record = kinds.read(kind, self.records.get(kind, digest))
        return ShownRecord(kind=kind, digest=digest, record=record, spoken_of=tuple(self._speakers(digest)))

    def _candidates(self) -> Mapping[str, Sequence[Digest]]:
        stored = {kind: self.records.digests(kind) for kind in self.records.kinds()}
        outputs = [output for product in self.ledger.products.values() for output in product.outputs]
        roots = [root for root in map(root_of, outputs) if root is not None]
        return {**stored, ARTIFACT: [*(output.digest for output in outputs), *roots]}

    def _artifact(self, output: Output, product_digest: Digest) -> ShownArtifact:
        product = self.ledger.products[product_digest]
        executions = self.ledger.executions_of(product.stage)
        agreeing = [one for _, one in executions if one.witnesses and one.product == product_digest]
        named = frozenset(digest for digest, _ in executions)
        return ShownArtifact(
            output=output,
            product_digest=product_digest,
            product=product,
            recipe=self.ledger.recipes.get(product.recipe),
            executions=executions,
            witnesses=self.ledger.witnesses(product.recipe),
            standing=standing(agreeing, {one.attempt: one for _, one in executions}),
            pointers=tuple(pointer for pointer in self._pointers() if pointer.execution in named),
            incidents=self.happened.events_of(product_digest, output),
            taints=self.happened.taints_of(product_digest, output),
        )

    def _files(self, held: Held, path: str) -> ShownFiles:
        claimed = [one for one in self.ledger.witnesses(held.product.recipe) if one.product == held.product_digest]
        return ShownFiles(
            path=path,
            output=held.output,
            product_digest=held.product_digest,
            executions=claimed[0].executions if claimed else (),
            files=file_in(self.tables.get_files(held.output.digest), path),
        )

    def _pointers(self) -> Iterator[Pointer]:
        """All pointers that can be read; damaged ones are for ``verify`` to tell."""
        for digest in self.records.digests(Pointer.KIND):
            try:
                record = kinds.read(Pointer.KIND, self.records.get(Pointer.KIND, digest))
            except ReckonError:
                continue
            if isinstance(record, Pointer):
                yield record

    def _speakers(self, digest: Digest) -> Iterator[tuple[str, Digest]]:
        for product, record in sorted(self.ledger.products.items(), key=lambda pair: pair[0]):
            if record.recipe == digest:
                yield Product.KIND, product
        for execution, told in sorted(self.ledger.executions.items(), key=lambda pair: pair[1].attempt, reverse=True):
            if digest in (told.recipe, told.product, told.environment):
                yield Execution.KIND, execution


def facts(shown: Shown) -> Mapping[str, Json]:
    """All facts as JSON, the records in their own form."""
    if isinstance(shown, ShownRecord):
        mentions: list[Json] = [{"kind": kind, "digest": str(digest)} for kind, digest in shown.spoken_of]
        return {
            "kind": shown.kind,
            "digest": str(shown.digest),
            "record": shown.record.to_json(),
            "spoken_of": mentions,
        }
    output, product = shown.output.to_json(), str(shown.product_digest)
    if isinstance(shown, ShownFiles):
        return {
            "path": shown.path,
            "output": output,
            "product": product,
            "executions": [str(one) for one in shown.executions],
            "files": [_file(entry) for entry in shown.files],
        }
    return {
        "output": output,
        "product": {"digest": product, **shown.product.to_json()},
        "recipe": {"digest": str(shown.product.recipe), **(shown.recipe.to_json() if shown.recipe else {})},
        "executions": [{"digest": str(digest), **one.to_json()} for digest, one in shown.executions],
        "witnesses": [_witnesses(one) for one in shown.witnesses],
        "tier": shown.standing.tier.value,
        "replayed_steps": shown.standing.replayed_steps,
        "total_steps": shown.standing.total_steps,
        "pointers": [pointer.to_json() for pointer in shown.pointers],
        "incidents": [event.to_json() for event in shown.incidents],
        "taints": [taint.to_json() for taint in shown.taints],
    }


def _file(entry: FileEntry) -> Json:
    return {"path": entry.path, "size_bytes": entry.size_bytes, "digest": str(entry.digest)}


def _witnesses(one: Witnesses) -> Json:
    return {"product": str(one.product), "executions": [str(digest) for digest in one.executions]}
