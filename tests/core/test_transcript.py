"""A transcript is read back bit for bit, compared step by step, and refuses what no run writes."""

from __future__ import annotations

import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.core import canonical, transcript
from registry.core.transcript import Line, Transcript
from registry.errors import DoesNotHold, MalformedRecord

WORDS = st.integers(min_value=0, max_value=2**32 - 1)


def lines(first: int, last: int, **changes: object) -> tuple[Line, ...]:
    return tuple(
        Line(step=step, loss=step * 7, gradient_norm=step * 3, order=f"{step:064x}", state=f"{step:016x}", **changes)
        for step in range(first, last + 1)
    )


def written(*values: Line) -> bytes:
    return b"".join(transcript.line(value) for value in values)


@given(
    step=st.integers(min_value=1, max_value=2**40), loss=WORDS, norm=WORDS, order=st.binary(min_size=32, max_size=32)
)
def test_a_line_is_canonical_json_and_is_read_back(step: int, loss: int, norm: int, order: bytes) -> None:
    value = Line(step=step, loss=loss, gradient_norm=norm, order=order.hex(), state="0123456789abcdef")
    data = transcript.line(value)
    assert transcript.parse(data).lines == (value,)
    assert canonical.encode(canonical.decode(data[:-1])) == data[:-1]


def test_a_torn_last_line_is_dropped_and_told() -> None:
    data = written(*lines(1, 3))
    read = transcript.parse(data + b'{"gradient_norm":"000')
    assert read.lines == lines(1, 3)
    assert read.torn
    assert not transcript.parse(data).torn
    assert transcript.parse(b"").lines == ()


@pytest.mark.parametrize(
    "data",
    [
        b"\n",
        b"{}\n",
        written(*lines(1, 1), *lines(3, 3)),
        written(*lines(2, 2), *lines(1, 1)),
        written(*lines(1, 1)).replace(b'"step":1', b'"step": 1'),
        written(*lines(1, 1)).replace(b'"step":1', b'"step":01'),
        written(*lines(1, 1)) + b"\n",
        written(*lines(1, 1)).replace(b"}\n", b',"more":1}\n'),
        b"\n" + written(*lines(1, 1)),
    ],
)
def test_what_no_run_writes_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedRecord, match="Line"):
        transcript.parse(data)


def test_values_out_of_range_are_refused() -> None:
    for changes in ({"loss": 2**32}, {"order": "00"}, {"state": "G" * 16}, {"step": 0}):
        value = {"step": 1, "loss": 0, "gradient_norm": 0, "order": "0" * 64, "state": "0" * 16, **changes}
        with pytest.raises(MalformedRecord):
            transcript.line(Line(**value))


def test_the_first_difference_is_named() -> None:
    left = Transcript(lines=lines(1, 10))
    altered = list(left.lines)
    altered[6] = Line(step=7, loss=0, gradient_norm=21, order=f"{7:064x}", state="f" * 16)
    found = transcript.compare(left, Transcript(lines=tuple(altered)))
    assert found.difference is not None
    assert found.difference.step == 7
    assert found.difference.fields == ("loss", "state")
    assert not found.equal


def test_only_shared_steps_are_compared_and_the_rest_is_counted() -> None:
    found = transcript.compare(Transcript(lines=lines(1, 10)), Transcript(lines=lines(8, 14)))
    assert (found.compared, found.only_left, found.only_right, found.difference) == (3, 7, 4, None)
    assert not found.equal
    assert transcript.compare(Transcript(lines=lines(1, 9)), Transcript(lines=lines(1, 9))).equal


def test_comparing_nothing_shows_nothing() -> None:
    assert not transcript.compare(Transcript(lines=()), Transcript(lines=())).equal
    assert transcript.compare(Transcript(lines=lines(1, 2)), Transcript(lines=lines(5, 6))).compared == 0


def test_segments_merge_without_gap_or_overlap() -> None:
    parts = [Transcript(lines=lines(1, 4)), Transcript(lines=lines(5, 9))]
    merged = transcript.merge(parts)
    assert (merged.first, merged.last) == (1, 9)
    assert merged.at(5) == lines(5, 5)[0]
    assert merged.at(10) is None
    for other in (lines(4, 9), lines(6, 9)):
        with pytest.raises(DoesNotHold, match="does not follow"):
            transcript.merge([parts[0], Transcript(lines=other)])


def test_the_order_chain_depends_on_every_batch_and_its_place() -> None:
    start = "0" * 64
    one = transcript.chain(transcript.chain(start, b"a", b"1"), b"b", b"2")
    assert one != transcript.chain(transcript.chain(start, b"b", b"2"), b"a", b"1")
    assert one != transcript.chain(transcript.chain(start, b"a1", b""), b"b", b"2")


def test_bits_are_those_of_a_32_bit_float() -> None:
    assert transcript.bits(1.0) == 0x3F800000
    assert transcript.number(0x3F800000) == 1.0
    assert transcript.bits(math.inf) == 0x7F800000
    assert math.isnan(transcript.number(transcript.bits(math.nan)))
    with pytest.raises(MalformedRecord):
        transcript.bits(1e300)


@pytest.mark.slow
def test_the_hero_sized_transcript_is_read_in_seconds() -> None:
    data = written(*lines(1, 100_000))
    began = time.process_time()
    assert transcript.parse(data).last == 100_000
    assert time.process_time() - began < 5
