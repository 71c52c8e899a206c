"""A small archive whose data order is real: shards, token caches, a rung and a hero of two segments, all recorded.

Records are written by the real stores, bytes by the real formats, and the transcripts are what a training stage would
have told; only the numbers of the model are made up. DVC's cache and remote are filled as DVC would. Use the fixture
``charted`` (a copy of one's own) or ``charted_once`` (one for the session, not to be touched).
"""

from __future__ import annotations

import hashlib
import io
import json
import random
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from support.voyage import safetensors

from registry.adapters.checkpoints import read_leaves
from registry.adapters.hashing import folder_locator, hash_tree
from registry.adapters.records import FileRecordStore
from registry.adapters.tables import TableFolder
from registry.cli import charting
from registry.core import canonical, transcript
from registry.core.canonical import Json
from registry.core.codec import record_bytes
from registry.core.course import Navigator
from registry.core.digests import Digest, FileEntry, sha256, tree_digest
from registry.core.order import Order, id_bytes
from registry.core.orderfacts import Component, OrderFacts, Phase, Shuffle
from registry.core.records import Execution, Input, Outcome, Output, Product, Recipe, Revision
from registry.core.tensors import tensor_root

DOMAINS = ("code", "math", "prose")
LENGTH = 8
BATCH = 4
SEED = 11
WEIGHTS = ((60, 39, 1), (20, 80, 0))
SWITCH = 16
STEPS = 24
RUNGS = ("d32", "d48")
DVC_YAML = "stages: {}\n"
DVC_CONFIG = "[core]\n    remote = store\n['remote \"store\"']\n    url = ../artifacts/store/remote\n"


@dataclass(kw_only=True)
class Charted:
    """The archive at ``root``; ``ran`` counts executions."""

    root: Path
    ran: int = 0
    streams: dict[str, list[int]] = field(default_factory=dict)

    @property
    def records(self) -> FileRecordStore:
        return FileRecordStore(self.root / "manifests")

    @property
    def tables(self) -> TableFolder:
        return TableFolder(self.root / "manifests")

    @property
    def navigator(self) -> Navigator:
        return charting.navigator(self.root)

    def write(self, path: str, data: bytes) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_bytes(data)

    def edit(self, path: str, **changes: Json) -> None:
        """Change fields of a JSON file."""
        value = canonical.decode((self.root / path).read_bytes())
        assert isinstance(value, dict)
        self.write(path, canonical.encode({**value, **changes}))

    def flip(self, path: Path, at: int = -1) -> None:
        """Flip the lowest bit of one byte."""
        data = bytearray(path.read_bytes())
        data[at] ^= 1
        path.write_bytes(data)

    def put(self, record: Recipe | Product | Execution) -> Digest:
        return self.records.put(record.kind, record_bytes(record))

    def record(
        self,
        stage: str,
        inputs: Sequence[str] = (),
        config: Mapping[str, Json] | None = None,
        parent: Mapping[str, Json] | None = None,
        **changes: object,
    ) -> Digest:
        """Record what lies in the stage's output as the product of one complete attempt. ``inputs`` are stages."""
        recipe = self.put(recipe_of(stage, [self.input(name) for name in inputs], config or {}))
        product = self.put(Product(stage=stage, recipe=recipe, outputs=tuple(self.outputs(stage))))
        self.ran += 1
        execution = execution_of(stage, self.ran, recipe, product)
        self.put(replace(execution, parent=parent, **changes))
        self.keep(stage)
        return product

    def outputs(self, stage: str) -> list[Output]:
        path = f"artifacts/{stage}"
        entries = hash_tree(self.root / path)
        locator = folder_locator([(one.path, md5((self.root / path / one.path).read_bytes())) for one in entries])
        found = [self.output(stage, path, entries, {}, locator)]
        for folder in sorted((self.root / path / "checkpoints").glob("step-*"), key=lambda one: int(one.name[5:])):
            step, inside = int(folder.name[5:]), hash_tree(folder)
            leaves = read_leaves(folder)
            self.tables.put_leaves(leaves)
            contents: dict[str, Json] = {"step": step, "tensors": str(tensor_root(leaves)), "leaves": len(leaves)}
            name = f"{stage}@step-{step}"
            found.append(self.output(name, f"{path}/checkpoints/{folder.name}", inside, contents, None))
        return found

    def output(
        self, name: str, path: str, entries: Sequence[FileEntry], contents: Mapping[str, Json], locator: str | None
    ) -> Output:
        return Output(
            name=name,
            path=path,
            digest=self.tables.put_files(entries),
            size_bytes=sum(one.size_bytes for one in entries),
            files=len(entries),
            contents=contents,
            locator=locator,
        )

    def input(self, name: str) -> Input:
        path = f"artifacts/{name.replace('@', '/checkpoints/')}"
        return Input(name=name, path=path, digest=tree_digest(hash_tree(self.root / path)))

    def keep(self, stage: str) -> None:
        """Put a stage's output into DVC's cache and remote, and into its lock."""
        folder = self.root / "artifacts" / stage
        rows = []
        for entry in hash_tree(folder):
            data = (folder / entry.path).read_bytes()
            rows.append({"md5": self.stored(data), "relpath": entry.path})
        listing = json.dumps(sorted(rows, key=lambda row: row["relpath"]), sort_keys=True).encode()
        self.lock(stage, self.stored(listing, ".dir"))

    def stored(self, data: bytes, suffix: str = "") -> str:
        name = md5(data) + suffix
        for store in (".dvc/cache", "artifacts/store/remote"):
            self.write(f"{store}/files/md5/{name[:2]}/{name[2:]}", data)
        return name

    def lock(self, stage: str, locator: str) -> None:
        path = self.root / "dvc.lock"
        lock = json.loads(path.read_bytes()) if path.is_file() else {"schema": "2.0", "stages": {}}
        out = {"path": f"artifacts/{stage}", "hash": "md5", "md5": locator}
        lock["stages"][stage.replace("/", "@")] = {"cmd": "x", "outs": [out]}
        path.write_text(json.dumps(lock))


