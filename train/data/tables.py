"""Parquet files with the same bytes on every run: documents of a shard, the table of shards, documents of a cache.

Compression, encodings, row groups and statistics are fixed here, and the writer stores neither a clock nor the schema
of another library. Refuses to read a file with other columns.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from registry.core.documents import COLUMNS, Document
from registry.errors import DoesNotHold
from train.files import write_whole

COMPRESSION_LEVEL = 3
DOCUMENTS_PER_ROW_GROUP = 512

DOCUMENTS = pa.schema([pa.field(name, pa.string(), nullable=False) for name in COLUMNS])
_REPEATED = ("source", "version", "licence", "domain")


def write_documents(path: Path, documents: Sequence[Document]) -> bytes:
    """Write one shard; returns the bytes that the file has."""
    columns = {name: [getattr(document, name) for document in documents] for name in COLUMNS}
    table = pa.table(columns, schema=DOCUMENTS)
    return write_table(path, table, rows_per_group=DOCUMENTS_PER_ROW_GROUP, repeated=_REPEATED)


def write_table(path: Path, table: pa.Table, *, rows_per_group: int = 65_536, repeated: Sequence[str] = ()) -> bytes:
    """Write ``table``; ``repeated`` names the columns worth a dictionary. Returns the bytes that the file has."""
    sink = io.BytesIO()
    pq.write_table(
        table,
        sink,
        row_group_size=rows_per_group,
        compression="zstd",
        compression_level=COMPRESSION_LEVEL,
        use_dictionary=list(repeated),
        version="2.6",
        data_page_version="1.0",
        store_schema=False,
    )
    data = sink.getvalue()
    write_whole(path, data)
    return data


def read_documents(path: Path) -> Iterator[Document]:
    """The documents of a shard in their order, read in batches; each text is checked against its id.

    Raises ``DoesNotHold`` when the file is no Parquet file of documents.
    """
    try:
        with pq.ParquetFile(path) as file:
            if tuple(file.schema_arrow.names) != COLUMNS:
                raise DoesNotHold(f"{path} has the columns {', '.join(file.schema_arrow.names)}; it is no shard.")
            for batch in file.iter_batches(batch_size=DOCUMENTS_PER_ROW_GROUP):
                yield from (Document(**row) for row in batch.to_pylist())
    except (pa.ArrowException, TypeError) as error:
        raise DoesNotHold(f"{path} is damaged: {error}.", remedy="Run the stage 'shards' again.") from error


def read_rows(path: Path) -> list[Mapping[str, object]]:
    """All rows of a small table. Raises ``DoesNotHold`` when the file is damaged."""
    try:
        rows: list[Mapping[str, object]] = pq.read_table(path).to_pylist()
    except pa.ArrowException as error:
        raise DoesNotHold(f"{path} is damaged: {error}.", remedy="Run the stage that writes it again.") from error
    return rows
