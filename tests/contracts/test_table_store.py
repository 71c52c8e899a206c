"""Table stores: rows are returned sorted, and only if they add up to their name. Fake and folder alike."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes.stores import MemoryTables
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from registry.adapters.tables import TableFolder
from registry.core.digests import Algorithm, Digest, FileEntry, sha256, tree_digest
from registry.core.tensors import Leaf, tensor_root
from registry.errors import DoesNotHold, MalformedRecord, ReckonError, UnknownName
from registry.ports import TableStore

ENTRIES = [
    FileEntry(path=path, size_bytes=size, digest=sha256(path.encode())) for path, size in (("b/é", 2**40), ("a", 0))
]
LEAVES = [
    Leaf(name="model/b", dtype="bfloat16", shape=(2, 3), digest=Digest(Algorithm.BLAKE3, "1" * 64)),
    Leaf(name="model/a", dtype="int32", shape=(), digest=Digest(Algorithm.BLAKE3, "2" * 64)),
]
PATHS = st.lists(st.text("abß/.", min_size=1, max_size=5), unique=True, max_size=8)


@pytest.fixture(params=["fake", "folder"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> TableStore:
    return MemoryTables() if request.param == "fake" else TableFolder(tmp_path)


def test_files_are_returned_sorted_by_path(store: TableStore) -> None:
    tree = store.put_files(ENTRIES)
    assert tree == tree_digest(ENTRIES)
    assert list(store.get_files(tree)) == [ENTRIES[1], ENTRIES[0]]
    assert list(store.trees()) == [tree]


def test_leaves_are_returned_sorted_by_name(store: TableStore) -> None:
    root = store.put_leaves(LEAVES)
    assert root == tensor_root(LEAVES)
    assert list(store.get_leaves(root)) == [LEAVES[1], LEAVES[0]]
    assert list(store.roots()) == [root]


def test_the_order_of_rows_does_not_count(store: TableStore) -> None:
    assert store.put_files(ENTRIES) == store.put_files(ENTRIES[::-1])
    assert store.put_leaves(LEAVES) == store.put_leaves(LEAVES[::-1])
    assert len(store.trees()) == len(store.roots()) == 1


def test_what_is_absent_is_unknown(store: TableStore) -> None:
    assert list(store.trees()) == list(store.roots()) == []
    with pytest.raises(UnknownName):
        store.get_files(sha256(b""))
    with pytest.raises(UnknownName):
        store.get_leaves(sha256(b""))


def test_an_empty_tree_has_a_table(store: TableStore) -> None:
    assert list(store.get_files(store.put_files([]))) == []


def test_a_path_stands_once(store: TableStore) -> None:
    with pytest.raises(MalformedRecord):
        store.put_files([ENTRIES[0], ENTRIES[0]])
    assert list(store.trees()) == []


@given(PATHS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
def test_any_tree_is_read_back(store: TableStore, paths: list[str]) -> None:
    entries = []
    for path in paths:
        try:
            entries.append(FileEntry(path=path, size_bytes=len(path), digest=sha256(path.encode())))
        except ReckonError:
            continue  # A path that no tree may hold.
    assert list(store.get_files(store.put_files(entries))) == sorted(entries)


class TestTampered:
    """Tables on disk are hostile: whatever stands there, what is returned adds up to the name."""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> TableFolder:
        return TableFolder(tmp_path)

    def put(self, folder: TableFolder, entries: list[FileEntry], root: Path) -> tuple[Digest, Path]:
        tree = folder.put_files(entries)
        return tree, root / f"objects/{tree.hex}.parquet"

    def test_every_flipped_byte_is_found(self, folder: TableFolder, tmp_path: Path) -> None:
        """Or it changes nothing that the table says: Parquet has bytes that no reader looks at."""
        tree, path = self.put(folder, ENTRIES, tmp_path)
        data = path.read_bytes()
        found = 0
        for at in range(0, len(data), 7):
            path.write_bytes(data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :])
            try:
                assert list(folder.get_files(tree)) == sorted(ENTRIES)
            except DoesNotHold:
                found += 1
        assert found > len(data) // 7 // 4

    def test_a_table_under_another_name_does_not_add_up(self, folder: TableFolder, tmp_path: Path) -> None:
        _, path = self.put(folder, ENTRIES, tmp_path)
        other = sha256(b"other")
        path.rename(path.with_name(f"{other.hex}.parquet"))
        with pytest.raises(DoesNotHold, match="do not add up"):
            folder.get_files(other)

    @pytest.mark.parametrize("data", [b"", b"PAR1", b"not parquet at all", b"PAR1" + b"\0" * 64 + b"PAR1"])
    def test_what_is_no_table_cannot_be_read(self, folder: TableFolder, tmp_path: Path, data: bytes) -> None:
        tree, path = self.put(folder, ENTRIES, tmp_path)
        path.write_bytes(data)
        with pytest.raises(DoesNotHold, match="cannot be read"):
            folder.get_files(tree)

    def test_a_table_of_other_columns_cannot_be_read(self, folder: TableFolder, tmp_path: Path) -> None:
        tree, path = self.put(folder, ENTRIES, tmp_path)
        root = folder.put_leaves(LEAVES)
        path.write_bytes((tmp_path / f"tensors/{root.hex}.parquet").read_bytes())
        with pytest.raises(DoesNotHold, match="cannot be read"):
            folder.get_files(tree)

    def test_a_path_out_of_the_tree_is_refused(self, folder: TableFolder, tmp_path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = tmp_path / f"objects/{sha256(b'x').hex}.parquet"
        path.parent.mkdir()
        pq.write_table(pa.table({"path": ["../x"], "size_bytes": [1], "sha256": ["0" * 64]}), path)
        with pytest.raises(DoesNotHold):
            folder.get_files(sha256(b"x"))

    def test_a_table_that_unpacks_to_far_more_is_refused(
        self, folder: TableFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from registry.adapters import tables

        tree, _ = self.put(folder, ENTRIES, tmp_path)
        monkeypatch.setattr(tables, "_MAXIMUM_ROWS", 1)
        with pytest.raises(DoesNotHold, match="rows"):
            folder.get_files(tree)

    def test_tables_are_deterministic(self, tmp_path: Path) -> None:
        first, second = TableFolder(tmp_path / "a"), TableFolder(tmp_path / "b")
        tree, root = first.put_files(ENTRIES), first.put_leaves(LEAVES)
        second.put_files(ENTRIES[::-1])
        second.put_leaves(LEAVES[::-1])
        for path in (f"objects/{tree.hex}.parquet", f"tensors/{root.hex}.parquet"):
            assert (tmp_path / "a" / path).read_bytes() == (tmp_path / "b" / path).read_bytes()

    def test_temporary_files_do_not_count(self, folder: TableFolder, tmp_path: Path) -> None:
        tree, path = self.put(folder, ENTRIES, tmp_path)
        (path.parent / f".{path.name}.0a1b2c3d.tmp").write_bytes(b"half")
        assert list(folder.trees()) == [tree]
