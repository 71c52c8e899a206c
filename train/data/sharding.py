"""Cut documents into shards, write them and the table of shards.

Within a domain and split, documents stand in the order of their ids, which is a random order that no package and no
clock can choose. The leading bits of the id say which shard a document falls into, so that one new document rewrites
one shard; a shard that gets no document is not written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pyarrow as pa

from registry.core.canonical import Json
from registry.core.contents import documents_content
from registry.core.digests import sha256
from registry.core.documents import Document, Split, shard_count, shard_of, split_of
from train.data.tables import write_documents, write_table
from train.settings import whole

TABLE = "shards.parquet"

_TEXT = ("path", "domain", "split", "sha256", "first_id", "last_id", "content")
_COUNTS = ("size_bytes", "rows", "text_bytes")
ROWS = pa.schema(
    [pa.field(name, pa.string(), nullable=False) for name in _TEXT]
    + [pa.field(name, pa.int64(), nullable=False) for name in _COUNTS]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The held-out share, and the mean size of a shard's text that is not exceeded, in bytes of UTF-8."""

    heldout_per_10000: int
    shard_bytes: int

    @classmethod
    def read(cls, settings: Mapping[str, Json]) -> Self:
        """Read the plan. Raises ``Refused`` when a setting is malformed."""
        return cls(
            heldout_per_10000=whole(settings, "heldout_per_10000"),
            shard_bytes=whole(settings, "shard_bytes", least=1),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """Documents that are written to one file, in their order."""

    domain: str
    split: Split
    number: int
    documents: tuple[Document, ...]

    @property
    def path(self) -> str:
        """The file's path in the folder of shards."""
        return f"{self.domain}/{self.split}-{self.number:05d}.parquet"


def cut(documents: Iterable[Document], plan: Plan) -> Iterator[Shard]:
    """The shards of ``documents``, by domain, split and number."""
    parts: dict[tuple[str, Split], list[Document]] = {}
    for document in sorted(documents, key=lambda one: one.id):
        parts.setdefault((document.domain, split_of(document.id, plan.heldout_per_10000)), []).append(document)
    for (domain, split), part in sorted(parts.items(), key=lambda item: item[0]):
        count = shard_count(sum(len(one.text.encode("utf-8")) for one in part), plan.shard_bytes)
        for number in range(count):
            chosen = tuple(one for one in part if shard_of(one.id, count) == number)
            if chosen:
                yield Shard(domain=domain, split=split, number=number, documents=chosen)


def write_shards(folder: Path, documents: Iterable[Document], plan: Plan) -> None:
    """Write all shards, then the table of them."""
    rows = [_written(folder, shard) for shard in cut(documents, plan)]
    write_table(folder / TABLE, pa.Table.from_pylist(rows, schema=ROWS))


def _written(folder: Path, shard: Shard) -> dict[str, object]:
    path = folder / shard.path
    path.parent.mkdir(exist_ok=True)
    data = write_documents(path, shard.documents)
    content = documents_content(shard.documents)
    return {
        "path": shard.path,
        "domain": shard.domain,
        "split": str(shard.split),
        "sha256": sha256(data).hex,
        "first_id": content.first,
        "last_id": content.last,
        "content": content.digest.hex,
        "size_bytes": len(data),
        "rows": content.documents,
        "text_bytes": content.text_bytes,
    }
