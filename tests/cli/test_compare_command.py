"""``reckon compare`` on names, digests, folders and containers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.containers import write_zarr
from support.toy import Toy

from registry.adapters.checkpoints import open_checkpoint


@pytest.fixture
def compare(reckon: Callable) -> Callable[..., tuple[int, dict]]:
    def call(*words: str) -> tuple[int, dict]:
        ended = reckon("compare", *words, "--json")
        return ended.status, json.loads(ended.stdout)

    return call


def arrays(path: Path) -> dict[str, np.ndarray]:
    opened = open_checkpoint(path)
    return {
        spec.name: np.frombuffer(opened.read(spec, 0, spec.size_bytes), spec.dtype).reshape(spec.shape).copy()
        for spec in opened.specs
    }


def test_the_same_tensors_in_another_container_are_equal(at_sea: Toy, compare, tmp_path: Path) -> None:
    kept = at_sea.root / "artifacts/leg/1/checkpoints/step-4"
    write_zarr(tmp_path / "step-4", arrays(kept), ocdbt=True)
    status, told = compare("leg/1@step-4", str(tmp_path / "step-4"))
    assert (status, told["equal"], told["differing_tensors"]) == (0, True, 0)
    assert compare("leg/1", str(at_sea.root / "artifacts/leg/1"))[0] == 0
    root = at_sea.ledger.product_of("leg/1").output("leg/1@step-4").contents["tensors"]
    assert compare("leg/1@step-4", root)[0] == 0


def test_the_first_other_tensor_and_the_distance_are_named(at_sea: Toy, compare, tmp_path: Path) -> None:
    tensors = arrays(at_sea.root / "artifacts/leg/1/checkpoints/step-4")
    tensors["model/mast"][1] += 0.5
    write_zarr(tmp_path / "other", tensors, ocdbt=True)
    status, told = compare("leg/1@step-4", str(tmp_path / "other"))
    assert (status, told["first_tensor"], told["differing_tensors"]) == (1, "model/mast", 1)
    [far] = told["tensors"]
    assert (far["largest"], far["differing"], far["elements"]) == ("0.5", 1, 2)


def test_distances_are_left_out_where_the_bytes_are_not_at_hand(at_sea: Toy, compare, tmp_path: Path) -> None:
    shutil.copytree(at_sea.root / "artifacts/leg/1/checkpoints/step-2", tmp_path / "other")
    shutil.rmtree(at_sea.root / "artifacts/leg/1")
    status, told = compare("leg/1@step-4", str(tmp_path / "other"))
    assert (status, told["first_tensor"], told["tensors"]) == (1, "model/keel", [])


def test_executions_are_compared_by_what_they_ran_on(at_sea: Toy, compare, reckon) -> None:
    first = at_sea.ledger.head("leg/1")
    at_sea.replace("params.yaml", "nproc: 2", "nproc: 4")
    at_sea.host.name = "roadstead"
    at_sea.run("leg/1")
    second = at_sea.ledger.head("leg/1")
    assert first is not None
    assert second is not None
    status, told = compare(first[0].hex[:12], second[0].hex[:12])
    assert (status, told["equal"]) == (0, True)
    assert {one["fact"]: one["grade"] for one in told["setup"]} == {
        "determinism nproc": "numeric",
        "host name": "harmless",
    }
    assert set(told["asked"]) == {"settings", "determinism"}
    shown = reckon("compare", first[0].hex[:12], second[0].hex[:12]).stdout
    assert "determinism nproc" in shown
    assert "1 harmless difference more" in shown


@pytest.mark.parametrize("words", [("leg/1", "./nowhere"), ("leg/9", "leg/1"), ("leg/1@step-2", "leg/1@step-4")])
def test_what_cannot_be_compared_is_refused(at_sea: Toy, reckon, words) -> None:
    assert reckon("compare", *words).status == 2


@pytest.mark.parametrize("words", [("compare", "leg/1", "leg/9"), ("bisect", "leg/1", "leg/9"), ("pull", "dvc:leg/9")])
def test_a_stage_that_the_pipeline_lacks_is_corrected(at_sea: Toy, reckon, words) -> None:
    ended = reckon(*words)
    assert ended.status == 2
    assert "Did you mean leg/" in ended.stderr
    assert "dvc" not in ended.stderr.casefold()
