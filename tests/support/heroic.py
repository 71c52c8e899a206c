"""The records of a hero of the published size, without a byte of its weights: for measuring an audit.

67 checkpoints of 28,000 objects, 200 components, 100,000 shards, 100 segments, 390,251 steps with a transcript line
each. Deterministic. Tables are written by the column: a Python object for each of four million rows would take an hour.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256 as hasher
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from support.shipyard import history

from registry.adapters.columns import FileRows
from registry.adapters.records import FileRecordStore
from registry.core import canonical, transcript
from registry.core.codec import record_bytes
from registry.core.digests import Digest, git_blob, record_digest, sha256
from registry.core.records import Environment, Execution, Input, Outcome, Output, Product, Recipe, Revision, SourceFile

STEPS = 390_251
LEAVES = 1_200
LOCK = "".join(f"library-{number}==1.{number} \\\n    --hash=sha256:{number:064x}\n" for number in range(285))


@dataclass(kw_only=True)
class Hero:
    """The sizes, and the archive at ``root`` as it grows. A test may want smaller ones."""

    root: Path
    checkpoints: int = 67
    objects: int = 28_000
    components: int = 200
    shards: int = 100_000
    segments: int = 100
    steps: int = STEPS
    clock: int = 0
    outputs: dict[str, Output] = field(default_factory=dict)

    def build(self) -> None:
        """Write everything."""
        self.names = [f"source-{number:03}" for number in range(self.components)]
        self.code = [f"train/module_{number:02}.py" for number in range(40)]
        self._repository()
        self._stage("shards", self._files("shards", self.shards), [])
        self._stage("tokenizer", self._files("tokenizer", 3), ["shards"])
        for name in self.names:
            self._stage(f"tokens/{name}", self._files(name, 20), ["shards", "tokenizer"])
        for number in range(1, self.segments + 1):
            self._segment(number)
        self._stage("export", self._files("export", 700), [f"hero/{self.segments}@step-{self.steps}", "tokenizer"])

    def _segment(self, number: int) -> None:
        first, last = (self.steps * at // self.segments for at in (number - 1, number))
        stage, folder = f"hero/{number}", self.root / f"artifacts/hero/{number}"
        folder.mkdir(parents=True)
        papers = {
            "order.json": canonical.encode({**self._order(), "chain": self._chain(number)}) + b"\n",
            "transcript.jsonl": b"".join(lines(first, last)),
            "history.parquet": history([(step, "train/loss", 1.0 / step) for step in range(first + 1, last + 1, 100)]),
        }
        for name, data in papers.items():
            (folder / name).write_bytes(data)
        objects = self.objects if number > self.segments - self.checkpoints else 10
        kept = self._files(f"checkpoint {number}", objects)
        inside = prefixed(kept, f"checkpoints/step-{last}/")
        small = table([(name, len(data), sha256(data).hex) for name, data in papers.items()])
        whole = pa.concat_tables([inside, small]).sort_by("path")
        inputs = [f"tokens/{name}" for name in self.names]
        parent = None
        if number > 1:
            name = f"hero/{number - 1}@step-{first}"
            inputs.append(name)
            parent = {"name": f"hero/{number - 1}", "step": first, "root": self.outputs[name].contents["tensors"]}
        checkpoint = self._output(f"{stage}@step-{last}", f"artifacts/{stage}/checkpoints/step-{last}", kept)
        contents = {"step": last, "tensors": str(self._leaves(number)), "leaves": LEAVES}
        self.outputs[checkpoint.name] = checkpoint = Output(
            **{
                name: getattr(checkpoint, name) for name in ("name", "path", "digest", "size_bytes", "files", "locator")
            },
            contents=contents,
        )
        self._stage(stage, whole, inputs, checkpoint=checkpoint, parent=parent, steps=(first, last))

    def _stage(self, stage: str, files: pa.Table, inputs: Sequence[str], **trained: object) -> None:
        output = self.outputs[stage] = self._output(stage, f"artifacts/{stage}", files)
        config = {"order": {"seed": 1, "block_sequences": 2048, "components": self.names}} if trained else {}
        recipe = Recipe(
            stage=stage,
            command=("python", "-m", "train.stage", stage),
            config=config,
            source=tuple(SourceFile(path=path, blob=git_blob(path.encode())) for path in self.code),
            lock=sha256(LOCK.encode()),
            inputs=tuple(
                Input(name=name, path=self.outputs[name].path, digest=self.outputs[name].digest) for name in inputs
            ),
            determinism={},
        )
        given = self._put(recipe)
        kept = trained.get("checkpoint")
        product = self._put(Product(stage=stage, recipe=given, outputs=(output, *([kept] if kept else []))))
        first, last = trained.get("steps", (0, 0))
        execution = Execution(
            stage=stage,
            attempt=f"20260101t{self.clock:06}z-00000000",
            recipe=given,
            product=product,
            outcome=Outcome.COMPLETE,
            cause=None,
            steps={"first": first, "reached": last} if trained else None,
            resumed=None,
            parent=trained.get("parent"),
            revision=Revision(commit=self.commit, tree=self.tree, patch=None),
            host={"name": "cluster", "machine": "x86_64", "cores": 224},
            started=self._now(),
            ended=self._now(),
            environment=self.environment,
            trackers=(),
            incidents=(),
            hypothesis=None,
        )
        self._put(execution)

    def _repository(self) -> None:
        for path in self.code:
            self._write(path, path)
        self._write("requirements.lock", LOCK)
        self._write("dvc.yaml", "stages: {}\n")
        order = {"seed": 1, "block_sequences": 2048, "components": self.names}
        self._write("params.yaml", json.dumps({"order": order}))
        self._write(".gitignore", "/artifacts\n")
        self._git("init", "-q", "-b", "main")
        self._git("add", "-A")
        self._git("commit", "-q", "-m", "Begin")
        self.commit, self.tree = self._git("rev-parse", "HEAD", "HEAD^{tree}").split()
        imported = tuple({"name": f"library-{n}", "version": f"1.{n}", "record": None} for n in range(285))
        self.environment = self._put(
            Environment(python="3.11.7", platform={"machine": "x86_64"}, accelerator={}, distributions=imported)
        )

    def _order(self) -> dict[str, object]:
        counts = [2048 // self.components] * self.components
        counts[0] += 2048 - sum(counts)
        return {
            "kind": "order",
            "schema": 1,
            "seed": 1,
            "components": [{"name": name, "sequences": 1000} for name in self.names],
            "phases": [{"first_step": 0, "weights": counts, "sequences_per_block": counts}],
            "steps": self.steps,
            "batch_sequences": 2048,
            "block_sequences": 2048,
            "sequence_tokens": 4096,
            "shuffle": {"permutation": "feistel", "io_block_sequences": 256, "window_blocks": 512},
        }

    def _chain(self, number: int) -> dict[str, object]:
        """Where a segment's order digests begin: from the facts, or where the segment before ended."""
        before, first = (self.steps * max(at, 0) // self.segments for at in (number - 2, number - 1))
        previous = record_digest(self._order()).hex if number == 1 else digest_of(before)
        return {"after_step": first, "previous": previous}

    def _files(self, seed: str, count: int) -> pa.Table:
        """A table of files: names by number, digests that no two share."""
        start = int.from_bytes(hasher(seed.encode()).digest()[:6], "little")
        random = np.random.default_rng(start)
        digests = [row.tobytes().hex() for row in random.integers(0, 256, (count, 32), dtype=np.uint8)]
        names = [f"d/{number:08x}" for number in range(count)]
        sizes = random.integers(1, 2**30, count, dtype=np.int64)
        return pa.table({"path": names, "size_bytes": sizes, "sha256": digests})

    def _output(self, name: str, path: str, files: pa.Table) -> Output:
        rows = FileRows(*(files.column(column).combine_chunks() for column in ("path", "size_bytes", "sha256")))
        self._parquet("objects", rows.digest, files)
        return Output(
            name=name,
            path=path,
            digest=rows.digest,
            size_bytes=rows.size_bytes,
            files=len(rows),
            contents={},
            locator=None,
        )

    def _leaves(self, number: int) -> Digest:
        random = np.random.default_rng(number)
        names = [f"model/layers/{leaf:05}" for leaf in range(LEAVES)]
        digests = [row.tobytes().hex() for row in random.integers(0, 256, (LEAVES, 32), dtype=np.uint8)]
        listed = ",".join(
            f'["{name}","float32",[6144,16384],"blake3:{digest}"]' for name, digest in zip(names, digests, strict=True)
        )
        root = sha256(f'{{"kind":"tensors","leaves":[{listed}],"schema":1}}'.encode())
        columns = {"name": names, "dtype": ["float32"] * LEAVES, "shape": ["[6144, 16384]"] * LEAVES, "blake3": digests}
        self._parquet("tensors", root, pa.table(columns))
        return root

    def _parquet(self, folder: str, digest: Digest, rows: pa.Table) -> None:
        path = self.root / f"manifests/{folder}/{digest.hex}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, path, compression="zstd", version="2.6", store_schema=False)

    def _put(self, record: Recipe | Product | Execution | Environment) -> Digest:
        return FileRecordStore(self.root / "manifests").put(record.kind, record_bytes(record))

    def _write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def _git(self, *arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=self.root, check=True, capture_output=True, text=True).stdout

    def _now(self) -> str:
        self.clock += 1
        return f"{datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.clock):%Y-%m-%dT%H:%M:%S.%fZ}"


def lines(first: int, last: int) -> Iterable[bytes]:
    """Transcript lines of the steps after ``first`` up to ``last``."""
    order = digest_of(first)
    for step in range(first + 1, last + 1):
        yield transcript.line(
            transcript.Line(
                step=step, loss=step, gradient_norm=step, order=order, state=f"{step * 0x9E3779B97F4A % 2**64:016x}"
            )
        )


def digest_of(first: int) -> str:
    """What stands for the order digests of the segment after a step."""
    return hasher(str(first).encode()).hexdigest()


def prefixed(files: pa.Table, folder: str) -> pa.Table:
    """The same files in a folder."""
    paths = pc.binary_join_element_wise(folder, files.column("path"), "")
    return files.set_column(0, "path", paths)


def table(rows: Sequence[tuple[str, int, str]]) -> pa.Table:
    """A file table of a few rows."""
    paths, sizes, digests = zip(*rows, strict=True)
    return pa.table({"path": list(paths), "size_bytes": list(sizes), "sha256": list(digests)})
