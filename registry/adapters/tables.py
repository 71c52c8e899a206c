"""File tables and leaf tables as Parquet under ``manifests/``.

A table is named by what its rows add up to (tree digest, tensor root), not by its own bytes; reading one recomputes
that. Refuses tables over a size limit and rows that do not add up.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from registry.core.digests import Algorithm, Digest, FileEntry, tree_digest
from registry.core.tensors import Leaf, tensor_root
from registry.errors import DoesNotHold, MalformedRecord, ReckonError, UnknownName
from registry.keeping import keep_whole

T = TypeVar("T")
_MAXIMUM_BYTES = 512 * 2**20
_MAXIMUM_ROWS = 16 * 10**6
_TABLE = re.compile(r"([0-9a-f]{64})\.parquet")
_FILES = pa.schema([("path", pa.string()), ("size_bytes", pa.int64()), ("sha256", pa.string())])
_LEAVES = pa.schema([("name", pa.string()), ("dtype", pa.string()), ("shape", pa.string()), ("blake3", pa.string())])
_SCHEMAS = {"objects": _FILES, "tensors": _LEAVES}


class TableFolder:
    """Tables under ``<root>/objects/`` and ``<root>/tensors/``."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def put_files(self, entries: Sequence[FileEntry]) -> Digest:
        """Keep a file table; returns the tree digest."""
        rows = sorted(entries)
        columns = {
            "path": [row.path for row in rows],
            "size_bytes": [row.size_bytes for row in rows],
            "sha256": [row.digest.hex for row in rows],
        }
        return self._put("objects", tree_digest(rows), pa.table(columns, schema=_FILES))

    def get_files(self, tree: Digest) -> Sequence[FileEntry]:
        """The files of a tree, sorted by path."""
        return sorted(self._get("objects", tree, _entry, tree_digest))

    def put_leaves(self, leaves: Sequence[Leaf]) -> Digest:
        """Keep a leaf table; returns the tensor root."""
        rows = sorted(leaves, key=lambda leaf: leaf.name)
        columns = {
            "name": [row.name for row in rows],
            "dtype": [row.dtype for row in rows],
            "shape": [json.dumps(list(row.shape)) for row in rows],
            "blake3": [row.digest.hex for row in rows],
        }
        return self._put("tensors", tensor_root(rows), pa.table(columns, schema=_LEAVES))

    def get_leaves(self, root: Digest) -> Sequence[Leaf]:
        """The leaves of a tensor root, sorted by name."""
        return sorted(self._get("tensors", root, _leaf, tensor_root))

    def trees(self) -> Sequence[Digest]:
        """The trees that have a file table, sorted."""
        return self._names("objects")

    def roots(self) -> Sequence[Digest]:
        """The tensor roots that have a leaf table, sorted."""
        return self._names("tensors")

    def _names(self, kind: str) -> Sequence[Digest]:
        folder = self._root / kind
        matches = (_TABLE.fullmatch(entry.name) for entry in folder.iterdir()) if folder.is_dir() else ()
        return tuple(Digest(Algorithm.SHA256, hexes) for hexes in sorted(match[1] for match in matches if match))

    def _put(self, kind: str, digest: Digest, table: pa.Table) -> Digest:
        path = self._path(kind, digest)
        if not path.exists():
            buffer = io.BytesIO()
            pq.write_table(table, buffer, compression="zstd", version="2.6", store_schema=False)
            keep_whole(path, buffer.getvalue())
        return digest

    def _get(
        self, kind: str, digest: Digest, read: Callable[..., T], add_up: Callable[[Sequence[T]], Digest]
    ) -> list[T]:
        path = self._path(kind, digest)
        if not path.is_file():
            raise UnknownName(
                f"There is no table {kind}/{digest}.", remedy="Is 'manifests/' complete? See 'git status'."
            )
        remedy = f"Restore it: git checkout -- manifests/{kind}/{path.name}"
        try:
            rows = [read(*values) for values in _values(path, _SCHEMAS[kind])]
        except (pa.ArrowException, OSError, ValueError, TypeError, OverflowError, RecursionError, ReckonError) as error:
            raise DoesNotHold(f"The table {kind}/{digest} cannot be read: {error}.", remedy=remedy) from error
        if add_up(rows) != digest:
            raise DoesNotHold(f"The rows of the table {kind}/{digest} do not add up to its name.", remedy=remedy)
        return rows

    def _path(self, kind: str, digest: Digest) -> Path:
        return self._root / kind / f"{digest.hex}.parquet"


def _values(path: Path, schema: pa.Schema) -> Iterator[tuple[object, ...]]:
    """The rows of a table. Raises ``MalformedRecord`` for one of other columns or over a limit."""
    if path.stat().st_size > _MAXIMUM_BYTES:
        raise MalformedRecord(f"it is over {_MAXIMUM_BYTES} bytes")
    with pq.ParquetFile(path) as file:
        if file.metadata.num_rows > _MAXIMUM_ROWS:
            raise MalformedRecord(f"it has more than {_MAXIMUM_ROWS} rows")
        if not file.schema_arrow.equals(schema):
            raise MalformedRecord("it has other columns than such a table")
        for batch in file.iter_batches():
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _entry(path: str, size_bytes: int, hexes: str) -> FileEntry:
    return FileEntry(path=path, size_bytes=size_bytes, digest=Digest(Algorithm.SHA256, hexes))


def _leaf(name: str, dtype: str, shape: str, hexes: str) -> Leaf:
    return Leaf(name=name, dtype=dtype, shape=tuple(json.loads(shape)), digest=Digest(Algorithm.BLAKE3, hexes))
