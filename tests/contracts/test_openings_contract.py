"""Openings are kept by stage, oldest first, and read back as they were. Fake and folder alike."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from fakes.stores import MemoryOpenings

from registry.adapters.openings import OpeningFolder
from registry.core.codec import record_bytes
from registry.core.digests import sha256
from registry.core.openings import Opening
from registry.core.records import Revision
from registry.errors import MalformedRecord
from registry.ports import Openings

OPENING = Opening(
    stage="rung/d32",
    time="2026-11-30T12:00:00.000000Z",
    recipe=sha256(b"recipe"),
    revision=Revision(commit="c" * 40, tree="d" * 40, patch=None),
    host={"name": "harbour"},
    hypothesis={"text": "größer", "loss": "1.5"},
)
LATER = replace(OPENING, time="2026-11-30T12:00:00.000001Z", hypothesis=None)


@pytest.fixture(params=["fake", "folder"])
def openings(request: pytest.FixtureRequest, tmp_path: Path) -> Openings:
    return MemoryOpenings() if request.param == "fake" else OpeningFolder(tmp_path)


def test_openings_are_told_oldest_first(openings: Openings) -> None:
    openings.add(LATER)
    openings.add(OPENING)
    assert list(openings.of_stage("rung/d32")) == [OPENING, LATER]


def test_a_stage_has_its_own(openings: Openings) -> None:
    openings.add(OPENING)
    openings.add(replace(OPENING, stage="rung/d32/more"))
    assert list(openings.of_stage("rung/d32")) == [OPENING]
    assert list(openings.of_stage("rung")) == []


class TestFolder:
    """What lies there is hostile, and what a kill left is no opening."""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        OpeningFolder(tmp_path).add(OPENING)
        return tmp_path / "rung/d32"

    def test_a_leftover_of_a_kill_is_no_opening(self, folder: Path, tmp_path: Path) -> None:
        (folder / ".opening-20261130120000000001.json.0a1b2c3d.tmp").write_bytes(b"{")
        assert len(OpeningFolder(tmp_path).of_stage("rung/d32")) == 1

    @pytest.mark.parametrize(
        "data", [b"", b"{", b"[]", record_bytes(OPENING) + b"\n", record_bytes(replace(OPENING, stage="shards"))]
    )
    def test_what_is_no_opening_is_named(self, folder: Path, tmp_path: Path, data: bytes) -> None:
        (folder / "opening-20261130120000000009.json").write_bytes(data)
        with pytest.raises(MalformedRecord, match=r"opening-20261130120000000009\.json of rung/d32"):
            OpeningFolder(tmp_path).of_stage("rung/d32")
