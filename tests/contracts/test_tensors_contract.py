"""Open containers of tensors: specs in order, leaves, chunks that prove ranges. Fake and files alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fakes.tensors import FakeTensors
from support.containers import ZSTD, halves, write_safetensors, write_shards, write_zarr

from registry.adapters.checkpoints import open_checkpoint
from registry.core.tensors import CHUNK_BYTES, TensorSpec, leaf_of, tensor_root
from registry.errors import Refused
from registry.ports import Tensors

ARRAYS = {
    "b/long": np.arange(CHUNK_BYTES, dtype=np.uint32).reshape(1024, 1024),
    "a": np.array(7, np.int64),
    "b/empty": np.zeros((0, 2), np.float32),
}
SPECS = {name: TensorSpec(name=name, dtype=array.dtype.name, shape=array.shape) for name, array in ARRAYS.items()}
LONG = SPECS["b/long"]


@pytest.fixture(params=["fake", "safetensors", "shards", "ocdbt", "zarr3"])
def tensors(request: pytest.FixtureRequest, tmp_path: Path) -> Tensors:
    if request.param == "fake":
        return FakeTensors({SPECS[name]: array.tobytes() for name, array in ARRAYS.items()})
    made = {
        "safetensors": lambda: write_safetensors(tmp_path / "a.safetensors", ARRAYS),
        "shards": lambda: write_shards(tmp_path / "shards", ARRAYS),
        "ocdbt": lambda: write_zarr(tmp_path / "ocdbt", ARRAYS, ocdbt=True),
        "zarr3": lambda: write_zarr(tmp_path / "zarr", ARRAYS, grid=halves, codecs=ZSTD),
    }
    return open_checkpoint(made[request.param]())


def test_specs_come_sorted_by_name(tensors: Tensors) -> None:
    assert tensors.container
    assert list(tensors.specs) == [SPECS["a"], SPECS["b/empty"], LONG]


def test_leaves_come_in_the_order_asked_for_and_progress_in_bytes(tensors: Tensors) -> None:
    told: list[int] = []
    leaves = tensors.leaves([LONG, SPECS["a"]], told.append)
    assert list(leaves) == [leaf_of(SPECS[name], ARRAYS[name].tobytes()) for name in ("b/long", "a")]
    assert sum(told) == LONG.size_bytes + 8
    assert tensor_root(tensors.leaves(tensors.specs, told.append)).algorithm == "sha256"
    assert list(tensors.leaves([], told.append)) == []


def test_chunks_add_up_to_the_leaf_and_prove_what_is_read(tensors: Tensors) -> None:
    chunks = tensors.chunks(LONG)
    assert chunks.leaf == tensors.leaves([LONG], lambda _: None)[0]
    start, stop = chunks.covering(CHUNK_BYTES + 1, CHUNK_BYTES + 2)
    chunks.verify(start, tensors.read(LONG, start, stop))
    assert tensors.chunks(SPECS["b/empty"]).digests == ()


@pytest.mark.parametrize(("start", "stop"), [(0, 0), (4, 4096), (4_000_000, 4 * 2**20)])
def test_ranges_are_read(tensors: Tensors, start: int, stop: int) -> None:
    assert tensors.read(LONG, start, stop) == ARRAYS["b/long"].tobytes()[start:stop]


@pytest.mark.parametrize(("start", "stop"), [(1, 4), (0, 2), (8, 4), (-4, 4), (0, 4 * 2**20 + 4)])
def test_ranges_that_cut_an_element_or_leave_the_tensor_are_refused(tensors: Tensors, start: int, stop: int) -> None:
    with pytest.raises(Refused, match="no range of elements"):
        tensors.read(LONG, start, stop)
