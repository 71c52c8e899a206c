"""Fixtures that several folders of tests share; ``tests/conftest.py`` takes them in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support import toy as toys
from support.toy import Toy

if TYPE_CHECKING:
    from support.charted import Charted


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


@pytest.fixture(scope="session")
def charted_once(tmp_path_factory: pytest.TempPathFactory) -> Charted:
    """The archive that :func:`charted` copies. Not to be changed."""
    from support import charted as charts

    return charts.build(tmp_path_factory.mktemp("charts") / "charted")


@pytest.fixture
def charted(charted_once: Charted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Charted:
    """An archive with a real data order, recorded, with its cache and remote. ``reckon`` is called in it."""
    from support import charted as charts

    chart = charts.copy(charted_once, tmp_path / "charted")
    monkeypatch.chdir(chart.root)
    return chart
