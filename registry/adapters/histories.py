"""Our own histories: ``history.parquet`` of a trained stage.

Columns: step (int64), metric (string), value (float64). Refuses files over a size limit, other columns and null values.
A file whose bytes are not those of the record is not read at all.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from registry.core.digests import Digest, sha256
from registry.core.history import History
from registry.core.names import checked_path
from registry.errors import DoesNotHold, MalformedRecord

_MAXIMUM_BYTES = 1 * 2**30
_COLUMNS = {"step": pa.int64(), "metric": pa.string(), "value": pa.float64()}


class ParquetHistories:
    """Histories in files under the repository ``root``."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, path: str, digest: Digest) -> History | None:
        """The history in a file; None when no file with the bytes of ``digest`` lies there."""
        file = self._root / checked_path(path)
        if not file.is_file() or file.stat().st_size > _MAXIMUM_BYTES:
            return None
        data = file.read_bytes()
        return _history(data, path) if sha256(data) == digest else None


def _history(data: bytes, path: str) -> History:
    try:
        table = pq.read_table(pa.BufferReader(data), columns=list(_COLUMNS))
        columns = [table.column(name).cast(kind).combine_chunks() for name, kind in _COLUMNS.items()]
    except (pa.ArrowException, OSError, KeyError) as error:
        raise _not_a_history(path, str(error)) from error
    if any(column.null_count for column in columns):
        raise _not_a_history(path, "a value is missing")
    steps, metrics, values = (column.to_pylist() for column in columns)
    try:
        return History.of(zip(steps, metrics, values, strict=True))
    except MalformedRecord as error:
        raise _not_a_history(path, error.message) from error


def _not_a_history(path: str, reason: str) -> DoesNotHold:
    return DoesNotHold(
        f"{path} is not a history: {reason.rstrip('.')}.",
        remedy="Its bytes are the recorded ones, so the stage wrote it so: run the stage again.",
    )
