"""A clean-up beside the real DVC: what is current is pushed, pulled and checked out afterwards, what went is gone."""

from __future__ import annotations

import shutil
import subprocess
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from support import toy as toys
from support.toy import Toy

from registry.cli import charting, wiring
from registry.core.digests import sha256

pytestmark = pytest.mark.slow

LEG = "artifacts/leg/1/checkpoints/step-2/state.safetensors"


def dvc(root: Path, *arguments: str) -> str:
    done = toys.dvc(root, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def files(root: Path) -> dict[str, str]:
    """Every output of the working tree by its digest."""
    outputs = root / "artifacts"
    found = (path for path in outputs.rglob("*") if path.is_file() and path.relative_to(outputs).parts[0] in OUTPUTS)
    return {path.relative_to(root).as_posix(): sha256(path.read_bytes()).hex for path in found}


OUTPUTS = {"chart", "plot", "leg", "hull", "note.json"}


@pytest.fixture
def lab(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> Toy:
    """The toy archive under DVC: run, pushed, then run again with another setting, and pushed again."""
    root = toy.root
    dvc(root, "remote", "add", "-q", "-d", "store", "artifacts/store/remote")
    for pull in (3, 11):
        toy.replace("params.yaml", "pull: 3", f"pull: {pull}")
        toy.run_all()
        dvc(root, "commit", "-q", "-f")
        dvc(root, "push", "-q")
        toy.commit(f"pull {pull}")
        if pull == 3:
            toy.old = (root / LEG).read_bytes()
    monkeypatch.chdir(root)

    class Later(type(toy.host)):
        def now(self) -> str:
            late = datetime.fromisoformat(super().now()) + timedelta(days=400)
            return late.strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    monkeypatch.setattr(wiring, "host", Later)
    return toy


def test_dvc_finds_everything_current_after_a_clean_up(lab, reckon, tmp_path):
    before = files(lab.root)
    old = sha256(lab.old)
    assert holds(lab.root, old)
    ended = reckon("gc", "--yes")
    assert ended.status == 0, ended.stderr
    assert not holds(lab.root, old)
    assert "Nothing may go." in reckon("gc").stdout

    for name in OUTPUTS:
        path = lab.root / "artifacts" / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    dvc(lab.root, "checkout", "-q", "--force")
    assert files(lab.root) == before
    assert "up to date" in dvc(lab.root, "status")
    assert "in sync" in dvc(lab.root, "status", "-c")

    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", lab.root, clone], check=True)
    shutil.copytree(
        lab.root / ".dvc", clone / ".dvc", dirs_exist_ok=True, ignore=shutil.ignore_patterns("cache", "tmp")
    )
    shutil.copytree(lab.root / "artifacts/store", clone / "artifacts/store")
    dvc(clone, "pull", "-q", "--force")
    assert files(clone) == before


def holds(root: Path, digest: object) -> bool:
    """Whether cache or remote have an object of these bytes."""
    folders = (root / ".dvc/cache/files/md5", root / "artifacts/store/remote/files/md5")
    return any(sha256(path.read_bytes()) == digest for one in folders for path in one.rglob("*") if path.is_file())


def test_the_handoff_between_legs_stays(lab, reckon):
    """The first leg's last checkpoint was handed to the second leg, both times: it is the one that stays."""
    assert reckon("gc", "--yes").status == 0
    ledger, shelf, tables = wiring.ledger(lab.root), charting.copies(lab.root), lab.tables
    superseded = [one.product for _, one in ledger.executions_of("leg/1")][-1]
    product = ledger.products[superseded]
    own = product.outputs[0]
    left = {
        entry.path
        for entry in tables.get_files(own.digest)
        if shelf.holds(own, entry, frozenset({f"{own.path}/{entry.path}"}))
    }
    assert {"checkpoints/step-4/state.safetensors", "transcript.jsonl"} <= left
    assert "checkpoints/step-2/state.safetensors" not in left
