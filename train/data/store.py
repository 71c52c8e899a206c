"""Write a Levanter token cache without importing Levanter, and read back what was written.

The layout is that of ``levanter.store`` 0.2.20: a jagged array ``input_ids`` as two zarr3 arrays of a fixed, huge shape
(``data``: int32 ids one after the other; ``offsets``: the number of documents, then each document's end), and a ledger.
Importing Levanter costs many seconds for each domain; that its own writer gives the same bytes is tested. The bytes do
not depend on batches, cores or clocks. Refuses to overwrite.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorstore as ts

from registry.core.canonical import Json
from registry.errors import DoesNotHold
from train.files import write_whole

FIELD = "input_ids"
LEDGER = "shard_ledger.json"

_UNBOUNDED = 2**54
_INNER_CHUNK = 256 * 1024
_OUTER_CHUNK = _INNER_CHUNK * 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """The token stream of a cache (int32) and the ends of its documents in it (int64, exclusive, ascending)."""

    stream: np.ndarray
    ends: np.ndarray

    @property
    def starts(self) -> np.ndarray:
        """Where each document begins."""
        return np.concatenate([np.zeros(1, dtype=np.int64), self.ends])[:-1]


def joined(documents: Sequence[np.ndarray]) -> Tokens:
    """The stream of ``documents``, one after the other."""
    lengths = np.fromiter((len(ids) for ids in documents), dtype=np.int64, count=len(documents))
    stream = np.concatenate([np.zeros(0, dtype=np.int32), *documents]).astype(np.int32, copy=False)
    return Tokens(stream=stream, ends=np.cumsum(lengths))


def write_cache(folder: Path, tokens: Tokens, *, name: str, metadata: Mapping[str, Json]) -> None:
    """Write ``tokens`` as a finished cache whose only part is called ``name``; the ledger comes last."""
    documents = len(tokens.ends)
    head = np.asarray([documents], dtype=np.int64)
    _write(folder / FIELD / "data", tokens.stream)
    _write(folder / FIELD / "offsets", np.concatenate([head, tokens.ends]))
    ledger = {
        "total_num_rows": documents,
        "shard_rows": {name: documents},
        "is_finished": True,
        "finished_shards": [name],
        "field_counts": {FIELD: len(tokens.stream)},
        "field_counts_by_shard": {},
        "layout": "consolidated",
        "metadata": {"preprocessor_metadata": dict(metadata)},
    }
    write_whole(folder / LEDGER, json.dumps(ledger).encode("ascii"))


def read_cache(folder: Path) -> Tokens:
    """The tokens of a cache, from its bytes. Raises ``DoesNotHold`` when they cannot be read or do not fit together."""
    try:
        offsets = _open(folder / FIELD / "offsets")
        documents = int(offsets[0].read().result())
        ends = np.asarray(offsets[1 : documents + 1].read().result())
        length = int(ends[-1]) if documents else 0
        stream = np.asarray(_open(folder / FIELD / "data")[:length].read().result())
    except (ValueError, FileNotFoundError) as error:
        raise DoesNotHold(
            f"The token cache {folder} is damaged: {told(error)}.", remedy="Run its stage again."
        ) from error
    if stream.dtype != np.int32 or np.any(np.diff(ends, prepend=0) < 0):
        raise DoesNotHold(f"The token cache {folder} does not hold documents of int32.", remedy="Run its stage again.")
    return Tokens(stream=stream, ends=ends)


def told(error: Exception) -> str:
    """The first part of a message of tensorstore, without the places in its source."""
    return str(error).partition(" [source")[0]


def _write(path: Path, values: np.ndarray) -> None:
    spec: dict[str, Any] = {
        "driver": "zarr3",
        "kvstore": {"driver": "file", "path": str(path.absolute())},
        "metadata": {
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [_OUTER_CHUNK]}},
            "codecs": [
                {
                    "name": "sharding_indexed",
                    "configuration": {
                        "chunk_shape": [_INNER_CHUNK],
                        "codecs": [{"name": "blosc", "configuration": {"clevel": 5}}],
                    },
                }
            ],
        },
    }
    array = ts.open(spec, create=True, dtype=values.dtype.name, shape=[_UNBOUNDED]).result()
    array[: len(values)].write(values).result()


def _open(path: Path) -> Any:
    return ts.open({"driver": "zarr3", "kvstore": {"driver": "file", "path": str(path.absolute())}}).result()
