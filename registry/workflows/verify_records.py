"""Verifying the records themselves: bytes against names, form, schemas, tables, and what they say of each other.

A record that is missing is found where another speaks of it, where git still has it, or where a run log tells of an
attempt that no execution tells. Refuses nothing: whatever is wrong becomes a finding, so that one hides no other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from registry.core import kinds, runlog
from registry.core.digests import Digest
from registry.core.findings import Finding, Tally, Trouble
from registry.core.ledger import Ledger
from registry.core.records import Execution, Output, Product
from registry.core.resolving import digest_inside
from registry.errors import ReckonError
from registry.ports import Attempts, RecordStore, Repository, TableStore

MANIFESTS = "manifests"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordVerifier:
    """Verifies all of ``manifests/``."""

    records: RecordStore
    tables: TableStore
    repository: Repository
    attempts: Attempts
    ledger: Ledger

    def verify(self, tally: Tally) -> None:
        """Verify every record and table into ``tally``."""
        tally.add(self._files(tally))
        tally.add(self._tables(tally))
        tally.add(self._references())
        tally.add(self._committed())
        tally.add(self._untold())

    def _files(self, tally: Tally) -> Iterator[Finding]:
        for kind in self.records.kinds():
            for digest in self.records.digests(kind):
                tally.records += 1
                try:
                    kinds.read(kind, self.records.get(kind, digest))
                except ReckonError as error:
                    yield _record_finding(f"{kind} {digest}", _path(kind, digest), error.message)
        for path in self.records.strays():
            yield _record_finding(path, f"{MANIFESTS}/{path}", "Its name is not that of a record or table.")

    def _tables(self, tally: Tally) -> Iterator[Finding]:
        for tree in self.tables.trees():
            tally.records += 1
            try:
                self.tables.get_files(tree)
            except ReckonError as error:
                yield _record_finding(f"file table {tree}", f"{MANIFESTS}/objects/{tree.hex}.parquet", error.message)
        for root in self.tables.roots():
            tally.records += 1
            try:
                self.tables.get_leaves(root)
            except ReckonError as error:
                yield _record_finding(f"leaf table {root}", f"{MANIFESTS}/tensors/{root.hex}.parquet", error.message)

    def _references(self) -> Iterator[Finding]:
        present = {kind: frozenset(self.records.digests(kind)) for kind in ("recipe", "product", "environment")}
        for digest, execution in sorted(self.ledger.executions.items(), key=lambda pair: pair[0]):
            for kind, named in _named(execution):
                if named not in present[kind]:
                    yield _reference_finding(f"execution {digest}", f"Its {kind} is not on record.", str(named))
            yield from self._agreement(digest, execution)
        for digest, product in sorted(self.ledger.products.items(), key=lambda pair: pair[0]):
            if product.recipe not in present["recipe"]:
                yield _reference_finding(f"product {digest}", "Its recipe is not on record.", str(product.recipe))
            yield from self._outputs(digest, product)

    def _agreement(self, digest: Digest, execution: Execution) -> Iterator[Finding]:
        """An execution, its recipe and its product speak of one stage and of each other."""
        recipe = self.ledger.recipes.get(execution.recipe)
        product = None if execution.product is None else self.ledger.products.get(execution.product)
        subject = f"execution {digest}"
        if recipe is not None and recipe.stage != execution.stage:
            yield _reference_finding(
                subject, f"It is of {execution.stage}, its recipe of {recipe.stage}.", recipe.stage
            )
        if product is not None and (product.stage, product.recipe) != (execution.stage, execution.recipe):
            yield _reference_finding(subject, "Its product is of another stage or recipe.", str(product.recipe))

    def _outputs(self, digest: Digest, product: Product) -> Iterator[Finding]:
        """Each output has its table, and size and number of files add up."""
        trees, roots = frozenset(self.tables.trees()), frozenset(str(root) for root in self.tables.roots())
        for output in product.outputs:
            subject = f"product {digest}, {output.name}"
            if output.digest not in trees:
                yield _reference_finding(
                    subject, f"Its file table {output.digest} is not on record.", str(output.digest)
                )
            else:
                yield from self._sums(subject, product, output)
            root = output.contents.get("tensors")
            if "step" in output.contents and root not in roots:
                yield _reference_finding(subject, "Its leaf table is not on record.", str(root))

    def _sums(self, subject: str, product: Product, output: Output) -> Iterator[Finding]:
        """The table has as many files and bytes as the output says, and holds the checkpoints that lie in it."""
        try:
            entries = self.tables.get_files(output.digest)
        except ReckonError:
            return  # Told with the tables.
        files, size_bytes = len(entries), sum(entry.size_bytes for entry in entries)
        if (files, size_bytes) != (output.files, output.size_bytes):
            said = f"It says {output.files} files of {output.size_bytes} bytes; its table has {files} of {size_bytes}."
            yield _reference_finding(subject, said, str(output.digest))
        for inner in product.outputs:
            inside = inner.path.removeprefix(f"{output.path}/")
            if inside != inner.path and digest_inside(entries, inside) != inner.digest:
                yield _reference_finding(subject, f"Its table does not hold {inner.name}.", str(inner.digest))

    def _committed(self) -> Iterator[Finding]:
        """Records are append-only: what a commit holds stays as it is."""
        for path in self.repository.altered(MANIFESTS):
            yield _record_finding(path, path, "It was committed, and is now missing or has other bytes.")

    def _untold(self) -> Iterator[Finding]:
        """Attempts that say they completed, of which no execution tells."""
        for stage in self.attempts.stages():
            told = self.ledger.attempts(stage)
            try:
                logs = self.attempts.of_stage(stage)
            except ReckonError as error:
                yield Finding(
                    subject=stage, trouble=Trouble.UNREADABLE, path=f"artifacts/runs/{stage}", text=error.message
                )
                continue
            for log in logs:
                done = log.finished is not None and log.finished.outcome is runlog.Outcome.COMPLETE
                if done and log.started.attempt not in told:
                    yield Finding(
                        subject=stage,
                        trouble=Trouble.UNRECORDED,
                        path=f"artifacts/runs/{stage}/{log.started.attempt}",
                        text=f"The attempt {log.started.attempt} of {stage} completed, and no execution tells of it.",
                    )


def _named(execution: Execution) -> Iterator[tuple[str, Digest]]:
    yield "recipe", execution.recipe
    if execution.product is not None:
        yield "product", execution.product
    if execution.environment is not None:
        yield "environment", execution.environment


def _path(kind: str, digest: Digest) -> str:
    return f"{MANIFESTS}/{kinds.folder_of(kind)}/{digest.hex}.json"


def _record_finding(subject: str, path: str, text: str) -> Finding:
    return Finding(subject=subject, trouble=Trouble.RECORD, path=path, text=text)


def _reference_finding(subject: str, text: str, named: str) -> Finding:
    return Finding(subject=subject, trouble=Trouble.REFERENCE, text=text, recorded=named)
