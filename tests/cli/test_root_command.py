"""``reckon root``."""

import json

import numpy as np
import pytest
from support.containers import arrays, write_safetensors, write_zarr

from registry.adapters.checkpoints import read_leaves
from registry.core.tensors import tensor_root


@pytest.fixture
def file(tmp_path):
    return write_safetensors(tmp_path / "state.safetensors", arrays())


def test_the_root_is_printed_with_what_holds_it(reckon, file):
    ended = reckon("root", str(file))
    assert ended.status == 0
    lines = ended.stdout.splitlines()
    assert lines[0].split() == ["root", str(tensor_root(read_leaves(file)))]
    assert lines[1].startswith("holds  13 tensors, ")
    assert lines[1].endswith(" kB, in safetensors")


def test_json_tells_the_same_for_another_container(reckon, file, tmp_path):
    first = json.loads(reckon("root", str(file), "--json").stdout)
    folder = write_zarr(tmp_path / "checkpoint", arrays(), ocdbt=True)
    second = json.loads(reckon("root", str(folder), "--json").stdout)
    assert first == {
        "path": str(file),
        "root": str(tensor_root(read_leaves(file))),
        "container": "safetensors",
        "tensors": 13,
        "size_bytes": sum(array.nbytes for array in arrays().values()),
    }
    assert second == {**first, "path": str(folder), "container": "ocdbt"}


def test_leaves_are_listed_on_demand(reckon, file):
    ended = reckon("root", str(file), "--leaves")
    leaves = read_leaves(file)
    listed = [line.split() for line in ended.stdout.splitlines()]
    assert listed[listed.index(["tensor", "dtype", "shape", "leaf"]) + 1 :] == [
        [leaf.name, leaf.dtype, "x".join(map(str, leaf.shape)) or "scalar", str(leaf.digest)] for leaf in leaves
    ]
    facts = json.loads(reckon("root", str(file), "--leaves", "--json").stdout)
    assert facts["leaves"][0] == {
        "name": leaves[0].name,
        "dtype": leaves[0].dtype,
        "shape": list(leaves[0].shape),
        "digest": str(leaves[0].digest),
    }


def test_some_tensors_have_leaves_but_no_root(reckon, file):
    facts = json.loads(reckon("root", str(file), "--tensor", "model/layers/*", "--json").stdout)
    assert facts["root"] is None
    assert [leaf["name"] for leaf in facts["leaves"]] == ["model/layers/0/w", "model/layers/1/w"]
    assert facts["tensors"] == 2
    assert "root" not in reckon("root", str(file), "--tensor", "step").stdout


def mixed(path):
    path.mkdir()
    tensors = {"w": np.ones(3, np.float32)}
    write_zarr(path, tensors)
    write_safetensors(path / "w.safetensors", tensors)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: None, "does not exist"),
        (lambda path: path.mkdir(), "is empty"),
        (lambda path: path.write_bytes(b"\xff" * 64), "no safetensors file"),
        (lambda path: path.symlink_to("/dev/zero"), "not a regular file"),
        (mixed, "in safetensors and in zarr3"),
    ],
)
def test_what_has_no_root_is_refused_in_a_sentence(reckon, tmp_path, make, says):
    path = tmp_path / "thing"
    make(path)
    for options in ((), ("--json",)):
        ended = reckon("root", str(path), *options)
        assert ended.status == 2
        assert says in ended.stderr
        assert "Traceback" not in ended.stderr
    assert says in json.loads(ended.stdout)["error"]["message"]


def test_a_name_that_no_tensor_has_is_refused(reckon, file):
    ended = reckon("root", str(file), "--tensor", "nothing*")
    assert (ended.status, ended.stdout) == (2, "")
    assert "No tensor" in ended.stderr
