"""MLflow and W&B as witnesses: what they hold must be what the record says; what is not here counts neither way."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from support import shipyard
from support.shipyard import Shipyard

from registry.cli.main import run

pytestmark = pytest.mark.slow

LOG = """
import sys, wandb
from registry.core import transcript
run = wandb.init(mode="offline", project="test", id="ship", settings=wandb.Settings(x_disable_stats=True))
for line in transcript.parse(open(sys.argv[1], "rb").read()).lines:
    run.log({"train/loss": transcript.number(line.loss)}, step=line.step)
run.finish()
"""
MLFLOW = "artifacts/mlflow/mlflow.db"


@pytest.fixture(scope="module")
def tracked(built: Shipyard, tmp_path_factory: pytest.TempPathFactory) -> Shipyard:
    """rung/a run once more with a W&B log of its own, and everything told to MLflow."""
    yard = shipyard.copy(built, tmp_path_factory.mktemp("tracked") / "ship")
    yard.tracked = True
    yard.write("params.yaml", yard.read("params.yaml").replace(b"a: {width: 1}", b"a: {width: 5}"))
    yard.commit()
    yard.run("rung/a")
    write_log(yard)
    here = Path.cwd()
    os.chdir(yard.root)
    try:
        assert run(["sync"]) == 0
    finally:
        os.chdir(here)
    yard.commit()
    return yard


def write_log(yard: Shipyard) -> None:
    folder = attempt(yard)
    places = {name: str(folder) for name in ("WANDB_DIR", "WANDB_DATA_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR")}
    command = [sys.executable, "-c", LOG, str(yard.root / "artifacts/rung/a/transcript.jsonl")]
    environment = {**os.environ, **places, "WANDB_SILENT": "true", "PYTHONPATH": str(Path.cwd())}
    subprocess.run(command, check=True, cwd=folder, env=environment, timeout=120)
    (log,) = folder.glob("wandb/offline-run-*/run-ship.wandb")
    (folder / shipyard.WANDB).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(log, folder / shipyard.WANDB)


def attempt(yard: Shipyard):
    return yard.root / "artifacts/runs/rung/a" / yard.head("rung/a")[1].attempt


def statement(text: str) -> Callable[[Shipyard], None]:
    """One update of MLflow's database, for the run of rung/a."""

    def alter(yard: Shipyard) -> None:
        table, _, change = text.partition(": ")
        change, _, condition = change.partition(" where ")
        where = f"run_uuid = '{run_id(yard)}'" + (f" and {condition}" if condition else "")
        with closing(sqlite3.connect(yard.root / MLFLOW)) as database, database:
            assert database.execute(f"update {table} set {change} where {where}").rowcount > 0  # noqa: S608

    return alter


def run_id(yard: Shipyard) -> str:
    from registry.cli import wiring

    return wiring.pointers(yard.root).current(yard.head("rung/a")[0], "mlflow").run_id


def a_bit_of_the_log(yard: Shipyard) -> None:
    yard.flip(f"{attempt(yard).relative_to(yard.root)}/{shipyard.WANDB}", -40)


def another_log(yard: Shipyard) -> None:
    (attempt(yard) / shipyard.WANDB).write_bytes(b"not a log at all")


ALTERED = {
    "a metric's value": (statement("metrics: value = 9 where step = 2"), "mlflow"),
    "a metric's step": (statement("metrics: step = 9 where step = 2"), "mlflow"),
    "the product": (statement("tags: value = 'sha256:00' where key = 'reckon.product'"), "mlflow"),
    "the commit": (statement("tags: value = 'f' where key = 'reckon.commit'"), "mlflow"),
    "the dirty flag": (statement("tags: value = 'true' where key = 'reckon.dirty'"), "mlflow"),
    "a deleted run": (statement("runs: lifecycle_stage = 'deleted'"), "mlflow"),
    "a bit of W&B's log": (a_bit_of_the_log, "wandb"),
    "a W&B log that is none": (another_log, "wandb"),
}


def audited(yard: Shipyard, reckon, monkeypatch) -> tuple[int, dict]:
    monkeypatch.chdir(yard.root)
    ended = reckon("audit", "rung/a", "--json")
    return ended.status, json.loads(ended.stdout)


def test_both_agree_with_an_untouched_record(tracked, reckon, monkeypatch):
    status, audit = audited(tracked, reckon, monkeypatch)
    states = {edge["id"]: edge["state"] for edge in audit["edges"]}
    assert [edge for edge in audit["edges"] if edge["findings"]] == []
    assert (status, states["rung/a+tracker=mlflow"], states["rung/a+tracker=wandb"]) == (0, "verified", "verified")
    assert (audit["consulted"]["mlflow"], audit["consulted"]["wandb"]) == ("consulted", "consulted")


@pytest.mark.parametrize("what", ALTERED)
def test_what_a_tracker_says_otherwise_is_found(what, tracked, tmp_path, reckon, monkeypatch):
    alter, system = ALTERED[what]
    yard = shipyard.copy(tracked, tmp_path / "ship")
    alter(yard)
    status, audit = audited(yard, reckon, monkeypatch)
    wrong = {(edge["id"], finding["trouble"]) for edge in audit["edges"] for finding in edge["findings"]}
    assert (status, wrong) == (1, {(f"rung/a+tracker={system}", "tracker")})


def test_absent_trackers_are_not_consulted(tracked, tmp_path, reckon, monkeypatch):
    yard = shipyard.copy(tracked, tmp_path / "ship")
    shutil.rmtree(yard.root / "artifacts/mlflow")
    shutil.rmtree(attempt(yard) / "wandb")
    status, audit = audited(yard, reckon, monkeypatch)
    assert status == 0
    assert not [edge for edge in audit["edges"] if "+tracker=" in edge["id"]]
    assert audit["consulted"]["mlflow"].startswith("not consulted")
    assert audit["consulted"]["wandb"].startswith("not consulted")


def test_a_store_of_this_checkout_need_not_know_what_ran_in_another(tracked, tmp_path, reckon, monkeypatch):
    """Records come along with a clone; run logs and the embedded store do not."""
    yard = shipyard.copy(tracked, tmp_path / "ship")
    ALTERED["a deleted run"][0](yard)
    shutil.rmtree(yard.root / "artifacts/runs/rung/a")
    status, audit = audited(yard, reckon, monkeypatch)
    assert [edge["id"] for edge in audit["edges"] if edge["findings"]] == []
    assert status == 0
