"""Token caches: what Levanter itself would write, readable by it, and the same on every run."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from support.wheelhouse import lay, pin, sentences, shard_settings, toy_pins, toy_wheels, tree, wheel_bytes

from registry.core.documents import Split
from registry.errors import DoesNotHold, Refused
from train import corpus, shards, tokenizer, tokens
from train.data.encoding import Encoder
from train.data.shardtable import listed_shards, verified_documents
from train.data.store import Tokens, joined, read_cache, write_cache

SETTINGS = {"sequence_length": 16}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``shards``, ``tokenizer`` and the ``tokens`` of the domain ``code``."""
    folder = tmp_path_factory.mktemp("made")
    wheels = toy_wheels()
    corpus.build(toy_pins(wheels), folder / "corpus", lay(wheels, folder / "cache"))
    shards.build(shard_settings(), folder / "corpus", folder / "shards")
    tokenizer.build({"vocabulary": 320, "sample_per_10000": 9000}, folder / "shards", folder / "tokenizer")
    tokens.build(SETTINGS, "code", places(folder, folder / "tokens"))
    return folder


def places(made: Path, target: Path) -> tuple[Path, Path, Path]:
    return made / "shards", made / "tokenizer", target


def some_documents(count: int = 50) -> list[np.ndarray]:
    random = np.random.default_rng(3)
    return [random.integers(0, 320, size=random.integers(1, 2000)).astype(np.int32) for _ in range(count)]


def test_two_runs_give_the_same_bytes(made: Path, tmp_path: Path) -> None:
    tokens.build(SETTINGS, "code", places(made, tmp_path))
    assert tree(tmp_path / "code") == tree(made / "tokens" / "code")


def test_the_summary_is_what_the_cache_holds(made: Path) -> None:
    folder = made / "tokens" / "code"
    summary = json.loads((folder / "tokens.json").read_bytes())
    for split, facts in summary["splits"].items():
        found = read_cache(folder / split)
        assert facts["documents"] == len(found.ends)
        assert facts["tokens"] == len(found.stream) == found.ends[-1]
        assert facts["sequences"] == len(found.stream) // 16
    contents = {facts["content"] for facts in summary["splits"].values()}
    assert len(contents) == 2


def test_the_document_table_leads_from_a_token_to_its_text(made: Path) -> None:
    encoder = Encoder(made / "tokenizer")
    for split in Split:
        rows = pq.read_table(made / "tokens" / "code" / split / "documents.parquet").to_pylist()
        stream = read_cache(made / "tokens" / "code" / split).stream
        texts = {
            entry.path: verified_documents(made / "shards", entry)
            for entry in listed_shards(made / "shards", split, "code")
        }
        assert sum(row["tokens"] for row in rows) == len(stream)
        for row in rows:
            document = texts[row["shard"]][row["row"]]
            assert document.id == row["id"]
            part = stream[row["token_offset"] : row["token_offset"] + row["tokens"]]
            assert np.array_equal(part, next(iter(encoder.documents([document]))))


def test_a_document_that_spells_a_special_token_is_refused(made: Path, tmp_path: Path) -> None:
    data = wheel_bytes("alpha", "1.0", {"alpha/a.py": sentences("a", 30) + "END = '<|end|>'\n"})
    pins = {"wheels": [pin("alpha", "1.0", data)]}
    corpus.build(pins, tmp_path / "corpus", lay({"alpha-1.0-py3-none-any.whl": data}, tmp_path / "cache"))
    shards.build(shard_settings(heldout_per_10000=0), tmp_path / "corpus", tmp_path / "shards")
    with pytest.raises(DoesNotHold, match=r"alpha:alpha/a\.py spells a special token"):
        tokens.build(SETTINGS, "code", (tmp_path / "shards", made / "tokenizer", tmp_path / "tokens"))


