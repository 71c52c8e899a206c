"""The stage ``shards``: what is kept, what is dropped, and bytes that do not change."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.wheelhouse import lay, pin, sentences, shard_settings, toy_pins, toy_wheels, tree, wheel_bytes

from registry.core.contents import documents_content
from registry.core.documents import COLUMNS, Document, Split, document_id
from registry.errors import DoesNotHold, Refused
from train import corpus, shards
from train.data.sharding import Plan, cut
from train.data.shardtable import listed_shards, verified_documents
from train.data.tables import read_documents


def built(tmp_path: Path, wheels: Mapping[str, bytes], settings: Mapping[str, object] | None = None) -> Path:
    """Shards of ``wheels``, made from a cache of them."""
    corpus.build(toy_pins(wheels), tmp_path / "corpus", lay(wheels, tmp_path / "cache"))
    shards.build(settings or shard_settings(), tmp_path / "corpus", tmp_path / "shards")
    return tmp_path / "shards"


def document(text: str, domain: str = "code") -> Document:
    return Document(
        id=document_id(text), source="alpha", version="1", path="a.py", licence="MIT", domain=domain, text=text
    )


def test_every_document_is_in_one_shard_and_two_runs_give_the_same_bytes(tmp_path: Path) -> None:
    first = built(tmp_path / "one", toy_wheels())
    assert tree(first) == tree(built(tmp_path / "two", toy_wheels()))
    table = pq.read_table(first / "shards.parquet").to_pylist()
    assert {row["path"] for row in table} == {path for path in tree(first) if "/" in path}
    ids = []
    for row in table:
        data = (first / row["path"]).read_bytes()
        found = list(read_documents(first / row["path"]))
        assert (row["sha256"], row["size_bytes"]) == (hashlib.sha256(data).hexdigest(), len(data))
        assert (row["rows"], row["first_id"], row["last_id"]) == (len(found), found[0].id, found[-1].id)
        assert [one.id for one in found] == sorted(one.id for one in found)
        assert {one.domain for one in found} == {row["domain"]}
        ids += [one.id for one in found]
    assert len(ids) == len(set(ids)) == 121  # 40 in each domain, and one description


def test_a_shard_holds_no_clock_and_no_schema_of_another_library(tmp_path: Path) -> None:
    path = built(tmp_path, toy_wheels()) / "code" / "train-00000.parquet"
    metadata = pq.ParquetFile(path).metadata
    assert metadata.metadata is None
    assert tuple(metadata.schema.to_arrow_schema().names) == COLUMNS


@pytest.mark.parametrize(
    "encoding",
    [
        {"row_group_size": 7},
        {"compression": "gzip"},
        {"compression": "none", "use_dictionary": False},
        {"use_dictionary": True, "data_page_version": "2.0", "version": "1.0"},
        {"write_statistics": False, "data_page_size": 200, "store_schema": True},
    ],
)
def test_the_content_digest_survives_another_encoding(tmp_path: Path, encoding: Mapping[str, object]) -> None:
    folder = built(tmp_path, toy_wheels())
    row = pq.read_table(folder / "shards.parquet").to_pylist()[1]
    other = tmp_path / "other.parquet"
    pq.write_table(pq.read_table(folder / row["path"]), other, **encoding)
    assert other.read_bytes() != (folder / row["path"]).read_bytes()
    assert documents_content(read_documents(other)).digest.hex == row["content"]


def test_adding_documents_moves_no_other(tmp_path: Path) -> None:
    def places(folder: Path) -> dict[str, str]:
        return {
            one.id: split
            for split in Split
            for entry in listed_shards(folder, split)
            for one in verified_documents(folder, entry)
        }

    few = places(built(tmp_path / "few", toy_wheels(documents=20)))
    many = places(built(tmp_path / "many", toy_wheels(documents=60)))
    assert set(few.values()) == set(Split)
    assert len(few) < len(many)
    assert all(many[identity] == split for identity, split in few.items())


def test_one_new_document_rewrites_one_shard() -> None:
    plan = Plan(heldout_per_10000=0, shard_bytes=400)
    texts = [f"{number} " + "x" * 40 for number in range(60)]
    before = {shard.path: shard.documents for shard in cut(map(document, texts), plan)}
    after = {shard.path: shard.documents for shard in cut(map(document, [*texts, "new"]), plan)}
    assert len(before) == len(after) == 8
    assert sum(before[path] != after[path] for path in before) == 1


def test_drops_are_reported_with_their_reasons(tmp_path: Path) -> None:
    text = sentences("same", 10)
    files: dict[str, str | bytes] = {
        "alpha/kept.py": text,
        "alpha/same.py": text.replace("\n", "\r\n"),
        "alpha/latin.py": text.encode() + b"# caf\xe9\n",
        "alpha/nul.py": text + "\0",
        "alpha/short.py": "x\n",
        "alpha/long.py": sentences("long", 900),
        "alpha/blob.py": f"DATA = '{'A' * 10_000}'\n",
        "alpha/tests/hidden.py": sentences("hidden", 10),
    }
    wheels = {
        "alpha-1.0-py3-none-any.whl": wheel_bytes("alpha", "1.0", files),
        "gamma-1.0-py3-none-any.whl": wheel_bytes(
            "gamma", "1.0", {"gamma/bad.py": "def f(:\n", "gamma/page.rst": text, "gamma/page.html": text}
        ),
    }
    names = {name.split("-")[0]: data for name, data in wheels.items()}
    pins = [pin("alpha", "1.0", names["alpha"]), pin("gamma", "1.0", names["gamma"], domain="prose")]
    corpus.build({"wheels": pins}, tmp_path / "corpus", lay(wheels, tmp_path / "cache"))
    settings = shard_settings(maximum_bytes=20_000)
    harvest = shards.build(settings, tmp_path / "corpus", tmp_path / "shards")
    assert [one.path for one in harvest.documents.values()] == ["alpha/kept.py"]
    report = json.loads((tmp_path / "shards" / "report.json").read_bytes())
    assert {drop["path"]: drop["reason"] for drop in report["drops"]} == {
        "alpha/same.py": "exact duplicate",
        "alpha/latin.py": "not UTF-8",
        "alpha/nul.py": "control characters",
        "alpha/short.py": "too short",
        "alpha/long.py": "too long",
        "alpha/blob.py": "a run without a break",
        "gamma/bad.py": "not parsed",
        "gamma/page.rst": "exact duplicate",
        "METADATA": "too short",
    }
    assert {drop["same_as"] for drop in report["drops"] if drop["same_as"]} == {"alpha:alpha/kept.py"}
    assert report["dropped"]["exact duplicate"] == 2


def test_a_wheel_that_changed_after_it_was_fetched_is_refused(tmp_path: Path) -> None:
    wheels = toy_wheels(documents=2)
    corpus.build(toy_pins(wheels), tmp_path / "corpus", lay(wheels, tmp_path / "cache"))
    path = tmp_path / "corpus" / "beta-1.0-py3-none-any.whl"
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(DoesNotHold, match="pinned to"):
        shards.build(shard_settings(), tmp_path / "corpus", tmp_path / "shards")


def test_a_domain_without_settings_is_refused(tmp_path: Path) -> None:
    wheels = toy_wheels(documents=2)
    corpus.build(toy_pins(wheels), tmp_path / "corpus", lay(wheels, tmp_path / "cache"))
    with pytest.raises(Refused, match="has no settings"):
        shards.build(shard_settings(domains={}), tmp_path / "corpus", tmp_path / "shards")


@pytest.mark.parametrize("data", [None, b"{}", b"[1]", b"not json"])
def test_a_folder_that_is_no_corpus_is_refused(tmp_path: Path, data: bytes | None) -> None:
    if data is not None:
        (tmp_path / "wheels.json").write_bytes(data)
    with pytest.raises(DoesNotHold, match="is no corpus"):
        shards.build(shard_settings(), tmp_path, tmp_path / "shards")


@pytest.mark.parametrize("change", [{"path": "../x.parquet"}, {"split": "other"}, {"sha256": None}])
def test_a_table_that_is_none_is_refused(tmp_path: Path, change: Mapping[str, object]) -> None:
    folder = built(tmp_path, toy_wheels(documents=4))
    rows = [{**row, **change} for row in pq.read_table(folder / "shards.parquet").to_pylist()]
    kept = [{key: value for key, value in row.items() if value is not None} for row in rows]
    pq.write_table(pa.Table.from_pylist(kept), folder / "shards.parquet")
    with pytest.raises(DoesNotHold, match="no table of shards"):
        listed_shards(folder, Split.TRAIN)


def test_a_shard_that_is_not_the_one_in_the_table_is_refused(tmp_path: Path) -> None:
    folder = built(tmp_path, toy_wheels())
    entry = listed_shards(folder, Split.TRAIN, "code")[0]
    path = folder / entry.path
    path.write_bytes(path.read_bytes().replace(b"PAR1", b"PAR2", 1))
    with pytest.raises(DoesNotHold, match="not the one that its table names"):
        verified_documents(folder, entry)
    path.unlink()
    with pytest.raises(DoesNotHold, match="is missing"):
        verified_documents(folder, entry)
