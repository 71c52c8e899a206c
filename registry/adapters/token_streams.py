"""Columns of Parquet tables, and ranges of the token streams that sequences are cut from.

Both are hostile bytes. Tables come as bytes whose digest was checked; here their columns, types and numbers of rows
are. Tokens are read where the caches lie in the working tree, without Levanter: a stream is one zarr3 array. Whether
they are the recorded ones is for the caller to prove. Refuses ranges beyond the end of a stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from registry.core.documents import Split
from registry.core.names import checked_path
from registry.errors import DoesNotHold

MOST_ROWS: Final = 50_000_000
_MOST_BYTES: Final = 4 * 2**30
_CACHE_BYTES: Final = 256 * 2**20
_REMEDY: Final = "Bring the recorded bytes back with 'dvc checkout' or 'dvc pull'."


def read_columns(data: bytes, columns: Mapping[str, type], what: str) -> dict[str, Sequence[Any]]:
    """The named columns of a Parquet file, whole. ``what`` names the file in complaints.

    Raises ``DoesNotHold`` for a file without these columns, with other types in them, gaps, or too many rows.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {str: pa.types.is_string, int: pa.types.is_integer}
    try:
        with pq.ParquetFile(pa.BufferReader(data)) as file:
            groups = [file.metadata.row_group(at) for at in range(file.metadata.num_row_groups)]
            if file.metadata.num_rows > MOST_ROWS or sum(one.total_byte_size for one in groups) > _MOST_BYTES:
                raise DoesNotHold(f"{what} is too large to be read.")
            table = file.read(columns=list(columns), use_threads=False)
        typed = table.column_names == list(columns) and all(
            kinds[kind](table.column(name).type) and table.column(name).null_count == 0
            for name, kind in columns.items()
        )
        if not typed:
            raise DoesNotHold(f"{what} has other columns than it must.", remedy="Run its stage again.")
        return {name: table.column(name).to_pylist() for name in columns}
    except (pa.ArrowException, OSError, ValueError, KeyError, UnicodeDecodeError) as error:
        raise DoesNotHold(f"{what} is damaged: {error}.", remedy=_REMEDY) from error


class TokenStreams:
    """The token caches of the working tree at ``root``."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._open: dict[Path, Any] = {}

    def read(self, path: str, split: Split, ranges: Sequence[range]) -> list[bytes]:
        """The tokens of each range as little-endian int32. ``path`` is that of the caches' output.

        Raises ``DoesNotHold`` where no stream lies there, it is no stream of int32, or a range leaves it.
        """
        folder = self._root / checked_path(path) / split / "input_ids"
        try:
            stream = self._stream(folder)
            asked = [stream[one.start : one.stop].read() for one in ranges]
            return [one.result().astype("<i4").tobytes() for one in asked]
        except (ValueError, FileNotFoundError, MemoryError, IndexError) as error:
            words = str(error).partition(" [source")[0]
            raise DoesNotHold(f"The token cache {path} cannot be read: {words}.", remedy=_REMEDY) from error

    def _stream(self, folder: Path) -> Any:
        """The array of all tokens, cut to the end of the last document."""
        if folder not in self._open:
            offsets, data = (_opened(folder / name) for name in ("offsets", "data"))
            documents = int(offsets[0].read().result())
            length = int(offsets[documents].read().result()) if documents else 0
            if data.dtype.name != "int32":
                raise ValueError("it holds no tokens")
            self._open[folder] = data[:length]
        return self._open[folder]


def _opened(path: Path) -> Any:
    import tensorstore

    spec = {
        "driver": "zarr3",
        "kvstore": {"driver": "file", "path": str(path.absolute())},
        "context": {"cache_pool": {"total_bytes_limit": _CACHE_BYTES}},
    }
    return tensorstore.open(spec, open=True, read=True).result()
