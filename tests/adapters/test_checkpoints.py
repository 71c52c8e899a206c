"""One root for the same tensors in every container, and no root for anything damaged."""

import contextlib
import json
import os
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.containers import (
    BIG,
    LITTLE,
    SHARDED,
    ZSTD,
    arrays,
    columns,
    halves,
    write_safetensors,
    write_shards,
    write_zarr,
)

from registry.adapters.checkpoints import layout, open_checkpoint, read_leaves
from registry.adapters.checkpoints.leaves import LeafHasher
from registry.adapters.checkpoints.source import DamagedTensors
from registry.core.tensors import CHUNK_BYTES, TensorSpec, leaf_of, tensor_root
from registry.errors import Refused

CONTAINERS = {
    "one file": lambda path, tensors: write_safetensors(path.with_suffix(".safetensors"), tensors),
    "shards with index": write_shards,
    "shards without index": lambda path, tensors: write_shards(path, tensors, index=False),
    "ocdbt": lambda path, tensors: write_zarr(path, tensors, ocdbt=True),
    "ocdbt as tensorstore cuts it": lambda path, tensors: write_zarr(path, tensors, codecs=SHARDED, ocdbt=True),
    "ocdbt in halves": lambda path, tensors: write_zarr(path, tensors, grid=halves, ocdbt=True),
    "ocdbt by columns": lambda path, tensors: write_zarr(path, tensors, grid=columns, codecs=ZSTD, ocdbt=True),
    "zarr": write_zarr,
    "zarr in halves": lambda path, tensors: write_zarr(path, tensors, grid=halves, codecs=ZSTD),
    "zarr big-endian": lambda path, tensors: write_zarr(path, tensors, codecs=BIG),
    "zarr with keys of version 2": lambda path, tensors: write_zarr(path, tensors, grid=columns, encoding="v2"),
}


@pytest.fixture
def tensors():
    return arrays()


def expected(tensors):
    return [
        leaf_of(TensorSpec(name=name, dtype=array.dtype.name, shape=array.shape), array.tobytes())
        for name, array in sorted(tensors.items())
    ]


@pytest.mark.parametrize("container", CONTAINERS)
def test_every_container_gives_the_same_leaves(tmp_path, tensors, container):
    path = CONTAINERS[container](tmp_path / "set", tensors)
    assert list(read_leaves(path)) == expected(tensors)


@pytest.mark.parametrize(
    ("grid", "codecs"),
    [(None, LITTLE), (columns, LITTLE), (None, SHARDED), (columns, ZSTD), (halves, LITTLE), (columns, SHARDED)],
    ids=["plain", "plain by columns", "sharded", "encoded by columns", "halves", "sharded by columns"],
)
def test_large_arrays_give_the_same_leaves(tmp_path, grid, codecs):
    """Beyond a span and a piece, so that ranges begin and end inside rows."""
    random = np.random.default_rng(1)
    tensors = {
        "a/long": random.integers(0, 255, 9 * CHUNK_BYTES + 32, np.uint8),
        "a/deep": random.standard_normal((3, 701, 1024)).astype(np.float32),
        "a/row": random.standard_normal((1, 1_300_000)),
    }
    folder = write_zarr(
        tmp_path / "set", tensors, grid=grid or (lambda shape: shape), codecs=codecs, ocdbt=codecs != ZSTD
    )
    assert list(read_leaves(folder)) == expected(tensors)


@pytest.mark.parametrize(
    ("shape", "grid"),
    [
        ((12, 96, 40), (4, 8, 8)),
        ((12, 97, 41), (4, 8, 8)),
        ((5, 2, 90, 64), (3, 2, 10, 64)),
        ((700, 130), (100, 13)),
        ((100_003,), (512,)),
        ((1, 90_001), (1, 1024)),
    ],
)
@pytest.mark.parametrize("most", [2**13, 2**17])
def test_boxes_of_chunks_give_the_same_leaves(tmp_path, monkeypatch, shape, grid, most):
    """Many small boxes whose runs lie far apart, as in the experts of a large model."""
    monkeypatch.setattr(layout, "REGIONS", (most,))
    monkeypatch.setattr(layout, "LEAST_RUN", 2**9)
    tensors = {"w": np.random.default_rng(2).standard_normal(shape).astype(np.float32)}
    folder = write_zarr(tmp_path / "set", tensors, grid=lambda _: grid, codecs=ZSTD)
    assert list(read_leaves(folder)) == expected(tensors)


