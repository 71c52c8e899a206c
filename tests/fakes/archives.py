"""A small archive on disk: records of a trained stage, written by the real stores, with a history beside them."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from registry.adapters.histories import ParquetHistories
from registry.adapters.records import FileRecordStore
from registry.adapters.tables import TableFolder
from registry.core.codec import name_of, record_bytes
from registry.core.digests import Digest, FileEntry, sha256
from registry.core.history import History
from registry.core.ledger import KINDS, Ledger
from registry.core.pointers import Pointer, Pointers
from registry.core.records import Execution, Input, Outcome, Output, Product, Recipe, Revision
from registry.core.reports import Told, report_of

STAGE = "rung/d32"
ROOT = "sha256:" + "5" * 64
POINTS = tuple(
    (step, metric, (step + 1) / 3 * scale)
    for step in range(4)
    for metric, scale in (("train/loss", 1.0), ("router/load: layer 0", -1e-300))
)


@dataclass(frozen=True, kw_only=True)
class Archive:
    """Stores over one folder."""

    root: Path

    @property
    def records(self) -> FileRecordStore:
        return FileRecordStore(self.root / "manifests")

    @property
    def tables(self) -> TableFolder:
        return TableFolder(self.root / "manifests")

    @property
    def histories(self) -> ParquetHistories:
        return ParquetHistories(self.root)

    @property
    def ledger(self) -> Ledger:
        store = self.records
        return Ledger.build((kind, one, store.get(kind, one)) for kind in KINDS for one in store.digests(kind))

    @property
    def pointers(self) -> Pointers:
        store = self.records
        return Pointers.build((one, store.get(Pointer.KIND, one)) for one in store.digests(Pointer.KIND))

    def add(self, record: Recipe | Product | Execution) -> Digest:
        return self.records.put(record.kind, record_bytes(record))

    def execution(self, attempt: int, outcome: Outcome = Outcome.COMPLETE, stage: str = STAGE, **changes) -> Digest:
        """Record one attempt of a trained stage, its history lying in ``artifacts/``."""
        recipe = self.add(recipe_of(stage))
        product = self.add(self.product(stage, recipe)) if outcome is Outcome.COMPLETE else None
        return self.add(replace(execution_of(stage, attempt, recipe, product, outcome), **changes))

    def product(self, stage: str, recipe: Digest) -> Product:
        path = f"artifacts/{stage}"
        data = parquet(POINTS)
        file = self.root / path / "history.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        tree = self.tables.put_files([FileEntry(path=file.name, size_bytes=len(data), digest=sha256(data))])
        return product_of(stage, recipe, tree)


def recipe_of(stage: str = STAGE) -> Recipe:
    return Recipe(
        stage=stage,
        command=("python", "-m", "train.rung", "d32"),
        config={"model": {"width": 32, "layers": [1, 2]}, "rate": "0.001", "long": "x" * 7000, "none": None},
        source=(),
        lock=sha256(b"lock"),
        inputs=(
            Input(name="tokens/code", path="artifacts/tokens/code", digest=sha256(b"code")),
            Input(name="tokens/prose", path="artifacts/tokens/prose", digest=sha256(b"prose")),
        ),
        determinism={"NPROC": "2"},
    )


def product_of(stage: str, recipe: Digest, tree: Digest) -> Product:
    path = f"artifacts/{stage}"
    whole = Output(
        name=stage, path=path, digest=tree, size_bytes=10, files=1, contents={"tokens": 99}, locator="0" * 32 + ".dir"
    )
    kept = [
        Output(
            name=f"{stage}@step-{step}",
            path=f"{path}/checkpoints/step-{step}",
            digest=sha256(str(step).encode()),
            size_bytes=10,
            files=2,
            contents={"step": step, "tensors": ROOT, "leaves": 3},
            locator=None,
        )
        for step in (2, 4)
    ]
    return Product(stage=stage, recipe=recipe, outputs=(whole, *kept))


def execution_of(stage: str, attempt: int, recipe: Digest, product: Digest | None, outcome: Outcome) -> Execution:
    complete = outcome is Outcome.COMPLETE
    return Execution(
        stage=stage,
        attempt=f"20260102t03040{attempt}z-0000000{attempt}",
        recipe=recipe,
        product=product,
        outcome=outcome,
        cause=None if complete else {"error": "MemoryError", "message": "no room"},
        steps={"first": 0, "reached": 4},
        resumed=None,
        parent=None,
        revision=Revision(commit="c" * 40, tree="d" * 40, patch=sha256(b"patch")),
        host={"name": "host", "cores": 2},
        started=f"2026-01-02T03:04:0{attempt}.000006Z",
        ended=f"2026-01-02T03:05:0{attempt}.500000Z" if outcome is not Outcome.INTERRUPTED else None,
        environment=None,
        trackers=(),
        incidents=(),
        hypothesis={"expected_loss": "3.1"},
    )


def parquet(points) -> bytes:
    steps, metrics, values = zip(*points, strict=True)
    columns = [
        ("step", pa.int64(), steps),
        ("metric", pa.string(), metrics),
        ("value", pa.float64(), values),
    ]
    table = pa.table({name: pa.array(items, kind) for name, kind, items in columns})
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()


def history() -> History:
    return History.of(POINTS)


def report(attempt: int = 1, outcome: Outcome = Outcome.COMPLETE, stage: str = STAGE, tree: bytes = b"tree"):
    """What a tracker is told of an attempt; ``tree`` stands for the bytes of its product."""
    recipe = recipe_of(stage)
    product = product_of(stage, name_of(recipe), sha256(tree)) if outcome is Outcome.COMPLETE else None
    named = None if product is None else name_of(product)
    execution = execution_of(stage, attempt, name_of(recipe), named, outcome)
    told = Told(execution=execution, recipe=recipe, product=product, producers=())
    return report_of(told, None if product is None else history())