def build(root: Path) -> Charted:
    """The whole archive in a new folder."""
    root.mkdir(parents=True, exist_ok=True)
    chart = Charted(root=root)
    chart.write("dvc.yaml", DVC_YAML.encode())
    chart.write("params.yaml", b"{}\n")
    chart.write(".dvc/config", DVC_CONFIG.encode())
    _shards(chart)
    chart.write("artifacts/tokenizer/tokenizer.json", b'{"a": 0}')
    chart.record("tokenizer", ["shards"])
    for domain in DOMAINS:
        chart.record(f"tokens/{domain}", ["shards", "tokenizer"])
    for number, rung in enumerate(RUNGS):
        train(chart, f"rung/{rung}", range(1, STEPS + 1), keep=(8, 16, 24), seed=SEED + number)
    train(chart, "hero/1", range(1, 13), keep=(6, 12), seed=5)
    train(chart, "hero/2", range(13, STEPS + 1), keep=(18, 24), seed=5, parent="hero/1@step-12")
    return chart


def copy(chart: Charted, root: Path) -> Charted:
    """The same archive in another folder."""
    shutil.copytree(chart.root, root)
    return Charted(root=root, ran=chart.ran, streams=chart.streams)


def train(
    chart: Charted,
    stage: str,
    steps: range,
    *,
    keep: Sequence[int],
    seed: int = SEED,
    parent: str | None = None,
    fed: OrderFacts | None = None,
    **changes: object,
) -> Digest:
    """Write and record a trained stage. ``fed`` is the order that it is really fed by, if not the one that it tells."""
    facts = order_facts(chart, seed)
    before = facts.genesis if parent is None else _last_line(chart, parent.partition("@")[0])
    path = f"artifacts/{stage}"
    shutil.rmtree(chart.root / path, ignore_errors=True)
    chain = {"after_step": steps.start - 1, "previous": before}
    chart.write(f"{path}/order.json", canonical.encode({**facts.to_json(), "chain": chain}))
    chart.write(f"{path}/transcript.jsonl", b"".join(lines(chart, fed or facts, steps, before)))
    for step in keep:
        chart.write(
            f"{path}/checkpoints/step-{step}/state.safetensors", safetensors([seed, step, sum(stage.encode()), 1, 2, 3])
        )
    told = None if parent is None else _parent_facts(chart, parent)
    inputs = [f"tokens/{domain}" for domain in DOMAINS] + ([] if parent is None else [parent])
    config = settings(facts, stage)
    reached = {"first": steps.start - 1, "reached": steps.stop - 1}
    return chart.record(stage, inputs, config, told, steps=reached, **changes)


