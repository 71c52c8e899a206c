"""``make`` alone builds the environment, says clearly when it cannot, and CI hides no step of it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OLD = "#!/bin/sh\necho Python 3.9.2\ncase $1 in --version) exit 0;; esac\nexit 1\n"


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A folder with what the environment is made from, and a half-made one."""
    for name in ("Makefile", "requirements.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / ".venv").mkdir()
    return tmp_path


@pytest.fixture
def old_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A PATH on which every Python is too old."""
    programs = tmp_path_factory.mktemp("programs")
    for name in ("python3", "python3.11", "python3.12"):
        (programs / name).write_text(OLD)
        (programs / name).chmod(0o755)
    return f"{programs}{os.pathsep}{os.environ['PATH']}"


def make(folder: Path, *arguments: str, path: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(
        ["make", *arguments], cwd=folder, env={**environment, "PATH": path}, capture_output=True, text=True, check=False
    )


def test_an_old_python_is_refused_with_a_remedy(bare, old_python):
    ended = make(bare, "environment", path=old_python)
    assert ended.returncode == 2
    assert "Python 3.11 or 3.12" in ended.stderr
    assert "python3 is Python 3.9.2" in ended.stderr
    assert "make PYTHON=" in ended.stderr
    assert list((bare / ".venv").iterdir()) == []


def test_an_environment_without_its_stamp_is_made_anew(bare, old_python):
    plan = make(bare, "--dry-run", "environment", path=old_python)
    assert "rm -rf .venv" in plan.stdout


def test_an_environment_of_this_lock_is_kept_and_of_another_is_not(bare, old_python):
    lock = bare / "requirements.lock"
    blob = subprocess.run(["git", "hash-object", lock], capture_output=True, text=True, check=True).stdout.strip()
    (bare / ".venv" / f".made-from-{blob}").touch()
    assert "rm -rf" not in make(bare, "--dry-run", "environment", path=old_python).stdout
    os.utime(lock)
    assert "rm -rf" not in make(bare, "--dry-run", "environment", path=old_python).stdout
    lock.write_text(lock.read_text() + "# changed\n")
    assert "rm -rf .venv" in make(bare, "--dry-run", "environment", path=old_python).stdout


def test_ci_runs_make_and_nothing_else():
    lines = [line for line in (ROOT / ".ci/run").read_text().splitlines() if line and not line.startswith("#")]
    assert lines == ["set -euo pipefail", 'cd "$(dirname "$0")/.."', "make lint", "make test"]
