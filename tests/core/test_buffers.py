"""Buffers for bytes read from files."""

import ctypes
import gc
import mmap

import pytest

from registry.core.buffers import page_aligned
from registry.errors import MalformedRecord


@pytest.mark.parametrize("size_bytes", [1, 100, 2**20, 2**20 + 1])
def test_a_buffer_begins_with_a_page_and_is_zeroed(size_bytes):
    buffer = page_aligned(size_bytes)
    assert ctypes.addressof(ctypes.c_char.from_buffer(buffer)) % mmap.PAGESIZE == 0
    assert (buffer.nbytes, buffer.readonly, set(buffer)) == (size_bytes, False, {0})


def test_a_view_keeps_the_memory():
    view = page_aligned(4096)[4090:]
    gc.collect()
    view[:] = b"kept on"[:6]
    assert bytes(view) == b"kept o"


@pytest.mark.parametrize("size_bytes", [0, -1])
def test_a_buffer_of_nothing_is_refused(size_bytes):
    with pytest.raises(MalformedRecord, match="holds nothing"):
        page_aligned(size_bytes)
