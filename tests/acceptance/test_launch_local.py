"""A launch from a bundle in a fresh folder: two processes, resumed by one, graded against one alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support import pocket

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
OWN = ("determinism", "evaluation", "family", "model", "order", "rungs", "training")


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with this code, a miniature's settings and data, and one commit."""
    root, before = tmp_path_factory.mktemp("launch") / "archive", Path.cwd()
    root.mkdir()
    for name in ("train", "registry"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("dvc.yaml", "requirements.lock", "pyproject.toml", ".gitignore"):
        shutil.copy(ROOT / name, root / name)
    settings = {**yaml.safe_load((ROOT / "params.yaml").read_text()), **{name: pocket.PARAMS[name] for name in OWN}}
    os.chdir(root)
    try:
        pocket.lay_data(root, settings)
        (root / "params.yaml").write_text(json.dumps(settings))  # YAML in which every word is quoted
    finally:
        os.chdir(before)
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "a miniature"]):
        subprocess.run(["git", *arguments], cwd=root, env=_environment(root), check=True)
    return root


def _environment(root: Path) -> dict[str, str]:
    """The archive's own code, in this interpreter's environment."""
    tools = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    identity = {f"GIT_{who}_{what}": "t@t" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    return {**os.environ, **identity, "PYTHONPATH": str(root), "PATH": tools}


def _reckon(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "registry", *arguments]
    return subprocess.run(command, cwd=root, env=_environment(root), capture_output=True, text=True, check=False)


def test_two_processes_resumed_by_one_are_graded_honestly(archive: Path) -> None:
    bundle = archive.parent / "bundle"
    how = ["--target", "local", "--processes", "2", "--resume-with", "1", "--window", "0:6", "--no-lower"]
    done = _reckon(archive, "plan", "d16", *how, "-o", str(bundle))
    assert done.returncode == 0, done.stderr
    done = subprocess.run(
        ["bash", str(bundle / "run.sh")],
        cwd=archive,
        env=_environment(archive),
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("\nok  ") + done.stdout.startswith("ok  ") == 9
    graded = json.loads((bundle / "out/graded.json").read_text())
    assert graded["order_equal"], "the data is the same to the bit on any number of processes"
    assert (graded["processes"], graded["resumed_with"], graded["resumed_at"], graded["steps"]) == (2, 1, 3, 6)
    assert graded["tier"] == ("T1" if graded["first_difference"] is None and graded["root_equal"] else "T3")
    # What one process gathered and what all of them wrote is one state.
    roots = [
        json.loads(_reckon(archive, "root", str(place), "--json").stdout)["root"]
        for place in (bundle / "out/first/gathered/step-3", bundle / "out/first/sharded/step-3")
    ]
    assert roots[0] == roots[1]
    assert roots[0] == json.loads((bundle / "out/first/result.json").read_text())["root"]


def test_a_bundle_needs_a_commit_and_a_run_that_exists(archive: Path) -> None:
    done = _reckon(archive, "plan", "d99", "--target", "slurm", "--json")
    assert done.returncode == 2
    assert "d99" in json.loads(done.stdout)["error"]["message"]
    done = _reckon(archive, "plan", "d768", "--target", "local")
    assert done.returncode == 2
    assert "no data here" in done.stderr
    (archive / "train/new.py").write_text("")
    try:
        assert "no commit holds" in _reckon(archive, "plan", "d16", "--target", "local").stderr
    finally:
        (archive / "train/new.py").unlink()
