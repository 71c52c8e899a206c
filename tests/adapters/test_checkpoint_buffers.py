"""Where a safetensors file is read to in memory."""

import ctypes
import mmap

import numpy as np
import pytest
from support.containers import write_safetensors

from registry.adapters.checkpoints import open_checkpoint, read_leaves
from registry.core.tensors import leaf_of

ODD = np.arange(5, dtype=np.uint8)
LARGE = np.random.default_rng(3).integers(0, 256, 9 * 2**20 + 3, dtype=np.uint8)


@pytest.mark.parametrize("before", [0, 1, 3, 5])
def test_bytes_are_read_to_the_place_in_a_page_that_they_have_in_the_file(tmp_path, before):
    tensors = {"a": ODD[:before], "b": LARGE}
    path = tmp_path / "model.safetensors"
    write_safetensors(path, tensors)
    source = open_checkpoint(path).source
    start = source.places["b"][1].start_byte
    for part in source.parts(source.places["b"][1].spec):
        for at, piece in source.pieces(part):
            address = ctypes.addressof(ctypes.c_char.from_buffer(piece))
            assert (address - start - at) % mmap.PAGESIZE == 0
            assert piece == LARGE[at : at + len(piece)].data
    assert read_leaves(path) == tuple(
        leaf_of(source.places[name][1].spec, array.tobytes()) for name, array in sorted(tensors.items())
    )