@pytest.mark.slow
def test_any_range_is_read_in_any_container(tmp_path, tensors):
    tensors["big"] = np.arange(700_000, dtype=np.uint32).reshape(700, 1000)
    opened = [
        open_checkpoint(write_safetensors(tmp_path / "a.safetensors", tensors)),
        open_checkpoint(write_zarr(tmp_path / "b", tensors, grid=columns, ocdbt=True)),
        open_checkpoint(write_zarr(tmp_path / "c", tensors, grid=halves, codecs=ZSTD)),
    ]
    by_name = {spec.name: spec for spec in opened[0].specs}

    @settings(max_examples=40)
    @given(st.sampled_from(sorted(tensors)), st.data())
    def check(name, data):
        spec, whole = by_name[name], tensors[name].tobytes()
        elements = len(whole) // spec.item_bytes
        start = data.draw(st.integers(0, elements)) * spec.item_bytes
        stop = data.draw(st.integers(start // spec.item_bytes, elements)) * spec.item_bytes
        for checkpoint in opened:
            assert checkpoint.read(spec, start, stop) == whole[start:stop]

    check()


def test_a_range_is_read_and_proved(tmp_path):
    tensors = {"w": np.random.default_rng(3).standard_normal((1200, 700)).astype(np.float32)}
    checkpoint = open_checkpoint(write_zarr(tmp_path / "set", tensors, ocdbt=True))
    [spec] = checkpoint.specs
    chunks = checkpoint.chunks(spec)
    assert chunks.leaf == read_leaves(tmp_path / "set")[0]
    start, stop = chunks.covering(1_500_000, 1_500_004)
    chunks.verify(start, checkpoint.read(spec, start, stop))


@pytest.mark.parametrize(("start", "stop"), [(-4, 4), (0, 10_000), (8, 4), (1, 4), (0, 6)])
def test_a_range_that_cuts_an_element_or_leaves_the_tensor_is_refused(tmp_path, tensors, start, stop):
    checkpoint = open_checkpoint(write_safetensors(tmp_path / "a.safetensors", tensors))
    spec = next(spec for spec in checkpoint.specs if spec.name == "model/embed")
    with pytest.raises(Refused, match="no range of elements"):
        checkpoint.read(spec, start, stop)


@pytest.mark.parametrize("workers", [1, 2, 7])
def test_the_number_of_threads_does_not_matter_and_progress_is_told(tmp_path, tensors, workers):
    checkpoint = open_checkpoint(write_safetensors(tmp_path / "a.safetensors", tensors))
    told = []
    hasher = LeafHasher(source=checkpoint.source, workers=workers, advance=told.append)
    assert list(hasher.leaves(checkpoint.specs)) == expected(tensors)
    assert sum(told) == sum(array.nbytes for array in tensors.values())


def test_zeros_that_are_not_stored_equal_zeros_that_are(tmp_path):
    zeros = {"z": np.zeros((1000, 100), np.float32), "b": np.zeros((), bool)}
    folder = write_zarr(tmp_path / "z", zeros)
    assert not [path for path in folder.rglob("c/**/*") if path.is_file()]
    assert list(read_leaves(folder)) == expected(zeros)


def test_a_linked_file_is_read(tmp_path, tensors):
    """The client of the hub keeps blobs aside and links them."""
    blob = write_safetensors(tmp_path / "blob", tensors)
    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    (snapshot / "model.safetensors").symlink_to(blob)
    assert list(read_leaves(snapshot)) == expected(tensors)


def refused(path, match, error=Refused):
    with pytest.raises(error, match=match) as refusal:
        read_leaves(path)
    assert "source locations" not in str(refusal.value)


def test_what_is_no_container_is_refused(tmp_path, tensors):
    refused(tmp_path / "nowhere", "does not exist")
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", "is empty")
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "readme").write_text("no tensors")
    refused(tmp_path / "text", "no container of tensors")
    refused(tmp_path / "text" / "readme", "no safetensors file", DamagedTensors)
    (tmp_path / "model.pt").write_bytes(b"\x80\x04.")
    refused(tmp_path / "model.pt", "pickle")
    write_safetensors(tmp_path / "none.safetensors", {})
    refused(tmp_path / "none.safetensors", "holds no tensors")
    refused(write_zarr(tmp_path / "one", {"": tensors["step"]}), "holds no tensors")


def test_a_folder_of_checkpoints_is_refused_with_the_way_on(tmp_path, tensors):
    write_zarr(tmp_path / "run" / "step-20", {"step": tensors["step"]}, ocdbt=True)
    refused(tmp_path / "run", "holds no tensors itself. Name a folder in it, such as .*step-20")


def test_a_folder_of_many_things_is_refused_with_the_checkpoints_below_it(tmp_path, tensors):
    """As ``artifacts/`` is: caches are zarr arrays, and trackers leave links."""
    write_zarr(tmp_path / "all/tokens", {"ids": tensors["step"]})
    for step in (1, 2, 3, 4):
        (tmp_path / f"all/run/step-{step}").mkdir(parents=True)
        write_safetensors(tmp_path / f"all/run/step-{step}/state.safetensors", {"step": tensors["step"]})
    (tmp_path / "all/latest").symlink_to("run")
    (tmp_path / "all/gone").symlink_to("nowhere")
    refused(tmp_path / "all", r"holds no tensors itself. Name a folder in it, such as .*step-1, .*step-3 \(4 in all\)")


def test_two_containers_in_one_folder_are_refused(tmp_path, tensors):
    folder = write_zarr(tmp_path / "set", tensors)
    write_safetensors(folder / "model.safetensors", tensors)
    refused(folder, "in safetensors and in zarr3")


def test_special_files_are_never_opened(tmp_path, tensors):
    os.mkfifo(tmp_path / "pipe.safetensors")
    refused(tmp_path / "pipe.safetensors", "not a regular file")
    folder = write_zarr(tmp_path / "set", tensors, ocdbt=True)
    os.mkfifo(folder / "d" / "pipe")
    refused(folder, "neither a file nor a folder")
    (folder / "d" / "pipe").unlink()
    (folder / "d" / "broken").symlink_to("nowhere")
    refused(folder, "cannot be looked at", DamagedTensors)


@pytest.mark.parametrize(
    "change", [lambda data: data[:-1], lambda data: data + b"x", lambda data: data[:20], lambda data: b""]
)
def test_a_cut_or_padded_file_is_damaged(tmp_path, tensors, change):
    path = write_safetensors(tmp_path / "a.safetensors", tensors)
    path.write_bytes(change(path.read_bytes()))
    refused(path, "a.safetensors", DamagedTensors)


def test_a_file_that_changes_while_it_is_read_is_damaged(tmp_path, tensors):
    path = write_safetensors(tmp_path / "a.safetensors", tensors)
    checkpoint = open_checkpoint(path)
    write_safetensors(path, arrays(seed=1))
    with pytest.raises(DamagedTensors, match="changed while it was read"):
        checkpoint.leaves(checkpoint.specs)


def test_a_flipped_bit_is_another_leaf(tmp_path, tensors):
    path = write_safetensors(tmp_path / "a.safetensors", tensors)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    changed = [leaf.name for leaf, good in zip(read_leaves(path), expected(tensors), strict=True) if leaf != good]
    assert len(changed) == 1


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda index: index["weight_map"].pop("step"), "'step' is not where it should be"),
        (lambda index: index["weight_map"].update(more="model-00001-of-00003.safetensors"), "'more'"),
        (lambda index: index["weight_map"].update(step="../other.safetensors"), "'step'"),
        (lambda index: index["weight_map"].update(step=7), "no map"),
        (lambda index: index.clear(), "no map"),
    ],
)
def test_an_index_that_disagrees_with_the_files_is_damaged(tmp_path, tensors, change, match):
    folder = write_shards(tmp_path / "set", tensors)
    path = folder / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    change(index)
    path.write_text(json.dumps(index))
    refused(folder, match, DamagedTensors)