def settings(facts: OrderFacts, stage: str) -> dict[str, Json]:
    """The sections that the recipe of a trained stage holds."""
    shape = {"batch_sequences": facts.batch}
    order: dict[str, Json] = {
        "seed": facts.seed,
        "components": list(facts.names),
        "block_sequences": facts.block,
        "phases": [dict(zip(facts.names, phase.weights, strict=True)) for phase in facts.phases],
        "shuffle": {
            "io_block_sequences": facts.shuffle.io_block_sequences,
            "window_blocks": facts.shuffle.window_blocks,
        },
    }
    sized = {f"rungs.{stage.partition('/')[2]}": shape} if stage.startswith("rung/") else {"hero": shape}
    determinism: dict[str, Json] = {"generator": "threefry2x32", "partitionable_generator": True, "x64": False}
    return {"order": order, "family": {"context_tokens": LENGTH}, "determinism": determinism, **sized}


def order_facts(chart: Charted, seed: int = SEED) -> OrderFacts:
    """The order of a run over the archive's streams."""
    phases = tuple(
        Phase(first_step=first, weights=weights, told=(0,) * len(DOMAINS))
        for first, weights in zip((0, SWITCH), WEIGHTS, strict=True)
    )
    components = tuple(Component(name=name, sequences=len(chart.streams[name]) // LENGTH) for name in DOMAINS)
    bare = OrderFacts(
        seed=seed,
        components=components,
        phases=phases,
        steps=STEPS,
        batch=BATCH,
        block=8,
        sequence_tokens=LENGTH,
        shuffle=Shuffle(permutation="feistel", io_block_sequences=4, window_blocks=2),
    )
    counted = zip(phases, Order(bare).counts, strict=True)
    return replace(bare, phases=tuple(replace(phase, told=counts) for phase, counts in counted))


def lines(chart: Charted, facts: OrderFacts, steps: range, before: str) -> list[bytes]:
    """A transcript of what the order feeds, made with the streams in memory."""
    order, found = Order(facts), []
    for step in steps:
        ids = order.ids(step)
        tokens = b"".join(_packed(chart.streams[facts.names[number]], one, facts) for number, one in ids)
        before = transcript.chain(before, id_bytes(ids), tokens)
        line = transcript.Line(step=step, loss=step, gradient_norm=step, order=before, state="0" * 16)
        found.append(transcript.line(line))
    return found


def recipe_of(stage: str, inputs: Sequence[Input], config: Mapping[str, Json]) -> Recipe:
    determinism = config.get("determinism", {})
    return Recipe(
        stage=stage,
        command=("python", "-m", "train.any", stage),
        config=config,
        source=(),
        lock=sha256(b"lock"),
        inputs=tuple(inputs),
        determinism=determinism if isinstance(determinism, Mapping) else {},
    )


def execution_of(stage: str, number: int, recipe: Digest, product: Digest | None) -> Execution:
    return Execution(
        stage=stage,
        attempt=f"20261130t12{number // 60:02d}{number % 60:02d}z-{number:08x}",
        recipe=recipe,
        product=product,
        outcome=Outcome.COMPLETE if product is not None else Outcome.FAILED,
        cause=None,
        steps=None,
        resumed=None,
        parent=None,
        revision=Revision(commit="c" * 40, tree="d" * 40, patch=None),
        host={"name": "harbour", "cores": 2},
        started=f"2026-11-30T12:{number // 60:02d}:{number % 60:02d}.000000Z",
        ended=f"2026-11-30T12:{number // 60:02d}:{number % 60:02d}.500000Z",
        environment=None,
        trackers=(),
        incidents=(),
        hypothesis=None,
    )


def md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def _shards(chart: Charted) -> None:
    """Shards of documents, and the token caches over them."""
    dice = random.Random(2026)
    tables: dict[str, list[dict[str, object]]] = {}
    for domain in DOMAINS:
        for split, shards, count in (("train", 2, 24), ("heldout", 1, 3)):
            rows = []
            for shard in range(shards):
                name = f"{domain}/{split}-{shard:05d}.parquet"
                documents = [_document(dice, domain, row) for row in range(count)]
                chart.write(f"artifacts/shards/{name}", _parquet(documents))
                rows += [{"shard": name, "row": row, **one} for row, one in enumerate(documents)]
            tables[f"{domain}/{split}"] = rows
    chart.record("shards")
    for key, rows in tables.items():
        _cache(chart, key, rows, dice)


def _document(dice: random.Random, domain: str, row: int) -> dict[str, object]:
    text = f"{domain} {row} {dice.random()}\n"
    source = f"{domain}-lib" if row % 3 else f"{domain}-extra"
    return {"id": sha256(text.encode()).hex, "source": source, "version": "1.0", "text": text}


def _cache(chart: Charted, key: str, rows: Sequence[Mapping[str, object]], dice: random.Random) -> None:
    domain, _, split = key.partition("/")
    sizes = [dice.randrange(1, 40) for _ in rows]
    stream = [dice.randrange(1000) for _ in range(sum(sizes))]
    if split == "train":
        chart.streams[domain] = stream
    offsets = [sum(sizes[:index]) for index in range(len(sizes))]
    folder = f"artifacts/tokens/{domain}/{split}"
    table = {
        "id": [row["id"] for row in rows],
        "shard": [row["shard"] for row in rows],
        "row": [row["row"] for row in rows],
        "token_offset": offsets,
        "tokens": sizes,
    }
    chart.write(f"{folder}/documents.parquet", _parquet_of(table))
    ends = [offset + size for offset, size in zip(offsets, sizes, strict=True)]
    _array(chart.root / folder / "input_ids/data", stream, "int32")
    _array(chart.root / folder / "input_ids/offsets", [len(rows), *ends], "int64")


def _array(path: Path, values: Sequence[int], dtype: str) -> None:
    import tensorstore

    spec = {
        "driver": "zarr3",
        "kvstore": {"driver": "file", "path": str(path)},
        "metadata": {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [256]}}},
    }
    array = tensorstore.open(spec, create=True, dtype=dtype, shape=[2**40]).result()
    array[: len(values)].write(values).result()


def _parquet(rows: Sequence[Mapping[str, object]]) -> bytes:
    return _parquet_of({name: [row[name] for row in rows] for name in rows[0]})


def _parquet_of(columns: Mapping[str, Sequence[object]]) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table({name: list(values) for name, values in columns.items()}), buffer)
    return buffer.getvalue()


def _packed(stream: Sequence[int], sequence: int, facts: OrderFacts) -> bytes:
    own = stream[sequence * facts.sequence_tokens : (sequence + 1) * facts.sequence_tokens]
    return b"".join(one.to_bytes(4, "little") for one in own)


def _last_line(chart: Charted, stage: str) -> str:
    return transcript.parse((chart.root / f"artifacts/{stage}/transcript.jsonl").read_bytes()).lines[-1].order


def _parent_facts(chart: Charted, parent: str) -> dict[str, Json]:
    stage, _, step = parent.partition("@step-")
    root = tensor_root(read_leaves(chart.root / f"artifacts/{stage}/checkpoints/step-{step}"))
    return {"name": stage, "step": int(step), "root": str(root)}
