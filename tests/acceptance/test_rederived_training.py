"""Real training made again: a miniature rung from its recorded commit, after the code moved on, under another setup."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import pocket

from registry.cli import wiring

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
DOMAINS = ("code", "math", "prose")


def params() -> dict[str, Any]:
    training = {**pocket.PARAMS["training"], "keep_every_steps": 8, "scratch_every_steps": 50}
    family = {**pocket.PARAMS["family"], "tokens_per_active_parameter": "2"}
    return {**pocket.PARAMS, "training": training, "family": family}


def declared() -> dict[str, Any]:
    """The rung's stage as the pipeline declares it, of the miniature."""
    stage = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]["rung"]
    stage["do"].pop("desc")
    return {"stages": {"rung": stage}}


def git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with the real code and a rung that was trained and recorded; the code moved on since."""
    root, before = tmp_path_factory.mktemp("training"), Path.cwd()
    for package in ("train", "registry"):
        shutil.copytree(ROOT / package, root / package, ignore=shutil.ignore_patterns("__pycache__", "*.md"))
    os.chdir(root)
    try:
        pocket.lay_data(root, params())
        (root / "params.yaml").write_text(json.dumps(params()))  # every word is quoted
        (root / "dvc.yaml").write_text(yaml.safe_dump(declared(), sort_keys=False))
        (root / "requirements.lock").write_text("jax==0.10.2\n")
        (root / ".gitignore").write_text("__pycache__\n/artifacts/*\n!/artifacts/tokens\n")
        git(root, "init", "-q", "-b", "main", "--template=")
        git(root, "add", "-A")
        git(root, "commit", "-q", "-m", "Begin")
        recorder = wiring.recorder(root)
        recorder.begin("rung/d16", None)
        environment = {**os.environ, "PYTHONPATH": str(root)}
        subprocess.run([sys.executable, "-m", "train.rung", "d16"], cwd=root, env=environment, check=True)
        recorder.record("rung/d16", 0, wiring.ledger(root))
        step = root / "train/step.py"
        step.write_text(step.read_text() + "\nraise RuntimeError('today')\n")
        git(root, "add", "-A")
        git(root, "commit", "-q", "-m", "Other training code")
    finally:
        os.chdir(before)
    return root


@pytest.fixture
def again(archive: Path, reckon: Callable, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, dict]]:
    monkeypatch.chdir(archive)

    def call(*arguments: str) -> tuple[int, dict]:
        ended = reckon("rederive", "rung/d16", *arguments, "--yes", "--json")
        assert ended.stdout, ended.stderr
        return ended.status, json.loads(ended.stdout)["rederived"][0]

    return call


def test_from_scratch_with_the_old_code(again) -> None:
    status, told = again()
    assert (status, told["tier"], told["verdict"]) == (0, "T1", "agrees")
    assert told["plan"]["today"]["code"][0]["key"] == "train/step.py"
    assert all(told["tensors"].values())
    assert len(told["tensors"]) > 1


def test_a_window_from_a_kept_checkpoint(again) -> None:
    status, told = again("--from", "rung/d16@step-8", "--steps", "2")
    assert (status, told["verdict"], told["mark"]["first_step"]) == (0, "agrees", 8)
    assert told["mark"]["last_step"] >= 10


def test_another_instruction_set_is_named_with_its_first_step(again) -> None:
    """So small a model has the same bits on every number of workers."""
    status, told = again("--set", "determinism.max_isa=SSE4_2", "--tolerance", "1000")
    assert (status, told["tier"], told["verdict"]) == (0, "T3", "setup-mismatch")
    assert told["mark"]["changes"] == {"determinism.max_isa": ["AVX2", "SSE4_2"]}
    assert told["mark"]["difference"]["first_step"] is not None
    assert told["mark"]["difference"]["first_tensor"].startswith("model/")
