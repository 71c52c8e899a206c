"""Read shards by way of their table: which files, are these their bytes, and the documents in them.

Refuses a table with a path that leaves its folder, a shard that is missing, and one whose bytes are not the recorded
ones. Bytes are hashed before they are parsed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from registry.core.digests import sha256
from registry.core.documents import Document, Split
from registry.core.names import checked_path
from registry.errors import DoesNotHold, Refused
from train.data.sharding import TABLE
from train.data.tables import read_documents, read_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardEntry:
    """One row of the table of shards, as far as reading needs it."""

    path: str
    domain: str
    split: Split
    sha256: str


def listed_shards(shards: Path, split: Split, domain: str | None = None) -> Sequence[ShardEntry]:
    """The shards of a split, of one domain or of all, in the order of the table. Raises ``DoesNotHold``."""
    if not (shards / TABLE).is_file():
        raise DoesNotHold(f"{shards} has no table of shards.", remedy="Run 'dvc repro shards'.")
    try:
        rows = [_entry(row) for row in read_rows(shards / TABLE)]
    except (KeyError, ValueError, Refused) as error:
        raise DoesNotHold(
            f"{shards / TABLE} is no table of shards: {error}.", remedy="Run 'dvc repro shards'."
        ) from error
    return [row for row in rows if row.split is split and domain in (None, row.domain)]


def _entry(row: Mapping[str, object]) -> ShardEntry:
    return ShardEntry(
        path=checked_path(str(row["path"])),
        domain=str(row["domain"]),
        split=Split(str(row["split"])),
        sha256=str(row["sha256"]),
    )


def verified_documents(shards: Path, entry: ShardEntry) -> Sequence[Document]:
    """The documents of one shard, its bytes checked first. Raises ``DoesNotHold``."""
    path = shards / entry.path
    if not path.is_file():
        raise DoesNotHold(f"The shard {entry.path} is missing.", remedy="Run 'dvc repro shards'.")
    if sha256(path.read_bytes()).hex != entry.sha256:
        raise DoesNotHold(
            f"The shard {entry.path} is not the one that its table names.", remedy="Run 'dvc repro shards'."
        )
    return list(read_documents(path))


def documents_of(shards: Path, split: Split) -> Iterator[Document]:
    """All documents of a split, over all domains, shard by shard."""
    for entry in listed_shards(shards, split):
        yield from verified_documents(shards, entry)
