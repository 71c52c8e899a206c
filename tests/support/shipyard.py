"""A small archive shaped like the real one: data, a ladder of three rungs, a sealed forecast, a hero of two segments.

Everything is recorded by the real recorder, committed in git, and held by DVC's lock and cache as DVC would.
Use the fixtures ``built`` (one for the session, not to be touched) and ``ship`` (a copy of one's own).
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from fakes.workshop import FakeHost
from support.voyage import root_of, safetensors

from registry.adapters.attempts import RunFolder
from registry.adapters.checkpoints import read_leaves
from registry.adapters.git import GitRepository
from registry.adapters.hashing import Disk, folder_locator
from registry.adapters.observer import LocalObserver
from registry.adapters.openings import OpeningFolder
from registry.adapters.pipeline import DvcPipeline
from registry.adapters.records import FileRecordStore
from registry.adapters.tables import TableFolder
from registry.cli import wiring
from registry.core import canonical, runlog, transcript
from registry.core.codec import Record, record_bytes
from registry.core.digests import Digest, record_digest, sha256
from registry.core.forecast import FittedRun, Forecast, Interval
from registry.core.names import dvc_stage
from registry.core.pipeline import decimals, lookup
from registry.core.records import Execution, Product, Recipe
from registry.observing import Workshop
from registry.workflows.record import Recorder

RUNGS = ("a", "b", "c")
WANDB = "wandb/offline-run-ship/run-ship.wandb"
LADDER = ("data", "words", "stream/code", "stream/prose", *(f"rung/{name}" for name in RUNGS), "forecast")
HERO = ("hero/1", "hero/2", "handoff")
LOCK = """\
jax==1.0 ; python_full_version < '3.12' \\
    --hash=sha256:00
jax==1.1 ; python_full_version >= '3.12' \\
    --hash=sha256:01
sextant==2.0
"""
PARAMS = """\
data: {shards: 20}
words: {size: 8}
stream: {length: 4}
determinism: {nproc: 2}
order: {seed: 7, block_sequences: 8, components: [code, prose]}
rungs: {a: {width: 1}, b: {width: 2}, c: {width: 3}}
forecast: {predicts: hero/2}
segments:
  "1": {parent: null, last_step: 4, reason: the beginning, changes: {}}
  "2": {parent: hero/1@step-4, last_step: 6, reason: a lower rate, changes: {}}
hypotheses:
  rung/a: {text: it learns, loss: '3.0'}
  hero/2: {text: it lands where the forecast says, loss: '2.0'}
