"""The layer contracts hold, and each of them bites: a planted import breaks its own contract."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINTER = Path(sys.executable).with_name("lint-imports")
# Contract, planted module, its text. Each breaks the one contract; what it imports is real or planted beside it.
VIOLATIONS = [
    ("layers", "registry/core/planted_upwards.py", "import registry.cli"),
    ("layers", "registry/planted_outside.py", ""),
    ("adapters", "registry/adapters/planted_friend.py", "from registry.adapters import records"),
    ("workflows", "registry/workflows/planted_friend.py", "from registry.workflows import planted_other"),
    ("wiring", "registry/cli/planted_shortcut.py", "def f() -> None:\n    from registry.adapters import records"),
    ("train", "train/planted_recorder.py", "def f() -> None:\n    import registry.ports"),
    ("registry", "registry/cli/planted_trainer.py", "import train"),
    ("pure", "registry/workflows/planted_reader.py", "import pyarrow"),
    ("cycles", "registry/core/planted_head.py", "from registry.core import planted_tail"),
]
COMPANIONS = [
    ("registry/workflows/planted_other.py", ""),
    ("registry/core/planted_tail.py", "from registry.core import planted_head"),
]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The two packages without their history, where a test may do damage."""
    for package in ("registry", "train"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def lint(folder: Path) -> tuple[int, str]:
    done = subprocess.run([LINTER, "--no-cache"], cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def contracts(project: dict) -> dict[str, str]:
    return {one["id"]: one["name"] for one in project["tool"]["importlinter"]["contracts"]}


def blamed(report: str, names: Iterable[str]) -> dict[str, set[str]]:
    """The planted modules that the report names below each broken contract."""
    known = "|".join(map(re.escape, names))
    _, *sections = re.split(rf"^({known})\n-+\n", report.partition("Broken contracts")[2], flags=re.MULTILINE)
    return {name: set(re.findall(r"planted_\w+", text)) for name, text in zip(*[iter(sections)] * 2, strict=True)}


def put(folder: Path, path: str, text: str) -> None:
    (folder / path).write_text(f'"""Planted by a test."""\n\n{text}\n', encoding="utf-8")


def test_the_contracts_hold(copy, project):
    status, report = lint(copy)
    assert status == 0, report
    assert f"Contracts: {len(contracts(project))} kept, 0 broken." in report


def test_every_contract_bites_on_its_own_violation(copy, project):
    for _, path, text in VIOLATIONS:
        put(copy, path, text)
    for path, text in COMPANIONS:
        put(copy, path, text)
    status, report = lint(copy)
    assert status == 1, report
    planted = {
        name: {Path(path).stem for contract, path, _ in VIOLATIONS if contract == one}
        for one, name in contracts(project).items()
    }
    foreign = {Path(path).stem for path, _ in COMPANIONS}
    found = {name: modules - foreign for name, modules in blamed(report, planted).items()}
    assert found == planted, report


def test_train_may_use_core_and_errors_only(project):
    """The contract names what is forbidden, so that it must name everything else."""
    (contract,) = (one for one in project["tool"]["importlinter"]["contracts"] if one["id"] == "train")
    folder = ROOT / "registry"
    parts = {path.stem for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert set(contract["forbidden_modules"]) == {f"registry.{part}" for part in parts - {"__init__", "core", "errors"}}
