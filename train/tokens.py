"""Stage ``tokens/<domain>``: the documents of a domain as Levanter token caches, one for each split.

Writes ``artifacts/tokens/<domain>/<split>/`` (the cache, and ``documents.parquet``: which document lies where in the
stream) and, last, ``tokens.json``: counts and content digests, taken from the caches after reading them back. Documents
keep the order of their shards. Run as ``python -m train.tokens DOMAIN``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from registry.core.canonical import Json
from registry.core.contents import tokens_digest
from registry.core.documents import Split
from registry.errors import DoesNotHold, Refused
from train import paths
from train.data.encoding import Encoder
from train.data.shardtable import listed_shards, verified_documents
from train.data.store import Tokens, joined, read_cache, write_cache
from train.data.tables import write_table
from train.files import fresh_folder, write_json
from train.settings import whole

SUMMARY = "tokens.json"
DOCUMENTS = "documents.parquet"
ROWS = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("shard", pa.string(), nullable=False),
        pa.field("row", pa.int64(), nullable=False),
        pa.field("token_offset", pa.int64(), nullable=False),
        pa.field("tokens", pa.int64(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """A split's tokens, with id, shard and row of each document in the same order, and the bytes of their text."""

    tokens: Tokens
    origins: tuple[tuple[str, str, int], ...]
    text_bytes: int


def build(settings: Mapping[str, Json], domain: str, places: tuple[Path, Path, Path]) -> None:
    """Write the caches of ``domain``. ``places`` are the folders of shards, tokenizer and all token caches.

    Raises ``Refused`` for an unknown domain, ``DoesNotHold`` for a shard or tokenizer that is not the recorded one, and
    for a cache that does not read back as it was written.
    """
    shards, tokenizer, target = places
    length = whole(settings, "sequence_length", least=2)
    encoder = Encoder(tokenizer)
    folder = fresh_folder(target / domain)
    splits: dict[str, Json] = {}
    for split in Split:
        encoded = _encoded(encoder, shards, domain, split)
        if not encoded.origins:
            raise Refused(
                f"The domain {domain!r} has no {split} documents.", remedy="See artifacts/shards/report.json."
            )
        written = _written(folder / split, encoded, encoder, split)
        splits[split] = {**_facts(written, length), "text_bytes": encoded.text_bytes}
    write_json(
        folder / SUMMARY,
        {
            "kind": "tokens",
            "schema": 1,
            "domain": domain,
            "tokenizer": str(encoder.identity),
            "vocabulary": encoder.vocabulary,
            "sequence_length": length,
            "splits": splits,
        },
    )


def _encoded(encoder: Encoder, shards: Path, domain: str, split: Split) -> Encoded:
    ids: list[np.ndarray] = []
    origins: list[tuple[str, str, int]] = []
    text_bytes = 0
    for entry in listed_shards(shards, split, domain):
        documents = verified_documents(shards, entry)
        ids.extend(encoder.documents(documents))
        origins.extend((document.id, entry.path, row) for row, document in enumerate(documents))
        text_bytes += sum(len(document.text.encode("utf-8")) for document in documents)
    return Encoded(tokens=joined(ids), origins=tuple(origins), text_bytes=text_bytes)


def _written(folder: Path, encoded: Encoded, encoder: Encoder, split: Split) -> Tokens:
    """Write cache and document table, and return the tokens as read back."""
    metadata: dict[str, Json] = {"tokenizer": str(encoder.identity), "vocab_size": encoder.vocabulary}
    write_cache(folder, encoded.tokens, name=str(split), metadata=metadata)
    read = read_cache(folder)
    same = np.array_equal(read.stream, encoded.tokens.stream) and np.array_equal(read.ends, encoded.tokens.ends)
    if not same:
        raise DoesNotHold(f"The cache {folder} does not read back as it was written.", remedy="Check the disk.")
    columns = {
        "id": [origin[0] for origin in encoded.origins],
        "shard": [origin[1] for origin in encoded.origins],
        "row": [origin[2] for origin in encoded.origins],
        "token_offset": read.starts,
        "tokens": read.ends - read.starts,
    }
    write_table(folder / DOCUMENTS, pa.table(columns, schema=ROWS), repeated=["shard"])
    return read


def _facts(tokens: Tokens, sequence_length: int) -> dict[str, Json]:
    content = tokens_digest([tokens.stream.astype("<u4").tobytes()], [tokens.ends.astype("<u8").tobytes()])
    return {
        "documents": len(tokens.ends),
        "tokens": len(tokens.stream),
        "sequences": len(tokens.stream) // sequence_length,
        "content": str(content),
    }


if __name__ == "__main__":
    from train.stage import run

    chosen = sys.argv[1] if len(sys.argv) == 2 else ""
    run(
        f"tokens/{chosen}",
        lambda settings: build(settings, chosen, (paths.SHARDS, paths.TOKENIZER, paths.TOKENS)),
        settings="tokens",
    )
