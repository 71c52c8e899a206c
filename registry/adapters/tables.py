"""File tables and leaf tables as Parquet under ``manifests/``.

A table is named by what its rows add up to (tree digest, tensor root), not by its own bytes; reading one recomputes
that. Refuses tables over a size limit and rows that do not add up.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from registry.core.digests import Algorithm, Digest, FileEntry, tree_digest
from registry.core.tensors import Leaf, tensor_root
from registry.errors import DoesNotHold, UnknownName
from registry.keeping import keep_whole

T = TypeVar("T")
_MAXIMUM_BYTES = 512 * 2**20
_TABLE = re.compile(r"([0-9a-f]{64})\.parquet")
_FILES = pa.schema([("path", pa.string()), ("size_bytes", pa.int64()), ("sha256", pa.string())])
_LEAVES = pa.schema([("name", pa.string()), ("dtype", pa.string()), ("shape", pa.string()), ("blake3", pa.string())])


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
        self,
        kind: str,
        digest: Digest,
        read: Callable[[Mapping[str, object]], T],
        add_up: Callable[[Sequence[T]], Digest],
    ) -> Sequence[T]:
        path = self._path(kind, digest)
        if not path.is_file():
            raise UnknownName(
                f"There is no table {kind}/{digest}.", remedy="Is 'manifests/' complete? See 'git status'."
            )
        remedy = f"Restore it: git checkout -- manifests/{kind}/{path.name}"
        if path.stat().st_size > _MAXIMUM_BYTES:
            raise DoesNotHold(f"The table {kind}/{digest} is over {_MAXIMUM_BYTES} bytes.", remedy=remedy)
        try:
            rows = [read(row) for row in pq.read_table(path).to_pylist()]
        except (pa.ArrowException, OSError, KeyError, ValueError, TypeError) as error:
            raise DoesNotHold(f"The table {kind}/{digest} cannot be read: {error}.", remedy=remedy) from error
        if add_up(rows) != digest:
            raise DoesNotHold(f"The rows of the table {kind}/{digest} do not add up to its name.", remedy=remedy)
        return rows

    def _path(self, kind: str, digest: Digest) -> Path:
        return self._root / kind / f"{digest.hex}.parquet"


def _entry(row: Mapping[str, object]) -> FileEntry:
    return FileEntry(
        path=str(row["path"]), size_bytes=int(str(row["size_bytes"])), digest=Digest.parse(f"sha256:{row['sha256']}")
    )


def _leaf(row: Mapping[str, object]) -> Leaf:
    shape = json.loads(str(row["shape"]))
    return Leaf(
        name=str(row["name"]),
        dtype=str(row["dtype"]),
        shape=tuple(shape),
        digest=Digest.parse(f"blake3:{row['blake3']}"),
    )
