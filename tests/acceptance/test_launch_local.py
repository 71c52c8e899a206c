"""A launch from a bundle in a fresh folder: two processes, one killed; resumed by one, graded against one alone."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
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
    settings["training"] = {**settings["training"], "keep_every_steps": 1}
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


def _kill_worker(bundle: Path, process: int) -> None:
    """End a worker of the bundle's launch without a word, as a lost machine would."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        mine = b"train.launch_worker" in words and any(str(bundle).encode() in word for word in words)
        if mine and words[words.index(b"--process") + 1] == str(process).encode():
            os.kill(int(folder.name), signal.SIGKILL)


def _until(path: Path, running: subprocess.Popen[str]) -> None:
    while not path.exists():
        assert running.poll() is None, "it ended before"
        time.sleep(0.02)


def test_two_processes_of_which_one_dies_and_resumed_by_one_are_graded_honestly(archive: Path) -> None:
    bundle = archive.parent / "bundle"
    how = ["--target", "local", "--processes", "2", "--resume-with", "1", "--window", "0:6", "--no-lower"]
    done = _reckon(archive, "plan", "d16", *how, "-o", str(bundle))
    assert done.returncode == 0, done.stderr
    command, kept = ["bash", str(bundle / "run.sh")], bundle / "out/first/gathered/step-1"
    with subprocess.Popen(
        command, cwd=archive, env=_environment(archive), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        _until(kept, running)
        written = (kept / "state.safetensors").stat().st_mtime_ns
        _kill_worker(bundle, 1)
        said, told = running.communicate(timeout=500)
    assert running.returncode == 0, said + told
    assert said.count("\nok  ") + said.startswith("ok  ") == 9
    assert "Process 1 of 2 ended with -9" in told
    assert "watchdog: ended with 3 after progress; starting again (1)" in told
    assert (kept / "state.safetensors").stat().st_mtime_ns == written, "no step before the checkpoint was run again"
    graded = json.loads((bundle / "out/graded.json").read_text())
    assert graded["starts"] == {"first": 2, "resumed": 1, "alone": 1}
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
