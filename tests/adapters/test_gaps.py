"""Distances of tensors, value by value, whatever the containers."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from support.containers import arrays, write_safetensors, write_zarr

from registry.adapters import gaps
from registry.adapters.checkpoints import open_checkpoint
from registry.core.distances import TensorDistance


def apart(tmp_path: Path, mine: dict, theirs: dict) -> dict[str, TensorDistance]:
    left = open_checkpoint(write_safetensors(tmp_path / "mine.safetensors", mine))
    right = open_checkpoint(write_zarr(tmp_path / "theirs", theirs, ocdbt=True))
    return {one.name: one for one in gaps.measure(left, right)(sorted(mine))}


def test_equal_tensors_are_nowhere_apart(tmp_path: Path) -> None:
    tensors = {name: array for name, array in arrays().items() if array.size}
    for name, one in apart(tmp_path, tensors, tensors).items():
        known = not name.endswith("layers/1/w")
        assert (one.differing, one.largest, one.relative) == (0, 0.0 if known else None, 0.0 if known else None), name


def test_distances_are_those_of_the_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gaps, "_PIECE_BYTES", 64)
    mine = arrays()
    theirs = {name: array.copy() for name, array in mine.items()}
    theirs["model/embed"] = mine["model/embed"] + np.float32(0.25)
    theirs["step"] = np.array(25, np.int32)
    theirs["model/layers/0/w"][0, 0] += 1
    theirs["opt_state/odd"] = np.array([1.0, np.inf, 5e-324, 0.0])
    theirs["mask"] = np.array([True, True, True])
    found = apart(tmp_path, mine, theirs)
    embed = found["model/embed"]
    gap = np.abs(mine["model/embed"].astype(np.float64) - theirs["model/embed"].astype(np.float64))
    assert embed.largest == gap.max()
    assert embed.differing == mine["model/embed"].size
    assert embed.relative == pytest.approx(np.linalg.norm(gap) / np.linalg.norm(mine["model/embed"].astype(np.float64)))
    assert (found["step"].largest, found["step"].relative) == (5.0, 0.25)
    assert found["model/layers/0/w"].differing == 1
    assert found["model/layers/0/w"].largest == pytest.approx(1, abs=0.01)
    assert (found["opt_state/odd"].differing, found["opt_state/odd"].largest) == (2, math.inf)
    assert found["mask"].largest == 1.0