"""


def _stage(command: str, deps: list[str], params: list[str], out: str) -> dict[str, object]:
    around = f"reckon record {command} --begin && python -m train.ship {command}; reckon record {command} --status $?"
    return {"cmd": around, "deps": ["train/ship.py", *deps], "params": params, "outs": [out]}


def pipeline() -> dict[str, object]:
    """The parsed dvc.yaml."""
    streams = [f"artifacts/stream/{name}" for name in ("code", "prose")]
    common = ["determinism", "order"]
    rungs = [f"artifacts/rung/{name}/{file}" for name in RUNGS for file in ("evaluation.json", "summary.json")]
    stages: dict[str, object] = {
        "data": _stage("data", [], ["data"], "artifacts/data"),
        "words": _stage("words", ["artifacts/data"], ["words"], "artifacts/words"),
        "forecast": _stage("forecast", rungs, ["forecast"], "artifacts/forecast"),
        "handoff": _stage(
            "handoff", ["README.md", "artifacts/hero/2/checkpoints/step-6", "artifacts/words"], [], "artifacts/handoff"
        ),
        "stream": {
            "foreach": ["code", "prose"],
            "do": _stage(
                "stream/${item}", ["artifacts/data", "artifacts/words"], ["stream"], "artifacts/stream/${item}"
            ),
        },
        "rung": {
            "foreach": list(RUNGS),
            "do": _stage("rung/${item}", streams, [*common, "rungs.${item}"], "artifacts/rung/${item}"),
        },
    }
    for number, extra in (("1", []), ("2", ["artifacts/hero/1/checkpoints/step-4"])):
        deps = [*streams, "artifacts/forecast/forecast.json", *extra]
        stages[f"hero@{number}"] = _stage(
            f"hero/{number}", deps, [*common, f"segments.{number}"], f"artifacts/hero/{number}"
        )
    return {"stages": stages}


@dataclass(kw_only=True)
class Shipyard:
    """The archive at ``root``. ``host`` is who the next stage runs on; with ``tracked`` its run log points to W&B."""

    root: Path
    host: FakeHost = field(default_factory=FakeHost)
    attempts: int = 0
    tracked: bool = False

    def write(self, path: str, data: str | bytes) -> None:
        """Put a file into the working tree."""
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_bytes(data.encode() if isinstance(data, str) else data)

    def read(self, path: str) -> bytes:
        """The bytes of a file."""
        return (self.root / path).read_bytes()

    def flip(self, path: str, at: int = -1) -> None:
        """Flip the lowest bit of one byte of a file."""
        data = bytearray(self.read(path))
        data[at] ^= 1
        self.write(path, bytes(data))

    def git(self, *arguments: str) -> str:
        """Run git here."""
        done = subprocess.run(["git", *arguments], cwd=self.root, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(self, message: str = "As it is") -> str:
        """Commit everything that git does not ignore; the commit's id."""
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    @property
    def records(self) -> FileRecordStore:
        return FileRecordStore(self.root / "manifests")

    @property
    def tables(self) -> TableFolder:
        return TableFolder(self.root / "manifests")

    @property
    def recorder(self) -> Recorder:
        workshop = Workshop(
            pipeline=DvcPipeline(self.root),
            repository=GitRepository(self.root),
            disk=Disk(self.root),
            observer=LocalObserver(self.root, read_leaves=read_leaves, observe=lambda _stage, _path: {}),
            host=self.host,
        )
        runs = self.root / "artifacts/runs"
        return Recorder(
            workshop=workshop,
            records=self.records,
            tables=self.tables,
            attempts=RunFolder(runs),
            openings=OpeningFolder(runs),
        )

    def run(self, stage: str, tweak: Callable[[], None] = lambda: None) -> None:
        """Run and record a stage, and let DVC's lock and cache know of it. ``tweak`` meddles before it is recorded."""
        self.recorder.begin(stage, wiring.hypothesis(self.root, stage))
        Voyage(self, stage).sail()
        tweak()
        recorded = self.recorder.record(stage, 0, wiring.ledger(self.root))
        assert recorded.product is not None
        for output in recorded.product.outputs:
            if output.locator is not None:
                self._lock(stage, output.path, output.locator)
                self._cache(output.path)

    def head(self, stage: str) -> tuple[Digest, Execution, Product]:
        """The newest complete execution of a stage and its product."""
        ledger = wiring.ledger(self.root)
        digest, execution = ledger.head(stage) or (None, None)
        return digest, execution, ledger.products[execution.product]

    def forge(self, kind: str, old: Digest, new: Record) -> Digest:
        """Put a changed record in place of another, named by its own digest, as somebody who knows the form would."""
        (self.root / f"manifests/{kind}s/{old.hex}.json").unlink()
        return self.records.put(kind, record_bytes(new))

    def forge_recipe(self, stage: str, change: Callable[[Recipe], Recipe]) -> None:
        """Forge the recipe of a stage's newest execution, with product and execution that speak of it."""
        digest, execution, product = self.head(stage)
        recipe = self.forge(Recipe.KIND, execution.recipe, change(wiring.ledger(self.root).recipes[execution.recipe]))
        made = self.forge(Product.KIND, execution.product, replace(product, recipe=recipe))
        self.forge(Execution.KIND, digest, replace(execution, recipe=recipe, product=made))

    def forge_product(self, stage: str, change: Callable[[Product], Product]) -> None:
        """Forge the product of a stage's newest execution, and the execution that speaks of it."""
        digest, execution, product = self.head(stage)
        made = self.forge(Product.KIND, execution.product, change(product))
        self.forge(Execution.KIND, digest, replace(execution, product=made))

    def forge_execution(self, stage: str, change: Callable[[Execution], Execution]) -> Digest:
        """Forge the newest execution of a stage."""
        digest, execution, _ = self.head(stage)
        return self.forge(Execution.KIND, digest, change(execution))

    def declare(self, change: Callable[[dict], None]) -> None:
        """Change dvc.lock."""
        document = yaml.safe_load(self.read("dvc.lock"))
        change(document["stages"])
        self.write("dvc.lock", yaml.safe_dump(document, sort_keys=True))

    def rerun_hero(self, tweak: Callable[[], None]) -> None:
        """Run hero/2 under a new recipe, with ``tweak`` before it is recorded, and the handoff after it."""
        text = self.read("params.yaml").decode()
        self.write("params.yaml", text.replace("a lower rate", "a lower rate again"))
        self.commit("Another reason")
        self.run("hero/2", tweak)
        self.commit("Hero again")

    def _lock(self, stage: str, path: str, locator: str) -> None:
        document = yaml.safe_load(self.read("dvc.lock")) if (self.root / "dvc.lock").exists() else {"schema": "2.0"}
        document.setdefault("stages", {})[dvc_stage(stage)] = {"outs": [{"path": path, "md5": locator}]}
        self.write("dvc.lock", yaml.safe_dump(document, sort_keys=True))

    def _cache(self, path: str) -> None:
        place = self.root / path
        files = [(file.relative_to(place).as_posix(), file) for file in sorted(place.rglob("*")) if file.is_file()]
        rows = [(name, hashlib.md5(file.read_bytes(), usedforsecurity=False).hexdigest()) for name, file in files]
        listed = json.dumps([{"md5": md5, "relpath": name} for name, md5 in rows])
        for (_, md5), (_, file) in zip(rows, files, strict=True):
            self.write(f".dvc/cache/files/md5/{md5[:2]}/{md5[2:]}", file.read_bytes())
        whole = folder_locator(rows)
        self.write(f".dvc/cache/files/md5/{whole[:2]}/{whole[2:]}", listed)


