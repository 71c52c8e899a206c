"""Fixtures that several folders of tests share; ``tests/conftest.py`` takes them in."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import toy as toys
from support.toy import Toy


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    """A toy archive, committed, of which nothing was run."""
    return toys.build(tmp_path / "toy")


@pytest.fixture(scope="session")
def sailed_once(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """The archive that :func:`sailed` copies. Not to be changed."""
    toy = toys.build(tmp_path_factory.mktemp("archives") / "toy")
    toy.run_all()
    toy.commit("All stages, once")
    toy.git("gc", "-q", "--prune=now")  # fewer files to copy
    return toy


@pytest.fixture
def sailed(sailed_once: Toy, tmp_path: Path) -> Toy:
    """A toy archive of which every stage ran once and is recorded and committed."""
    return toys.copy(sailed_once, tmp_path / "sailed")


@pytest.fixture
def at_sea(sailed: Toy, monkeypatch: pytest.MonkeyPatch) -> Toy:
    """``sailed`` as the archive that ``reckon`` is called in, on the toy's host and with its kind of contents."""
    from registry.cli import wiring

    monkeypatch.chdir(sailed.root)
    monkeypatch.setattr(wiring, "host", lambda: sailed.host)
    monkeypatch.setattr(wiring, "observer", toys.observer)
    return sailed
