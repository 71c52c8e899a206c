"""The stage ``corpus`` with the real client (pip), served from a folder instead of an index."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.wheelhouse import lay, pin, toy_pins, toy_wheels, tree, wheel_bytes

from registry.core import canonical
from registry.errors import DoesNotHold, OutsideFailed, Refused
from train.corpus import build, pinned
from train.data.fetch import requirement


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip takes for the only place to find wheels."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.mark.slow
def test_wheels_are_fetched_once_and_verified_always(index: Path, tmp_path: Path) -> None:
    wheels = toy_wheels(documents=2)
    lay(wheels, index)
    corpus, cache = tmp_path / "corpus", tmp_path / "cache"
    assert {wheel.name for wheel in build(toy_pins(wheels), corpus, cache)} == {"alpha", "beta", "gamma"}
    first = tree(corpus)
    assert {name: data for name, data in first.items() if name != "wheels.json"} == wheels
    listed = canonical.decode(first["wheels.json"].removesuffix(b"\n"))
    assert [entry["domain"] for entry in listed["wheels"]] == ["code", "math", "prose"]

    for path in index.iterdir():
        path.unlink()
    assert build(toy_pins(wheels), corpus, cache) == ()
    assert tree(corpus) == first

    lay({"alpha-1.0-py3-none-any.whl": wheels["alpha-1.0-py3-none-any.whl"]}, index)
    damaged = cache / "alpha-1.0-py3-none-any.whl"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    assert [wheel.name for wheel in build(toy_pins(wheels), corpus, cache)] == ["alpha"]
    assert tree(corpus) == first


@pytest.mark.slow
def test_other_bytes_than_the_pinned_ones_do_not_hold(index: Path, tmp_path: Path) -> None:
    wheels = toy_wheels(documents=2)
    lay({**wheels, "alpha-1.0-py3-none-any.whl": wheel_bytes("alpha", "1.0", {"alpha/evil.py": "x = 1\n"})}, index)
    with pytest.raises(DoesNotHold, match="other bytes than the pinned ones") as caught:
        build(toy_pins(wheels), tmp_path / "corpus", tmp_path / "cache")
    assert caught.value.exit_code == 1
    assert str(tmp_path) not in str(caught.value), (
        "the cause of a failed attempt is recorded, and a record has no place"
    )
    assert tree(tmp_path / "corpus") == {}
    assert tree(tmp_path / "cache") == {}


@pytest.mark.slow
def test_an_index_that_cannot_be_reached_is_an_outside_failure(index: Path, tmp_path: Path) -> None:
    assert not list(index.iterdir())
    with pytest.raises(OutsideFailed, match="pip could not fetch") as caught:
        build(toy_pins(toy_wheels(documents=2)), tmp_path / "corpus", tmp_path / "cache")
    assert caught.value.exit_code == 3
    assert "package index" in caught.value.remedy
    assert tree(tmp_path) == {}


def test_a_wheel_of_another_licence_never_gets_its_final_name(tmp_path: Path) -> None:
    data = wheel_bytes("alpha", "1.0", {"alpha/a.py": "a = 1\n"}, headers="License-Expression: GPL-3.0-only\n")
    cache = lay({"alpha-1.0-py3-none-any.whl": data}, tmp_path / "cache")
    with pytest.raises(DoesNotHold, match=r"GPL-3\.0-only"):
        build({"wheels": [pin("alpha", "1.0", data)]}, tmp_path / "corpus", cache)
    assert tree(tmp_path / "corpus") == {}


@pytest.mark.parametrize("wheels", [[], [pin("alpha", "1.0", b""), pin("alpha", "1.1", b"")], "alpha"])
def test_malformed_pins_are_refused(wheels: object) -> None:
    with pytest.raises(Refused):
        pinned({"wheels": wheels})


def test_only_the_pinned_bytes_are_asked_for() -> None:
    wheel = pinned({"wheels": [pin("alpha", "1.0", b"bytes")]})[0]
    assert requirement(wheel) == f"alpha==1.0 --hash=sha256:{wheel.sha256}\n"
