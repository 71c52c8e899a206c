"""Tables by the column: the same answers as by the row, and hostile tables refused before they expand."""

from __future__ import annotations

import io
import tracemalloc

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.adapters.columns import TableColumns
from registry.adapters.tables import TableFolder
from registry.core.digests import Algorithm, Digest, FileEntry, sha256, tree_digest
from registry.core.resolving import digest_inside
from registry.core.tensors import Leaf, tensor_root
from registry.errors import DoesNotHold, ReckonError, UnknownName

PARTS = st.text(st.characters(codec="utf-8", exclude_characters="/\\\x7f", exclude_categories=("Cc", "Cs")), min_size=1)
PATHS = st.lists(PARTS.filter(lambda part: part not in (".", "..")), min_size=1, max_size=3).map("/".join)
ENTRIES = st.builds(
    FileEntry, path=PATHS, size_bytes=st.integers(0, 2**53 - 1), digest=st.binary(max_size=3).map(sha256)
)
TREES = st.lists(ENTRIES, max_size=40, unique_by=lambda entry: entry.path)


def columns(root) -> TableColumns:
    return TableColumns(lambda name: (root / name).read_bytes() if (root / name).is_file() else None)


@pytest.mark.slow
@given(TREES)
def test_rows_and_digest_are_those_of_the_entries(tmp_path_factory, tree):
    root = tmp_path_factory.mktemp("tables")
    digest = TableFolder(root).put_files(tree)
    rows = columns(root).files(digest)
    assert list(rows) == sorted(tree)
    assert rows.digest == digest == tree_digest(tree)
    assert rows.size_bytes == sum(entry.size_bytes for entry in tree)
    assert list(rows[1:4]) == sorted(tree)[1:4]
    assert list(rows[::2]) == sorted(tree)[::2]


@pytest.mark.slow
@given(TREES, st.data())
def test_parts_are_those_that_rows_give(tmp_path_factory, tree, data):
    root = tmp_path_factory.mktemp("tables")
    digest = TableFolder(root).put_files(tree)
    folders = {entry.path.rpartition("/")[0] for entry in tree} - {""}
    paths = sorted({*folders, *(entry.path for entry in tree), "absent", "a"})
    (surveyed,) = columns(root).survey({digest: paths}).values()
    assert (surveyed.files, surveyed.size_bytes) == (len(tree), sum(entry.size_bytes for entry in tree))
    assert surveyed.parts == {path: digest_inside(sorted(tree), path) for path in paths}


def leaf(number: int) -> Leaf:
    name = ["model/é", 'with "quotes"', "back\\slash", f"plain/{number}"][number % 4] + str(number)
    digest = Digest(Algorithm.BLAKE3, f"{number:064x}")
    return Leaf(name=name, dtype=["float32", "int8"][number % 2], shape=((), (2,), (3, 4))[number % 3], digest=digest)


@pytest.mark.parametrize("count", [1, 2, 30])
def test_leaves_are_counted_and_checked(tmp_path, count):
    leaves = [leaf(number) for number in range(count)]
    root = TableFolder(tmp_path).put_leaves(leaves)
    assert root == tensor_root(leaves)
    absent = sha256(b"absent")
    found = columns(tmp_path).count_leaves([root, absent])
    assert found[root] == count
    assert isinstance(found[absent], UnknownName)


