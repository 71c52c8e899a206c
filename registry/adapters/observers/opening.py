"""Open files that a stage wrote, as hostile bytes: bounded, whole, of the columns that they must have.

Every fault of a file is a ``DoesNotHold`` that names it. What Parquet claims of itself is not trusted: what is counted
is what was read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from registry.core import canonical
from registry.core.canonical import Json
from registry.core.names import checked_path
from registry.errors import DoesNotHold, MalformedRecord, Refused

MAXIMUM_FILE_BYTES = 4 * 2**30
_ROWS_PER_BATCH = 512


def required(condition: bool, path: Path, complaint: str) -> None:
    """Raise ``DoesNotHold`` about ``path`` unless ``condition``."""
    if not condition:
        raise DoesNotHold(f"{path} {complaint}.", remedy="Restore it with 'dvc checkout', or run its stage again.")


def read_bytes(path: Path) -> bytes:
    """The bytes of a file that must be there and within bounds."""
    check_bounds(path)
    return path.read_bytes()


def read_json(path: Path) -> Mapping[str, Json]:
    """The canonical JSON object in a file."""
    try:
        value = canonical.decode(read_bytes(path).removesuffix(b"\n"))
    except MalformedRecord as error:
        raise DoesNotHold(f"{path} is damaged: {error.message}", remedy="Run its stage again.") from error
    required(isinstance(value, dict), path, "is no JSON object")
    return cast(Mapping[str, Json], value)


def inside(folder: Path, name: object) -> Path:
    """The path of ``name``, which must stay inside ``folder``."""
    try:
        return folder / checked_path(str(name))
    except Refused as error:
        raise DoesNotHold(f"A table in {folder} names a path that leaves it: {error.message}") from error


def rows_of(path: Path, columns: Mapping[str, type]) -> Iterator[dict[str, Any]]:
    """The rows of a Parquet file that has exactly ``columns``, read in batches; each value has the given type."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    check_bounds(path)
    try:
        with pq.ParquetFile(path) as file:
            required(set(file.schema_arrow.names) == set(columns), path, "has other columns than it must")
            for batch in file.iter_batches(batch_size=_ROWS_PER_BATCH):
                for row in batch.to_pylist():
                    typed = all(type(row[name]) is kind for name, kind in columns.items())
                    required(typed, path, "has a value of the wrong kind")
                    yield row
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise DoesNotHold(f"{path} is damaged: {error}.", remedy="Run its stage again.") from error


def check_bounds(path: Path) -> None:
    """Raise ``DoesNotHold`` unless ``path`` is a file within bounds."""
    required(path.is_file(), path, "is missing")
    required(path.stat().st_size <= MAXIMUM_FILE_BYTES, path, "is too large to be read")