def test_an_unknown_domain_is_refused(made: Path, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no train documents"):
        tokens.build(SETTINGS, "poetry", places(made, tmp_path))


def test_a_cache_comes_back_as_it_was_written(tmp_path: Path) -> None:
    documents = some_documents()
    write_cache(tmp_path / "cache", joined(documents), name="train", metadata={})
    found = read_cache(tmp_path / "cache")
    assert [found.stream[start:end].tolist() for start, end in zip(found.starts, found.ends, strict=True)] == [
        ids.tolist() for ids in documents
    ]


def test_an_empty_cache_is_a_cache(tmp_path: Path) -> None:
    write_cache(tmp_path / "cache", joined([]), name="train", metadata={})
    assert read_cache(tmp_path / "cache").ends.tolist() == []


@pytest.mark.parametrize("name", ["data", "offsets"])
def test_a_damaged_cache_is_refused(tmp_path: Path, name: str) -> None:
    write_cache(tmp_path / "cache", joined(some_documents()), name="train", metadata={})
    chunk = tmp_path / "cache" / "input_ids" / name / "c" / "0"
    whole = chunk.read_bytes()
    chunk.write_bytes(whole[:-20])
    with pytest.raises(DoesNotHold, match="is damaged"):
        read_cache(tmp_path / "cache")
    chunk.unlink()
    (chunk.parent.parent / "zarr.json").unlink()
    with pytest.raises(DoesNotHold, match="is damaged"):
        read_cache(tmp_path / "cache")


@pytest.mark.slow
def test_levanters_own_writer_gives_the_same_bytes(tmp_path: Path) -> None:
    from levanter.store.cache import CacheMetadata, SerialCacheWriter

    from train.caches import exemplar

    documents = some_documents(400)
    metadata = {"tokenizer": "sha256:00", "vocab_size": 320}
    write_cache(tmp_path / "ours", joined(documents), name="train", metadata=metadata)
    theirs = str(tmp_path / "theirs")
    with SerialCacheWriter(theirs, exemplar(), metadata=CacheMetadata(metadata), shard_name="train") as writer:
        for start in range(0, len(documents), 150):
            writer.write_batch([{"input_ids": ids} for ids in documents[start : start + 150]])
    assert tree(tmp_path / "ours") == tree(tmp_path / "theirs")


@pytest.mark.slow
def test_levanters_own_pipeline_gives_the_same_tokens(made: Path) -> None:
    from levanter.data.text import TextLmDatasetFormat
    from levanter.tokenizers import load_tokenizer

    from train.caches import open_cache

    texts = [
        document.text
        for entry in listed_shards(made / "shards", Split.TRAIN, "code")
        for document in verified_documents(made / "shards", entry)
    ]
    processor = TextLmDatasetFormat().build_preprocessor(load_tokenizer(str(made / "tokenizer")))
    theirs = [row["input_ids"] for row in processor([{"text": text} for text in texts])]
    cache = open_cache(made / "tokens" / "code", "train")
    assert len(cache) == len(texts)
    assert [row["input_ids"].tolist() for row in cache.get_batch_sync(range(len(cache)))] == theirs


@pytest.mark.slow
def test_levanters_datasets_cut_the_stream_into_sequences(made: Path) -> None:
    import haliax

    from train.caches import open_causal, open_examples, open_sequences

    folder = made / "tokens" / "code"
    stream = read_cache(folder / "train").stream
    sequences = open_sequences(folder, "train", 16)
    count = asyncio.run(sequences.async_len())
    assert count == len(stream) // 16
    rows = asyncio.run(sequences.get_batch(range(count)))
    assert np.array_equal(np.concatenate([row["input_ids"] for row in rows]), stream[: count * 16])

    example = asyncio.run(open_causal(folder, "train", haliax.Axis("position", 16), eos=1).get_batch([1]))[0]
    assert np.array_equal(example.tokens, stream[16:32])
    assert np.asarray(example.loss_weight).tolist() == [1.0] * 15 + [0.0]
    named = asyncio.run(open_examples(folder, "heldout", haliax.Axis("position", 16), eos=1).get_batch([0]))[0]
    assert np.array_equal(named.tokens.array, read_cache(folder / "heldout").stream[:16])


@pytest.mark.slow
def test_levanter_refuses_a_folder_without_a_cache(tmp_path: Path) -> None:
    from train.caches import open_cache

    with pytest.raises(Refused, match="no finished token cache"):
        open_cache(tmp_path, "train")


def test_starts_and_ends() -> None:
    found = Tokens(stream=np.arange(5, dtype=np.int32), ends=np.asarray([2, 5]))
    assert found.starts.tolist() == [0, 2]
