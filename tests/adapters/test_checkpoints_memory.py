"""Hashing needs memory for a few blocks, not for the checkpoint. Measured in a process of its own."""

import os
import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import save_file
from support.containers import SHARDED, ZSTD, write_zarr

pytestmark = pytest.mark.slow

MEBIBYTE = 2**20
MEASURE = """
import resource, sys
from pathlib import Path
from registry.adapters.checkpoints import open_checkpoint
from registry.core.tensors import tensor_root

checkpoint = open_checkpoint(Path(sys.argv[1]))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
root = tensor_root(checkpoint.leaves(checkpoint.specs))
print(root, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.fixture(scope="module")
def tensors():
    """512 MiB, half of it in one tensor."""
    random = np.random.default_rng(0)
    shapes = [(384, 512, 342), *[(1024, 4096)] * 16]
    return {f"model/{number}": random.standard_normal(shape, np.float32) for number, shape in enumerate(shapes)}


def grown(path):
    """The root, and MiB by which hashing raised the peak. Arenas would measure the allocator, not what is held."""
    environment = os.environ | {"MALLOC_ARENA_MAX": "1"}
    ended = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path)], env=environment, capture_output=True, text=True, check=True
    )
    root, mebibytes = ended.stdout.split()
    return root, int(mebibytes)


def test_memory_is_bounded_by_a_few_blocks(tmp_path, tensors):
    assert sum(array.nbytes for array in tensors.values()) > 500 * MEBIBYTE
    save_file(tensors, tmp_path / "state.safetensors")
    expected, growth = grown(tmp_path / "state.safetensors")
    assert growth < 20
    for name, codecs in (("levanter", SHARDED), ("encoded", ZSTD)):
        folder = write_zarr(tmp_path / name, tensors, grid=quarters, codecs=codecs, ocdbt=True)
        root, growth = grown(folder)
        assert root == expected
        assert growth < 200, name


def quarters(shape):
    return (shape[0] // 4, *shape[1:])
