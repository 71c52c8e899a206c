"""Leaves, roots and proofs of ranges."""

import hashlib
import itertools
import json
import random

import pytest
from blake3 import blake3
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.core.digests import Digest
from registry.core.tensors import (
    CHUNK_BYTES,
    ITEM_BYTES,
    Chunker,
    ChunkList,
    Leaf,
    TensorSpec,
    chunk_digests,
    leaf_of,
    tensor_root,
)
from registry.errors import DoesNotHold, MalformedRecord, Refused

LONG = random.Random(7).randbytes(2 * CHUNK_BYTES + 12)
NAMES = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cf", "Cs", "Zl", "Zp")), min_size=1, max_size=20
)


def spec_of(data, *, name="model/w", dtype="uint8"):
    return TensorSpec(name=name, dtype=dtype, shape=(len(data) // ITEM_BYTES[dtype],))


def chunks_of(data):
    return ChunkList(spec=spec_of(data), digests=tuple(chunk_digests(data)))


def test_the_leaf_is_what_the_decision_page_says():
    data = LONG
    chunks = [data[start : start + CHUNK_BYTES] for start in range(0, len(data), CHUNK_BYTES)]
    listed = b"".join(blake3(chunk, derive_key_context="deadreckon tensor chunk 1").digest() for chunk in chunks)
    header = json.dumps(
        {
            "chunk_bytes": 1048576,
            "dtype": "float32",
            "kind": "tensor",
            "name": "model/w",
            "schema": 1,
            "shape": [524291],
        },
        separators=(",", ":"),
    ).encode()
    expected = blake3(
        len(header).to_bytes(8, "little") + header + listed, derive_key_context="deadreckon tensor leaf 1"
    )
    assert leaf_of(spec_of(data, dtype="float32"), data).digest.hex == expected.hexdigest()


def test_the_root_is_what_the_decision_page_says():
    leaves = [leaf_of(spec_of(b"1", name=name), b"1") for name in ("b", "a")]
    rows = ",".join(f'["{leaf.name}","uint8",[1],"{leaf.digest}"]' for leaf in reversed(leaves))
    text = f'{{"kind":"tensors","leaves":[{rows}],"schema":1}}'
    assert tensor_root(leaves) == Digest.parse("sha256:" + hashlib.sha256(text.encode()).hexdigest())


def test_known_answers_never_change():
    scalar = leaf_of(TensorSpec(name="step", dtype="int32", shape=()), (7).to_bytes(4, "little"))
    empty = leaf_of(TensorSpec(name="none", dtype="float32", shape=(0, 3)), b"")
    assert scalar.digest.hex == "86a4dc758d12214808fbefc1034e241df18bf90c48d5f241fe051dc5576809f0"
    assert empty.digest.hex == "6bfda82807d51b4bca7bc0f2ec8fc1a810236ab76684db90ba0a1baa3173d5d7"
    assert tensor_root([scalar, empty]).hex == "5bbc6be68472cf2437d41e64d87d890ee70532dd3b9701360a63ab07652f7453"


@given(st.permutations(["a", "b", "a/b", "é", "Z"]))
def test_the_root_does_not_depend_on_the_order_of_leaves(names):
    leaves = {name: leaf_of(spec_of(name.encode(), name=name), name.encode()) for name in names}
    assert tensor_root(leaves.values()) == tensor_root(leaves[name] for name in sorted(names))


@given(NAMES, st.binary(min_size=8, max_size=8))
def test_name_dtype_shape_and_bytes_each_change_the_leaf(name, data):
    first = leaf_of(TensorSpec(name=name, dtype="uint32", shape=(2,)), data)
    others = [
        leaf_of(TensorSpec(name=name + "_", dtype="uint32", shape=(2,)), data),
        leaf_of(TensorSpec(name=name, dtype="float32", shape=(2,)), data),
        leaf_of(TensorSpec(name=name, dtype="uint32", shape=(2, 1)), data),
        leaf_of(TensorSpec(name=name, dtype="uint32", shape=(2,)), bytes([data[0] ^ 1]) + data[1:]),
    ]
    assert len({first.digest, *(other.digest for other in others)}) == 5


@settings(max_examples=30)
@given(st.lists(st.integers(0, len(LONG)), max_size=6))
def test_pieces_of_any_length_give_the_same_chunks(cuts):
    chunker = Chunker()
    borders = [0, *sorted(cuts), len(LONG)]
    for start, stop in itertools.pairwise(borders):
        chunker.update(memoryview(LONG)[start:stop])
    assert chunker.finish() == chunk_digests(LONG)


@given(st.integers(0, len(LONG) - 1), st.integers(1, len(LONG)))
@settings(max_examples=30)
def test_a_range_is_proved_without_the_rest(start, length):
    chunks = chunks_of(LONG)
    stop = min(start + length, len(LONG))
    begin, end = chunks.covering(start, stop)
    assert begin <= start < stop <= end
    chunks.verify(begin, LONG[begin:end])


def test_a_changed_range_is_named():
    chunks = chunks_of(LONG)
    damaged = bytearray(LONG[CHUNK_BYTES:])
    damaged[CHUNK_BYTES + 3] ^= 4
    with pytest.raises(DoesNotHold, match=f"from byte {2 * CHUNK_BYTES}"):
        chunks.verify(CHUNK_BYTES, bytes(damaged))


@pytest.mark.parametrize(("start", "stop"), [(0, 0), (5, 4), (-1, 3), (0, len(LONG) + 1)])
def test_a_range_outside_of_the_tensor_is_refused(start, stop):
    with pytest.raises(Refused, match="no range"):
        chunks_of(LONG).covering(start, stop)


@pytest.mark.parametrize(("start", "stop"), [(1, CHUNK_BYTES), (0, 5), (CHUNK_BYTES, len(LONG) - 1)])
def test_bytes_that_do_not_lie_on_borders_are_refused(start, stop):
    with pytest.raises(Refused, match="borders"):
        chunks_of(LONG).verify(start, LONG[start:stop])


@pytest.mark.parametrize("digests", [(), (b"1" * 32,) * 2, (b"1" * 31,) * 3])
def test_a_list_of_chunks_of_another_length_is_refused(digests):
    with pytest.raises(MalformedRecord, match="3 chunks"):
        ChunkList(spec=spec_of(LONG), digests=digests)


def test_moving_bytes_between_header_and_chunks_is_no_collision():
    """The digest of a chunk, of a leaf's content and of plain bytes live in three domains."""
    data = bytes(range(32))
    assert chunk_digests(data)[0] != blake3(data).digest()
    leaf = leaf_of(spec_of(data), data)
    assert leaf.digest.hex != blake3(data, derive_key_context="deadreckon tensor chunk 1").hexdigest()


@pytest.mark.parametrize("name", ["", "a\nb", "a\x00", "\x1b[2J", "a\u202eb", "a\u200bb", "x" * 1025, "\ud800"])
def test_names_that_hide_something_are_refused(name):
    with pytest.raises(MalformedRecord):
        TensorSpec(name=name, dtype="uint8", shape=())


@pytest.mark.parametrize("dtype", ["", "int4", "uint4", "float4_e2m1fn", "object", "str", "F32", "<f4", "Float32"])
def test_unknown_dtypes_are_refused(dtype):
    with pytest.raises(MalformedRecord, match="dtype"):
        TensorSpec(name="a", dtype=dtype, shape=())


@pytest.mark.parametrize("shape", [(-1,), (True,), (1.0,), (2**53,), (2**52, 2), (1,) * 33, (0, 2**60)])
def test_impossible_shapes_are_refused(shape):
    with pytest.raises(MalformedRecord):
        TensorSpec(name="a", dtype="uint8", shape=shape)


def test_bytes_of_another_length_are_refused():
    with pytest.raises(MalformedRecord, match="needs 4"):
        leaf_of(TensorSpec(name="a", dtype="float32", shape=()), b"12345")


def test_a_name_twice_and_an_empty_set_are_refused():
    leaf = leaf_of(spec_of(b"1"), b"1")
    with pytest.raises(MalformedRecord, match="twice"):
        tensor_root([leaf, leaf_of(spec_of(b"2"), b"2")])
    with pytest.raises(MalformedRecord, match="without tensors"):
        tensor_root([])


def test_a_leaf_is_a_blake3_digest():
    with pytest.raises(MalformedRecord, match="BLAKE3"):
        Leaf(name="a", dtype="uint8", shape=(), digest=Digest.parse("sha256:" + "0" * 64))


def test_a_spec_counts_its_bytes_and_chunks():
    spec = TensorSpec(name="a", dtype="bfloat16", shape=(3, CHUNK_BYTES))
    assert (spec.item_bytes, spec.size_bytes, spec.chunk_count) == (2, 6 * CHUNK_BYTES, 6)
    assert leaf_of(TensorSpec(name="a", dtype="bool", shape=()), b"\1").spec.chunk_count == 1
