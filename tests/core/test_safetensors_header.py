"""The safetensors header, against the library's writer and against hostile bytes."""

import contextlib
import json

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from safetensors.numpy import save

from registry.core.safetensors import LONGEST_HEADER, header_bytes, parse_header
from registry.errors import MalformedRecord

GOOD = {
    "a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]},
    "b": {"dtype": "F32", "shape": [], "data_offsets": [2, 6]},
}


def parse(fields, data_bytes=6):
    header = fields if isinstance(fields, bytes) else json.dumps(fields).encode()
    return parse_header(header, 8 + len(header) + data_bytes)


def changed(**fields):
    return {**GOOD, "b": {**GOOD["b"], **fields}}


@given(
    st.dictionaries(
        st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1),
        st.tuples(st.sampled_from(["uint8", "float32", "bool", "int64"]), st.lists(st.integers(0, 3), max_size=3)),
        min_size=1,
    )
)
def test_what_the_library_writes_is_read(tensors):
    arrays = {name: np.ones(shape, dtype) for name, (dtype, shape) in tensors.items()}
    data = save(arrays, metadata={"format": "np"})
    length = header_bytes(data[:8], len(data))
    header = parse_header(data[8 : 8 + length], len(data))
    assert header.metadata == {"format": "np"}
    assert {one.spec.name: (one.spec.dtype, list(one.spec.shape)) for one in header.tensors} == tensors
    for one in header.tensors:
        assert data[one.start_byte : one.stop_byte] == arrays[one.spec.name].tobytes()


def test_tensors_come_in_the_order_of_their_bytes():
    assert [one.spec.name for one in parse(dict(reversed(GOOD.items()))).tensors] == ["a", "b"]


def test_an_empty_tensor_may_lie_between_others():
    header = parse({**GOOD, "c": {"dtype": "F64", "shape": [0], "data_offsets": [2, 2]}})
    assert [one.spec.name for one in header.tensors] == ["a", "c", "b"]


def test_trailing_blanks_pad_a_header():
    assert len(parse(json.dumps(GOOD).encode() + b"   ").tensors) == 2


@pytest.mark.parametrize(
    "fields",
    [
        changed(data_offsets=[1, 5]),
        changed(data_offsets=[3, 7]),
        changed(data_offsets=[2, 5]),
        changed(data_offsets=[-2, 2]),
        changed(data_offsets=[2]),
        changed(data_offsets=[2.0, 6]),
        changed(data_offsets="26"),
        changed(shape=[-1]),
        changed(shape=[True]),
        changed(shape=[2**62, 2**62]),
        changed(shape={}),
        changed(dtype="F4"),
        changed(dtype="OBJ"),
        changed(dtype=["F32"]),
        changed(more=1),
        {**GOOD, "b": {"dtype": "F32", "shape": []}},
        {**GOOD, "b": None},
        {**GOOD, "b\n": GOOD["b"]},
        {**GOOD, "__metadata__": {"a": 1}},
        {**GOOD, "__metadata__": []},
        [GOOD],
        b"",
        b"{",
        b"nul",
        b'\xff{"a":1}',
        b" " + json.dumps(GOOD).encode(),
        json.dumps(GOOD).replace('"b"', '"a"').encode(),
        b'{"a":' + b"[" * 100_000,
        b'{"a":' + b"1" * 5000 + b"}",
    ],
    ids=lambda fields: repr(fields)[-40:],
)
def test_a_hostile_header_is_refused(fields):
    with pytest.raises(MalformedRecord):
        parse(fields)


@pytest.mark.parametrize("data_bytes", [0, 5, 7])
def test_a_file_of_another_length_is_refused(data_bytes):
    with pytest.raises(MalformedRecord, match="cut or padded"):
        parse(GOOD, data_bytes)


@pytest.mark.parametrize(
    ("prefix", "file_bytes"),
    [
        (b"", 0),
        (b"1234567", 7),
        ((1).to_bytes(8, "little"), 8),
        ((2**64 - 1).to_bytes(8, "little"), 2**40),
        ((LONGEST_HEADER + 1).to_bytes(8, "little"), 2**40),
    ],
)
def test_a_length_beyond_the_file_or_sense_is_refused(prefix, file_bytes):
    with pytest.raises(MalformedRecord):
        header_bytes(prefix, file_bytes)


@given(st.binary(max_size=200), st.integers(0, 300))
@example(b"{}", 0)
def test_any_bytes_are_read_or_refused(header, data_bytes):
    try:
        read = parse_header(header, 8 + len(header) + data_bytes)
    except MalformedRecord:
        return
    assert sum(one.spec.size_bytes for one in read.tensors) == data_bytes


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["dtype", "shape", "data_offsets", "a"]), inner, max_size=4)
        ),
        max_leaves=12,
    )
)
def test_any_json_is_read_or_refused(value):
    with contextlib.suppress(MalformedRecord):
        parse({"a": value}, 0)