def test_an_index_that_is_no_json_is_damaged(tmp_path, tensors):
    folder = write_shards(tmp_path / "set", tensors)
    (folder / "model.safetensors.index.json").write_text("[" * 100_000)
    refused(folder, "not JSON", DamagedTensors)


def test_files_beside_an_index_must_be_in_it(tmp_path, tensors):
    folder = write_shards(tmp_path / "set", tensors)
    write_safetensors(folder / "other.safetensors", {})
    refused(folder, "does not speak of other.safetensors")
    (folder / "second.safetensors.index.json").write_text("{}")
    refused(folder, "2 indices")


def test_a_missing_shard_is_damaged(tmp_path, tensors):
    folder = write_shards(tmp_path / "set", tensors)
    (folder / "model-00002-of-00003.safetensors").unlink()
    refused(folder, "not where it should be: the index says model-00002", DamagedTensors)


def test_a_tensor_in_two_files_is_refused(tmp_path, tensors):
    folder = write_shards(tmp_path / "set", tensors, index=False)
    write_safetensors(folder / "more.safetensors", {"step": tensors["step"]})
    refused(folder, "'step' stands in")


@pytest.mark.parametrize(
    "change", [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: bytes(len(data))]
)
def test_a_damaged_store_is_damaged(tmp_path, tensors, change):
    folder = write_zarr(tmp_path / "set", tensors, ocdbt=True)
    for damaged in ([folder / "manifest.ocdbt"], list((folder / "d").iterdir())):
        good = {path: path.read_bytes() for path in damaged}
        for path, data in good.items():
            path.write_bytes(change(data))
        assert leaves_or_none(folder) != expected(tensors)
        for path, data in good.items():
            path.write_bytes(data)
    assert leaves_or_none(folder) == expected(tensors)