GOOD = {"path": ["a", "b"], "size_bytes": [1, 2], "sha256": ["0" * 64, "1" * 64]}
LEAVES = {"name": ["a", "b"], "dtype": ["int8"] * 2, "shape": ["[2]"] * 2, "blake3": ["0" * 64] * 2}
HOSTILE = {
    "a path that leaves": {**GOOD, "path": ["../a", "b"]},
    "an absolute path": {**GOOD, "path": ["/a", "b"]},
    "an empty path": {**GOOD, "path": ["", "b"]},
    "an empty part": {**GOOD, "path": ["a//b", "b"]},
    "a dot": {**GOOD, "path": ["./a", "b"]},
    "a backslash": {**GOOD, "path": ["a\\b", "b"]},
    "a control character": {**GOOD, "path": ["a\n", "b"]},
    "a path twice": {**GOOD, "path": ["a", "a"]},
    "unsorted paths": {**GOOD, "path": ["b", "a"]},
    "a negative size": {**GOOD, "size_bytes": [-1, 2]},
    "a size beyond sense": {**GOOD, "size_bytes": [2**60, 2]},
    "a short digest": {**GOOD, "sha256": ["0" * 63, "1" * 64]},
    "an upper-case digest": {**GOOD, "sha256": ["A" * 64, "1" * 64]},
    "a null": {**GOOD, "path": [None, "b"]},
    "another column": {**GOOD, "other": [1, 2]},
    "a missing column": {"path": ["a"], "size_bytes": [1]},
    "numbers for paths": {**GOOD, "path": [1, 2]},
    "other rows": GOOD,
}
HOSTILE_LEAVES = {
    "an unknown dtype": {**LEAVES, "dtype": ["float7", "int8"]},
    "a shape that is none": {**LEAVES, "shape": ["[2", "[2]"]},
    "a negative shape": {**LEAVES, "shape": ["[-2]", "[2]"]},
    "a hidden name": {**LEAVES, "name": ["a\u202e", "b"]},
    "an empty name": {**LEAVES, "name": ["", "b"]},
    "unsorted names": {**LEAVES, "name": ["b", "a"]},
    "other rows": LEAVES,
    "no rows": {name: pa.array([], pa.string()) for name in LEAVES},
}


def parquet(table: dict, **options) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table(table), buffer, **options)
    return buffer.getvalue()


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_file_table_is_refused(what):
    data = parquet(HOSTILE[what])
    with pytest.raises(DoesNotHold):
        TableColumns(lambda _: data).files(sha256(b"any"))


@pytest.mark.parametrize("what", HOSTILE_LEAVES)
def test_a_hostile_leaf_table_is_refused(what):
    data = parquet(HOSTILE_LEAVES[what])
    with pytest.raises(ReckonError):
        TableColumns(lambda _: data).leaves(sha256(b"any"))


def test_a_few_kilobytes_cannot_become_gigabytes():
    """One long text in a dictionary, spoken of a hundred thousand times: 10 GB if it were expanded."""
    count = 100_000
    table = {"path": ["x" * 100_000] * count, "size_bytes": [1] * count, "sha256": ["0" * 64] * count}
    long = pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array(["x" * 100_000]))
    data = parquet({**table, "path": long}, compression="zstd")
    assert len(data) < 200_000
    tracemalloc.start()
    before = pa.total_allocated_bytes()
    with pytest.raises(DoesNotHold, match="too long"):
        TableColumns(lambda _: data).files(sha256(b"any"))
    assert pa.total_allocated_bytes() - before < 50_000_000
    tracemalloc.stop()


@given(st.integers(0, 10**6), st.binary(min_size=1, max_size=8))
def test_a_damaged_table_never_does_more_than_be_refused(at, junk):
    data = parquet(GOOD)
    at %= len(data)
    damaged = data[:at] + junk + data[at + len(junk) :]
    try:
        rows = TableColumns(lambda _: damaged).files(Digest(Algorithm.SHA256, TREE))
    except ReckonError:
        return
    assert list(rows) == list(TableColumns(lambda _: data).files(Digest(Algorithm.SHA256, TREE)))


TREE = tree_digest(
    [
        FileEntry(path=path, size_bytes=size, digest=Digest(Algorithm.SHA256, digest))
        for path, size, digest in zip(*GOOD.values(), strict=True)
    ]
).hex


def test_few_tables_are_kept_in_memory(tmp_path):
    """The hundredth table does not push memory up; one that is asked for again is still right."""
    store, found = TableFolder(tmp_path), columns(tmp_path)
    trees = [
        store.put_files([FileEntry(path=f"{n}/{k}", size_bytes=k, digest=sha256(b"x")) for k in range(9)])
        for n in range(20)
    ]
    for tree in [*trees, *trees]:
        assert found.files(tree).digest == tree
    assert len(found._kept) <= 4
