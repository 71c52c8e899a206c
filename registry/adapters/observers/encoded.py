"""The tokenizer and the token caches, read back: golden documents encoded again, tokens counted and digested.

Neither JAX nor Levanter is imported: a cache is two zarr3 arrays and a ledger. Refuses a tokenizer that does not give
the ids of its golden documents, a cache whose ledger, document table or summary is not what its arrays say, and tokens
outside of the vocabulary.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from registry.adapters.observers.opening import inside, read_bytes, read_json, required, rows_of
from registry.core.canonical import Json
from registry.core.contents import tokens_digest
from registry.core.digests import record_digest, sha256
from registry.errors import DoesNotHold

_DOCUMENT_COLUMNS: dict[str, type] = {"id": str, "shard": str, "row": int, "token_offset": int, "tokens": int}
_SPLITS = ("train", "heldout")
_MAXIMUM_DOCUMENTS = 2**40


def observe_tokenizer(path: Path) -> dict[str, Json]:
    """Size of the vocabulary, the back-end named by the identity, and the digest of the golden documents.

    The ids of every golden text are computed anew with the back-end that is installed here.
    """
    from tokenizers import Tokenizer

    identity = read_json(path / "identity.json")
    files, golden, special = (identity.get(key) for key in ("files", "golden", "special"))
    well_formed = isinstance(files, dict) and isinstance(golden, list) and isinstance(special, dict)
    required(well_formed and bool(golden), path / "identity.json", "is no identity of a tokenizer")
    for name, digest in cast(Mapping[str, Json], files).items():
        file = inside(path, name)
        required(str(sha256(read_bytes(file))) == digest, file, "is not the file that identity.json names")
    try:
        tokenizer = Tokenizer.from_buffer(read_bytes(path / "tokenizer.json"))
    except ValueError as error:
        raise DoesNotHold(f"{path / 'tokenizer.json'} is damaged: {error}.", remedy="Run 'tokenizer'.") from error
    size = tokenizer.get_vocab_size()
    required(size == identity.get("vocabulary"), path, f"has {size} tokens, not {identity.get('vocabulary')}")
    for entry in cast(list[Json], golden):
        _check_golden(path, tokenizer, entry, cast(Mapping[str, Json], special))
    return {"vocabulary": size, "backend": identity.get("backend"), "golden": str(record_digest(golden))}


def observe_tokens(path: Path) -> dict[str, Json]:
    """For each split: documents, tokens, whole sequences, the digest of the tokens and that of the documents' ids."""
    summary = read_json(path / "tokens.json")
    length, vocabulary = summary.get("sequence_length"), summary.get("vocabulary")
    valid = isinstance(length, int) and isinstance(vocabulary, int) and length > 0
    required(valid, path / "tokens.json", "has no sequence length or vocabulary")
    told = summary.get("splits")
    required(isinstance(told, dict) and set(told) == set(_SPLITS), path / "tokens.json", "has other splits")
    facts: dict[str, Json] = {}
    for split in _SPLITS:
        found = _observe_cache(path / split, cast(int, length), cast(int, vocabulary))
        claimed = cast(Mapping[str, Mapping[str, Json]], told)[split]
        for name in ("documents", "tokens", "sequences", "content"):
            complaint = f"has {name} {found[name]} in {split}, but its summary says {claimed.get(name)}"
            required(found[name] == claimed.get(name), path, complaint)
        facts[split] = found
    return facts


def _check_golden(path: Path, tokenizer: Any, entry: Json, special: Mapping[str, Json]) -> None:
    golden = cast(Mapping[str, Any], entry)
    text = golden.get("text") if isinstance(entry, dict) else None
    required(isinstance(text, str), path / "identity.json", "has a golden document without a text")
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    begin, end = (tokenizer.id_to_token(_whole(path, special.get(key))) for key in ("bos_token", "eos_token"))
    document = tokenizer.encode(f"{begin}{text} {end}", add_special_tokens=False).ids
    complaint = f"encodes the golden document {golden.get('name')!r} otherwise than recorded"
    required([ids, document] == [golden.get("ids"), golden.get("document")], path, complaint)
    back = tokenizer.decode(ids, skip_special_tokens=False)
    required(back == text, path, f"does not give the golden document {golden.get('name')!r} back")


def _whole(path: Path, value: Json) -> int:
    required(isinstance(value, int) and value >= 0, path / "identity.json", "has a special token without an id")
    return cast(int, value)


def _observe_cache(folder: Path, sequence_length: int, vocabulary: int) -> dict[str, Json]:
    stream, ends = _arrays(folder)
    required(bool(stream.min(initial=0) >= 0 and stream.max(initial=0) < vocabulary), folder, "has foreign tokens")
    _check_ledger(folder, documents=len(ends), tokens=len(stream))
    facts: dict[str, Json] = {
        "documents": len(ends),
        "tokens": len(stream),
        "sequences": len(stream) // sequence_length,
        "content": str(tokens_digest([stream.astype("<u4").tobytes()], [ends.astype("<u8").tobytes()])),
        "origins": _origins(folder, ends),
    }
    return facts


def _arrays(folder: Path) -> tuple[Any, Any]:
    """Token ids (int32) and ends of documents (int64) of a cache."""
    import numpy as np

    try:
        offsets = _opened(folder / "input_ids" / "offsets")
        documents = int(offsets[0].read().result())
        required(0 <= documents < _MAXIMUM_DOCUMENTS, folder, f"claims {documents} documents")
        ends = np.asarray(offsets[1 : documents + 1].read().result())
        length = int(ends[-1]) if documents else 0
        ascending = bool(np.all(np.diff(ends, prepend=0) > 0))
        required(ascending, folder, "has documents that end before they begin")
        stream = np.asarray(_opened(folder / "input_ids" / "data")[:length].read().result())
    except (ValueError, FileNotFoundError, MemoryError) as error:
        words = str(error).partition(" [source")[0]
        raise DoesNotHold(f"{folder} is damaged: {words}.", remedy="Run the stage 'tokens' again.") from error
    required(stream.dtype == np.int32 and ends.dtype == np.int64, folder, "has arrays of another kind")
    return stream, ends


def _opened(path: Path) -> Any:
    import tensorstore

    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(path.absolute())}}
    return tensorstore.open(spec, open=True, read=True).result()


def _check_ledger(folder: Path, *, documents: int, tokens: int) -> None:
    path = folder / "shard_ledger.json"
    try:
        ledger = json.loads(read_bytes(path))
        claimed = (ledger["total_num_rows"], ledger["field_counts"]["input_ids"], ledger["is_finished"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DoesNotHold(f"{path} is damaged: {error}.", remedy="Run the stage 'tokens' again.") from error
    required(
        claimed == (documents, tokens, True), path, f"claims {claimed}, not {documents} documents, {tokens} tokens"
    )


def _origins(folder: Path, ends: Any) -> str:
    """The digest of the documents' ids and places, after comparing the table of documents with the cache."""
    path = folder / "documents.parquet"
    start, places = 0, []
    for row, end in zip(rows_of(path, _DOCUMENT_COLUMNS), ends.tolist(), strict=False):
        fits = row["token_offset"] == start and row["tokens"] == end - start
        required(fits, path, f"does not fit the cache at the document {row['id']}")
        places.append(f"{row['id']} {row['shard']} {row['row']}\n")
        start = end
    rows = sum(1 for _ in rows_of(path, _DOCUMENT_COLUMNS))
    required(len(places) == len(ends) == rows, path, f"has {rows} documents, and its cache {len(ends)}")
    return str(sha256("".join(places).encode("utf-8")))
