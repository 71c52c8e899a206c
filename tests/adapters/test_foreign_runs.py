"""Runs that trackers hold, adopted: W&B's own log of a real offline run, and a run of a real MLflow store."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from registry.core.adopted.record import Adopted, Ended
from registry.core.canonical import decode
from registry.core.history import History

WANDB = """
import wandb
run = wandb.init(mode="offline", project="lab", id="Hero_X", config={"lr": 0.003, "model": {"hidden": 64}},
                 settings=wandb.Settings(x_disable_stats=True))
for step in range(5):
    run.log({"train/loss": 3 / (step + 1)}, step=step)
run.finish()
"""
MLFLOW = """
import sys
from mlflow.tracking import MlflowClient
client = MlflowClient(tracking_uri=sys.argv[1])
tags = {"mlflow.source.git.commit": "a" * 40, "mlflow.user": "me"}
run = client.create_run(client.create_experiment("lab"), tags=tags)
client.log_param(run.info.run_id, "lr", "0.003")
for step in range(5):
    client.log_metric(run.info.run_id, "train/loss", 3 / (step + 1), step=step)
client.set_terminated(run.info.run_id, "FINISHED")
print(run.info.run_id)
"""
POINTS = History.of((step, "train/loss", 3 / (step + 1)) for step in range(5))


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "dvc.yaml").write_text("stages: {}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def made(script: str, *arguments: str, **settings: str) -> str:
    """What a script prints, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=True,
        timeout=180,
    )
    return done.stdout.strip()


def only(archive: Path) -> Adopted:
    (path,) = (archive / "manifests/adopted").iterdir()
    return Adopted.from_json(decode(path.read_bytes()))


def told(record: Adopted) -> dict[str, str]:
    return {claim.quantity: claim.value for claim in record.claims}


@pytest.mark.slow
def test_a_run_folder_of_wandb_is_adopted_with_settings_curve_and_ending(archive: Path, reckon) -> None:
    places = {name: str(archive) for name in ("WANDB_DIR", "WANDB_DATA_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR")}
    made(WANDB, WANDB_SILENT="true", **places)
    (folder,) = archive.glob("wandb/offline-run-*")
    ended = reckon("adopt", str(folder), "--as", "lab/hero-x")
    assert ended.status == 0, ended.stderr
    record, facts = only(archive), told(only(archive))
    assert (record.name, record.ended, record.origin.id) == ("lab/hero-x", Ended.COMPLETE, "Hero_X")
    assert facts["config.model.hidden"] == "64"
    assert facts["config.lr"] == "0.003"
    assert facts["history_digest"] == str(POINTS.digest)
    assert facts["final.train/loss"] == "0.6"
    assert str(archive) not in json.dumps(record.to_json())
    assert "points" in reckon("show", "lab/hero-x").stdout
    log = next(folder.glob("*.wandb"))
    log.write_bytes(log.read_bytes()[:-40])
    cut = json.loads(reckon("adopt", str(folder), "--as", "lab/hero-x", "--json").stdout)
    assert cut["new"] == 1
    log.write_bytes(b"\0" * 100)
    assert reckon("adopt", str(folder)).status == 1


@pytest.mark.slow
def test_a_run_of_an_mlflow_store_is_adopted(archive: Path, monkeypatch: pytest.MonkeyPatch, reckon) -> None:
    uri = f"sqlite:///{archive / 'theirs.db'}"
    run = made(MLFLOW, uri)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    ended = reckon("adopt", f"mlflow:{run}")
    assert ended.status == 0, ended.stderr
    record, facts = only(archive), told(only(archive))
    assert (record.name, record.ended) == (f"mlflow/{run}", Ended.COMPLETE)
    assert facts["commit"] == "a" * 40
    assert facts["param.lr"] == "0.003"
    assert facts["history_digest"] == str(POINTS.digest)
    assert "tag.mlflow.user" not in facts
    assert reckon("adopt", "mlflow:" + "0" * 32).status == 2