@dataclass
class Voyage:
    """One attempt of one stage."""

    yard: Shipyard
    stage: str

    def sail(self) -> None:
        """Run the stage: outputs and a run log."""
        self.yard.attempts += 1
        self.attempt = f"20261130t120000z-{self.yard.attempts:08x}"
        kind, _, item = self.stage.partition("/")
        self._tell(self._started())
        self._tell(self._environment())
        if self.yard.tracked:
            state = runlog.TrackerState.OFFLINE
            self._tell(runlog.Tracker(system="wandb", state=state, run_id="ship", location=WANDB, reason=None))
        shutil.rmtree(self.yard.root / f"artifacts/{self.stage}", ignore_errors=True)
        step = getattr(self, f"_{kind}")(item)
        done = runlog.Outcome.COMPLETE
        self._tell(runlog.Finished(time=self.yard.host.now(), outcome=done, cause=None, step=step))

    def _data(self, _: str) -> None:
        for number in range(self._params()["data"]["shards"]):
            name = f"code/train-{number:05}.parquet" if number % 2 else f"prose/train-{number:05}.parquet"
            self._put(name, f"shard {number}\n" * 3)

    def _words(self, _: str) -> None:
        self._put("vocabulary.json", json.dumps({word: number for number, word in enumerate("abcdefgh")}))

    def _stream(self, item: str) -> None:
        shards = sorted((self.yard.root / "artifacts/data" / item).iterdir())
        self._put("tokens.bin", b"".join(shard.read_bytes() for shard in shards))

    def _rung(self, item: str) -> int:
        return self._train(0, 4, RUNGS.index(item))

    def _hero(self, item: str) -> int:
        parent = self._parent()
        last = self._params()["segments"][item]["last_step"]
        return self._train(parent["step"] if parent else 0, last, parent["step"] if parent else 9)

    def _train(self, first: int, last: int, start: int) -> int:
        state, lines, order = [start, 1, 2, 3, 4, 5], [], self._previous()
        for step in range(first + 1, last + 1):
            state = [value * 3 % 97 + step for value in state]
            order = transcript.chain(order, bytes([step]), bytes([step, 1]))
            loss = transcript.bits(3.0 / step)
            lines.append(
                transcript.Line(step=step, loss=loss, gradient_norm=loss, order=order, state=f"{sum(state):016x}")
            )
            if step % 2 == 0:
                self._put(f"checkpoints/step-{step}/state.safetensors", safetensors(state))
                self._put(f"checkpoints/step-{step}/checkpoint.json", canonical.encode({"completed_steps": step}))
        self._put("transcript.jsonl", b"".join(map(transcript.line, lines)))
        chain = {"after_step": first, "previous": self._previous()}
        self._put("order.json", canonical.encode({**self._order(), "chain": chain}) + b"\n")
        self._put("history.parquet", history([(one.step, "train/loss", transcript.number(one.loss)) for one in lines]))
        self._put("evaluation.json", canonical.encode({"macro": {"loss": f"{3 - start / 10}"}}) + b"\n")
        self._put("summary.json", canonical.encode({"flops": 10 ** (3 + start), "steps": last}) + b"\n")
        return last

    def _order(self) -> dict[str, object]:
        names = self._params()["order"]["components"]
        return {
            "kind": "order",
            "schema": 1,
            "seed": self._params()["order"]["seed"],
            "components": [{"name": name, "sequences": 30} for name in names],
            "phases": [{"first_step": 0, "weights": [3, 1], "sequences_per_block": [6, 2]}],
            "steps": 6,
            "batch_sequences": 2,
            "block_sequences": 8,
            "sequence_tokens": 4,
            "shuffle": {"permutation": "feistel", "io_block_sequences": 2, "window_blocks": 2},
        }

    def _previous(self) -> str:
        """The order digest that this run begins from: of its facts, or of its parent's last step."""
        parent = self._parent()
        if parent is None:
            return record_digest(self._order()).hex
        lines = transcript.parse(self.yard.read(f"artifacts/{parent['name']}/transcript.jsonl"))
        return lines.at(parent["step"]).order

    def _forecast(self, _: str) -> None:
        forecast = forecast_of(self.yard)
        self._put("forecast.json", record_bytes(forecast))
        self.yard.records.put(Forecast.KIND, record_bytes(forecast))

    def _handoff(self, _: str) -> None:
        place = self.yard.root / "artifacts/hero/2/checkpoints/step-6/state.safetensors"
        self._put("model.safetensors", place.read_bytes())
        self._put("README.md", self.yard.read("README.md"))
        self._put("vocabulary.json", self.yard.read("artifacts/words/vocabulary.json"))

    def _put(self, name: str, data: str | bytes) -> None:
        self.yard.write(f"artifacts/{self.stage}/{name}", data)

    def _parent(self) -> dict[str, object] | None:
        kind, _, item = self.stage.partition("/")
        named = self._params()["segments"][item]["parent"] if kind == "hero" else None
        if named is None:
            return None
        stage, _, step = named.partition("@step-")
        place = self.yard.root / f"artifacts/{stage}/checkpoints/step-{step}"
        return {"name": stage, "step": int(step), "root": str(root_of(place))}

    def _started(self) -> runlog.Started:
        spec = DvcPipeline(self.yard.root).stages()[self.stage]
        determinism = spec.config.get("determinism")
        numerics = dict(self.yard.host.numerics())
        return runlog.Started(
            stage=self.stage,
            attempt=self.attempt,
            time=self.yard.host.now(),
            pid=1,
            host=self.yard.host.name,
            argv=("python", "-m", "train.ship", self.stage),
            settings={key: decimals(lookup(self._params(), key)) for key in spec.config},
            determinism={**determinism, **numerics} if isinstance(determinism, Mapping) else {},
            resumed=None,
            parent=self._parent(),
        )

    def _environment(self) -> runlog.Environment:
        names = (("jax", "1.0"), ("sextant", "2.0"))
        told = tuple({"name": name, "version": version, "record": "sha256:" + "7" * 64} for name, version in names)
        return runlog.Environment(
            distributions=told, python="3.11.7", platform={"machine": "x86_64"}, accelerator={"kind": "cpu"}
        )

    def _tell(self, event: runlog.Event) -> None:
        log = self.yard.root / "artifacts/runs" / self.stage / self.attempt / "run.jsonl"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as file:
            file.write(runlog.line(event))

    def _params(self) -> dict:
        return yaml.safe_load(self.yard.read("params.yaml"))


