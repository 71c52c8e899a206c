"""The checkout as the architecture tests see it: its files, its modules, its limits."""

from __future__ import annotations

import ast
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def project() -> dict:
    """``pyproject.toml``."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def limits(project: dict) -> dict[str, int]:
    """The one table of budgets, ``[tool.reckon.limits]``."""
    return project["tool"]["reckon"]["limits"]


@pytest.fixture(scope="session")
def own_files() -> list[Path]:
    """Every file that git tracks or would track, relative to the root."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    paths = (Path(name) for name in listed.stdout.decode().split("\0") if name)
    return [path for path in paths if (ROOT / path).is_file()]


@pytest.fixture(scope="session")
def sources(own_files: list[Path]) -> dict[Path, str]:
    """The Python files of registry/ and train/ with their text."""
    shipped = (path for path in own_files if path.suffix == ".py" and path.parts[0] in ("registry", "train"))
    return {path: (ROOT / path).read_text(encoding="utf-8") for path in shipped}


@pytest.fixture(scope="session")
def trees(sources: dict[Path, str]) -> dict[Path, ast.Module]:
    """The syntax trees of the shipped Python files."""
    return {path: ast.parse(text, filename=str(path)) for path, text in sources.items()}