def leaves_or_none(path):
    with contextlib.suppress(DamagedTensors):
        return list(read_leaves(path))


@pytest.mark.parametrize("size", [1, 100])
def test_a_chunk_of_another_length_is_damaged(tmp_path, size):
    folder = write_zarr(tmp_path / "set", {"w": np.ones((300, 300), np.float32)})
    chunk = folder / "w" / "c" / "0" / "0"
    chunk.write_bytes(chunk.read_bytes() + b"x" * size)
    refused(folder, "wrong length", DamagedTensors)
    chunk.write_bytes(b"x" * 1000)
    refused(folder, "wrong length", DamagedTensors)


def shards(shape, inner=LITTLE):
    settings = {"chunk_shape": shape, "codecs": inner, "index_codecs": [*LITTLE, {"name": "crc32c"}]}
    return [{"name": "sharding_indexed", "configuration": settings}]


@pytest.mark.parametrize(
    "fields",
    [
        {"zarr_format": 2},
        {"node_type": "thing"},
        {"data_type": "int4"},
        {"data_type": ["r16"]},
        {"shape": [-1]},
        {"shape": [2**60, 2**60]},
        {"shape": "8"},
        {"chunk_grid": {"name": "irregular"}},
        {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [0]}}},
        {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 2]}}},
        {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2**40]}}, "codecs": ZSTD},
        {"chunk_key_encoding": None, "codecs": None},
        {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2**40]}}, "codecs": shards([2])},
        {"codecs": shards([8], inner=shards([4]))},
        {"codecs": shards([0])},
        {"codecs": shards([2, 2])},
        {"codecs": shards(None)},
    ],
    ids=str,
)
def test_hostile_metadata_is_refused(tmp_path, fields):
    folder = write_zarr(tmp_path / "set", {"w": np.ones(8, np.float32)})
    path = folder / "w" / "zarr.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))
    with pytest.raises(Refused):
        read_leaves(folder)


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 100_000, " " * (2**20 + 1)])
def test_metadata_that_is_no_object_is_refused(tmp_path, text):
    folder = write_zarr(tmp_path / "set", {"w": np.ones(8, np.float32)})
    (folder / "w" / "zarr.json").write_text(text)
    refused(folder, "metadata", DamagedTensors)


def test_groups_hold_no_tensors(tmp_path, tensors):
    folder = write_zarr(tmp_path / "set", tensors)
    (folder / "zarr.json").write_text('{"zarr_format":3,"node_type":"group"}')
    (folder / "model" / "zarr.json").write_text('{"zarr_format":3,"node_type":"group"}')
    assert list(read_leaves(folder)) == expected(tensors)


def test_without_tensorstore_arrays_are_refused_and_files_are_read(tmp_path, tensors, monkeypatch):
    folder = write_zarr(tmp_path / "set", tensors)
    file = write_safetensors(tmp_path / "a.safetensors", tensors)
    monkeypatch.setitem(sys.modules, "tensorstore", None)
    refused(folder, "needs tensorstore.*extra 'train'")
    assert tensor_root(read_leaves(file)) == tensor_root(expected(tensors))
