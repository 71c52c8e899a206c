"""Every reader of a stranger's bytes, fed with damaged and invented ones: refused, or read as it was written."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.core import canonical, kinds, runlog, transcript
from registry.core.audit.walk import MOST_PARTS, walk
from registry.core.codec import name_of, record_bytes
from registry.core.digests import Digest, sha256
from registry.core.ledger import Ledger
from registry.core.lineage import Lineage
from registry.core.openings import Opening
from registry.core.records import Execution, Input, Outcome, Output, Product, Recipe, Revision
from registry.errors import DoesNotHold, MalformedRecord, ReckonError, UnknownName

GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("*/*.json"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**54), 2**54) | st.text(max_size=6) | st.just("sha256:" + "0" * 64),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
LINES = [
    transcript.line(transcript.Line(step=step, loss=step, gradient_norm=1, order="0" * 64, state="f" * 16))
    for step in range(5, 9)
]


def read(kind: str, data: bytes) -> object:
    return Opening.from_json(canonical.decode(data)) if kind == "opening" else kinds.read(kind, data)


def test_the_golden_records_are_read():
    assert len(GOLDEN) >= 6
    for path in GOLDEN:
        assert record_bytes(read((kinds.kind_in(path.parent.name) or ""), path.read_bytes())) == path.read_bytes()


@given(st.sampled_from(GOLDEN), st.integers(0, 10**6), st.binary(max_size=4))
def test_a_damaged_record_is_refused_or_another_record(path, at, junk):
    data = path.read_bytes()
    at %= len(data)
    damaged = data[:at] + junk + data[at + len(junk) :]
    try:
        record = read((kinds.kind_in(path.parent.name) or ""), damaged)
    except ReckonError:
        return
    assert record_bytes(record) == damaged


@given(st.sampled_from(GOLDEN), st.data())
def test_a_record_with_an_invented_field_is_refused_or_kept(path, data):
    value = canonical.decode(path.read_bytes())
    key = data.draw(st.sampled_from(sorted(value)) | st.text(max_size=5))
    value = {**value, key: data.draw(VALUES)}
    try:
        encoded = canonical.encode(value)
        record = read((kinds.kind_in(path.parent.name) or ""), encoded)
    except ReckonError:
        return
    assert record_bytes(record) == encoded


@given(st.lists(st.sampled_from(LINES) | st.binary(max_size=200), max_size=8), st.integers(0, 50))
def test_a_transcript_is_whole_or_refused(pieces, cut):
    data = b"".join(pieces)
    data = data[: len(data) - cut] if cut else data
    try:
        told = transcript.parse(data)
    except MalformedRecord:
        with pytest.raises(MalformedRecord):
            transcript.span(data)
        return
    assert b"".join(map(transcript.line, told.lines)) == data[: data.rfind(b"\n") + 1]
    if told.torn:
        with pytest.raises(MalformedRecord):
            transcript.span(data)
    else:
        assert transcript.span(data) == (None if told.first is None else (told.first, told.last))


STARTED = runlog.line(
    runlog.Started(
        stage="rung/a",
        attempt="20261130t120000z-00000001",
        time="2026-11-30T12:00:00.000000Z",
        pid=1,
        host="h",
        argv=(),
        settings={},
        determinism={},
        resumed=None,
        parent=None,
    )
)


@given(st.integers(0, 10**6), st.binary(max_size=5), st.binary(max_size=60))
def test_a_run_log_is_read_or_refused(at, junk, tail):
    at %= len(STARTED)
    data = STARTED[:at] + junk + STARTED[at + len(junk) :] + tail
    try:
        log = runlog.parse(data)
    except MalformedRecord:
        return
    assert b"".join(map(runlog.line, log.events)) == data[: data.rfind(b"\n") + 1]


@pytest.mark.parametrize(
    "data", [b"[" * 100_000, b'{"a":' * 50_000, b"[" * 34 + b"]" * 34, b"1" * 10_000, b"NaN", b"-0"]
)
def test_deep_and_odd_json_is_refused_at_once(data):
    started = time.process_time()
    with pytest.raises(MalformedRecord):
        canonical.decode(data)
    assert time.process_time() - started < 1


# Lineages that are not honest.


def stage(name: str, given: list[tuple[str, Digest]], made: Digest, number: int) -> list[tuple[str, Digest, bytes]]:
    """Records of a stage that was given outputs by name and digest, and made one."""
    recipe = Recipe(
        stage=name,
        command=(),
        config={},
        source=(),
        lock=sha256(b""),
        inputs=tuple(Input(name=one, path=f"artifacts/{one}", digest=digest) for one, digest in given),
        determinism={},
    )
    output = Output(name=name, path=f"artifacts/{name}", digest=made, size_bytes=0, files=1, contents={}, locator=None)
    product = Product(stage=name, recipe=name_of(recipe), outputs=(output,))
    execution = Execution(
        stage=name,
        attempt=f"20260101t000000z-{number:08x}",
        recipe=name_of(recipe),
        product=name_of(product),
        outcome=Outcome.COMPLETE,
        cause=None,
        steps=None,
        resumed=None,
        parent=None,
        revision=Revision(commit="c" * 40, tree="d" * 40, patch=None),
        host={},
        started=f"2026-01-01T00:00:00.{number:06}Z",
        ended=f"2026-01-01T00:00:00.{number:06}Z",
        environment=None,
        trackers=(),
        incidents=(),
        hypothesis=None,
    )
    return [(one.kind, name_of(one), record_bytes(one)) for one in (recipe, product, execution)]


def ledger_of(*stages: list[tuple[str, Digest, bytes]]) -> Ledger:
    return Ledger.build(record for one in stages for record in one)


def no_table(tree: Digest):
    raise UnknownName(f"There is no table {tree}.")


def walked(ledger: Ledger, name: str):
    product = ledger.head(name)[1].product
    return walk(ledger, Lineage(ledger, no_table), product)


def test_a_lineage_that_leads_to_itself_is_refused():
    one, two, three = (sha256(bytes([n])) for n in range(3))
    ledger = ledger_of(
        stage("a", [("c", three)], one, 1), stage("b", [("a", one)], two, 2), stage("c", [("b", two)], three, 3)
    )
    with pytest.raises(DoesNotHold, match="descends from itself"):
        walked(ledger, "a")


@pytest.mark.slow
def test_a_long_chain_costs_no_stack():
    digests = [sha256(b"%d" % n) for n in range(1500)]
    stages = [
        stage(f"s{n}", [(f"s{n - 1}", digests[n - 1])] if n else [], digest, n) for n, digest in enumerate(digests)
    ]
    assert len(walked(ledger_of(*stages), "s1499")) == 1500


@pytest.mark.slow
def test_work_grows_with_the_records_and_not_with_their_square():
    """Many products with one output of the same name and bytes, and a consumer that names it over and over."""

    def seconds(count: int) -> float:
        same = sha256(b"same")
        makers = [stage("a", [("x", sha256(b"%d" % n))], same, n) for n in range(count)]
        consumer = stage("b", [("a", same)] * min(count, MOST_PARTS), sha256(b"b"), count + 1)
        ledger = ledger_of(*makers, consumer)
        started = time.process_time()
        walked(ledger, "b")
        return time.process_time() - started

    seconds(50)
    assert seconds(1000) < 40 * (seconds(100) + 0.05)


def test_more_parts_than_any_stage_has_are_refused():
    given = [(f"s{n}", sha256(b"%d" % n)) for n in range(MOST_PARTS + 1)]
    with pytest.raises(MalformedRecord, match="more than any stage"):
        walked(ledger_of(stage("b", given, sha256(b"b"), 1)), "b")


@pytest.mark.parametrize("path", ["a/" * 600 + "b", "x" * 2000])
def test_paths_without_end_are_refused(path):
    records = stage("b", [], sha256(b"b"), 1)
    product = Product.from_json(canonical.decode(records[1][2]))
    odd = replace(product, outputs=(replace(product.outputs[0], path=path),))
    execution = replace(Execution.from_json(canonical.decode(records[2][2])), product=name_of(odd))
    forged = [(one.kind, name_of(one), record_bytes(one)) for one in (odd, execution)]
    with pytest.raises(MalformedRecord, match="characters"):
        walked(ledger_of(records[:1], forged), "b")