def forecast_of(yard: Shipyard, point: str = "2.0") -> Forecast:
    """A forecast of hero/2 that rests on the rungs as they lie here."""
    low, high = Decimal(point) - 1, Decimal(point) + 1
    runs = tuple(
        FittedRun(
            name=f"rung/{name}",
            evaluation=sha256(yard.read(f"artifacts/rung/{name}/evaluation.json")),
            summary=sha256(yard.read(f"artifacts/rung/{name}/summary.json")),
            scale=Decimal(10 ** (3 + number)),
            loss=Decimal("3.0"),
        )
        for number, name in enumerate(RUNGS)
    )
    interval = Interval(
        point=Decimal(point), low=low, high=high, deviation=Decimal(1), level=Decimal("0.9"), method="a guess"
    )
    return Forecast(
        predicts="hero/2",
        axis="flops",
        scale=Decimal(10**12),
        runs=runs,
        law={},
        prior={},
        interval=interval,
        backtest=None,
    )


def history(points: list[tuple[int, str, float]]) -> bytes:
    """The bytes of a history."""
    columns = {
        "step": pa.array([step for step, _, _ in points], pa.int64()),
        "metric": pa.array([metric for _, metric, _ in points], pa.string()),
        "value": pa.array([value for _, _, value in points], pa.float64()),
    }
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


def build(root: Path) -> Shipyard:
    """The whole archive in the empty folder ``root``: code, then ladder and forecast, then the hero, each committed."""
    yard = Shipyard(root=root)
    yard.write("dvc.yaml", yaml.safe_dump(pipeline(), sort_keys=False))
    yard.write("params.yaml", PARAMS)
    yard.write("requirements.lock", LOCK)
    yard.write(".gitignore", "/artifacts\n/.dvc/cache\n")
    yard.write("README.md", "# A ship\n")
    yard.write("train/ship.py", "print('sail')\n")
    yard.git("init", "-q", "-b", "main")
    yard.commit("Begin")
    for stage in LADDER:
        yard.run(stage)
    yard.commit("Ladder and forecast")
    for stage in HERO:
        yard.run(stage)
    yard.commit("Hero")
    return yard


def copy(yard: Shipyard, root: Path) -> Shipyard:
    """The same archive in another folder."""
    shutil.copytree(yard.root, root, symlinks=True)
    return Shipyard(root=root, host=FakeHost(ticks=yard.host.ticks), attempts=yard.attempts)
