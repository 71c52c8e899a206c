"""What all tests share: no network, no telemetry, a git identity, the environment's own programs first on PATH."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from support.shipyard import Shipyard

ROOT = Path(__file__).resolve().parent.parent
# Files that take minutes begin first: else one worker is left with the last of them while the others are done.
LONGEST = (
    "test_training_stages.py",
    "test_launch_local.py",
    "test_rederived_training.py",
    "test_hero_segments.py",
    "test_program.py",
    "test_grug_devices.py",
    "test_training_state.py",
    "test_grug_export.py",
    "test_export.py",
    "test_grug_training.py",
    "test_rehearsal.py",
    "test_pulls.py",
)
WHOLLY_SLOW = re.compile(r"^pytestmark = \[?pytest\.mark\.slow\b", re.MULTILINE)

# The fixtures `hub`, `hub_process`, `liar`, `toy`, `sailed`, `at_sea`.
pytest_plugins = ("support.hub", "support.liar", "support.fixtures")

os.environ.update(
    DVC_NO_ANALYTICS="true",
    GIT_AUTHOR_EMAIL="test@example.org",
    GIT_AUTHOR_NAME="Test",
    GIT_COMMITTER_EMAIL="test@example.org",
    GIT_COMMITTER_NAME="Test",
    HF_HUB_DISABLE_TELEMETRY="1",
    HF_HUB_OFFLINE="1",
    JAX_PLATFORMS="cpu",
    MLFLOW_DISABLE_TELEMETRY="true",
    PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    WANDB_MODE="offline",
)
# Bytecode is kept, whatever the shell says: else each worker and each command of a test compiles the project anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# A deadline measures the machine, and the same examples on every run are what a reviewer can repeat.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out what is slow as a whole before it is imported: JAX and Levanter cost each worker five seconds."""
    if config.getoption("markexpr") != "not slow" or collection_path.suffix != ".py":
        return None
    return True if WHOLLY_SLOW.search(collection_path.read_text(encoding="utf-8")) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first; the order within a file stays."""
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How one command line ended."""

    status: int
    stdout: str
    stderr: str


@pytest.fixture
def root() -> Path:
    """The checkout that is under test."""
    return ROOT


@pytest.fixture
def reckon(capfd: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Run ``reckon`` in this process, output piped: ``reckon("show", "shards")``."""
    from registry.cli.main import run

    def call(*arguments: str) -> Ended:
        capfd.readouterr()
        status = run(arguments)
        captured = capfd.readouterr()
        return Ended(status=status, stdout=captured.out, stderr=captured.err)

    return call


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Shipyard:
    """An archive shaped like the real one, run once for all tests: not to be touched."""
    from support import shipyard

    return shipyard.build(tmp_path_factory.mktemp("shipyard"))


@pytest.fixture
def ship(built: Shipyard, tmp_path: Path) -> Shipyard:
    """A copy of it that a test may alter."""
    from support import shipyard

    return shipyard.copy(built, tmp_path / "ship")
