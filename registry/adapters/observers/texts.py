"""The corpus and the shards, read back: pinned wheels by their hashes, documents by their texts.

Refuses a wheel or shard that is not the one in its list, a file that no list names, a document that stands twice or out
of order, and counts that are not those of the bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from registry.adapters.observers.opening import inside, read_bytes, read_json, required, rows_of
from registry.core.canonical import Json
from registry.core.contents import DocumentsContent
from registry.core.digests import record_digest, sha256
from registry.core.documents import COLUMNS, Document
from registry.errors import DoesNotHold, MalformedRecord

_SHARD_COLUMNS: dict[str, type] = dict.fromkeys(COLUMNS, str)
_TABLE_COLUMNS: dict[str, type] = {
    **dict.fromkeys(("path", "domain", "split", "sha256", "first_id", "last_id", "content"), str),
    **dict.fromkeys(("size_bytes", "rows", "text_bytes"), int),
}


def observe_corpus(path: Path) -> dict[str, Json]:
    """Number of wheels and the digest of the sorted list of their hashes, which order and names do not change."""
    table = read_json(path / "wheels.json")
    entries = table.get("wheels")
    required(isinstance(entries, list) and bool(entries), path / "wheels.json", "lists no wheels")
    hashes = sorted(_checked_wheel(path, entry) for entry in cast(list[Json], entries))
    files = {item.name for item in path.iterdir()}
    required(len(files) == len(hashes) + 1, path, "holds files that its list does not name")
    return {"wheels": len(hashes), "content": str(record_digest(hashes))}


def observe_shards(path: Path) -> dict[str, Json]:
    """Counts of all shards, and for each domain and split the digest of its documents in order.

    That digest depends neither on Parquet's encoding nor on where one shard ends and the next begins.
    """
    parts: dict[tuple[str, str], DocumentsContent] = {}
    shards = 0
    for entry in rows_of(path / "shards.parquet", _TABLE_COLUMNS):
        _observe_shard(path, entry, parts.setdefault((entry["domain"], entry["split"]), DocumentsContent()))
        shards += 1
    found = sum(1 for _ in path.glob("*/*.parquet"))
    required(found == shards, path, f"holds {found} shards, but its table names {shards}")
    domains: dict[str, dict[str, Json]] = {}
    for (domain, split), content in parts.items():
        domains.setdefault(domain, {})[split] = str(content.digest)
    return {
        "shards": shards,
        "rows": sum(content.documents for content in parts.values()),
        "text_bytes": sum(content.text_bytes for content in parts.values()),
        "documents": domains,
    }


def _checked_wheel(folder: Path, entry: Json) -> str:
    required(isinstance(entry, dict), folder / "wheels.json", "has an entry that is no object")
    pin = cast(Mapping[str, Json], entry)
    name = f"{str(pin.get('name')).replace('-', '_')}-{pin.get('version')}-py3-none-any.whl"
    path = inside(folder, name)
    found = sha256(read_bytes(path)).hex
    required(found == pin.get("sha256"), path, "is not the wheel that its list names")
    return found


def _observe_shard(folder: Path, entry: Mapping[str, Any], part: DocumentsContent) -> None:
    """Feed one shard to its part, and compare it with its row in the table."""
    path = inside(folder, entry["path"])
    shard = DocumentsContent()
    for document in _documents(path):
        required(part.last is None or part.last < document.id, path, "has documents out of order, or one twice")
        required(document.domain == entry["domain"], path, "has a document of another domain")
        part.add(document)
        shard.add(document)
    data = read_bytes(path)
    observed = {
        "sha256": sha256(data).hex,
        "size_bytes": len(data),
        "rows": shard.documents,
        "text_bytes": shard.text_bytes,
        "first_id": shard.first,
        "last_id": shard.last,
        "content": shard.digest.hex,
    }
    for name, value in observed.items():
        required(entry[name] == value, path, f"has the {name} {value}, but its table says {entry[name]}")


def _documents(path: Path) -> Iterator[Document]:
    for row in rows_of(path, _SHARD_COLUMNS):
        try:
            yield Document(**row)
        except MalformedRecord as error:
            raise DoesNotHold(f"{path} is damaged: {error.message}", remedy="Run the stage 'shards'.") from error
