"""Data artifacts read back: facts of the whole ones, findings for every kind of damage."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.wheelhouse import lay, shard_settings, toy_pins, toy_wheels

from registry.adapters.observers import observe
from registry.core import canonical
from registry.core.canonical import Json
from registry.errors import DoesNotHold
from train import corpus, shards, tokenizer, tokens

STAGES = ("corpus", "shards", "tokenizer", "tokens/code")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All four stages, run once over the toy corpus."""
    folder = tmp_path_factory.mktemp("whole")
    wheels = toy_wheels()
    corpus.build(toy_pins(wheels), folder / "corpus", lay(wheels, folder / "cache"))
    shards.build(shard_settings(), folder / "corpus", folder / "shards")
    tokenizer.build({"vocabulary": 320, "sample_per_10000": 9000}, folder / "shards", folder / "tokenizer")
    tokens.build({"sequence_length": 16}, "code", (folder / "shards", folder / "tokenizer", folder / "tokens"))
    return folder


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(whole, tmp_path / "copy"))


def facts(folder: Path) -> dict[str, object]:
    return {stage: dict(observe(stage, folder / stage)) for stage in STAGES}


def rewritten(path: Path, change: Callable[[dict[str, Json]], None]) -> None:
    """Change a JSON file, and keep it canonical."""
    value = json.loads(path.read_bytes())
    change(value)
    path.write_bytes(canonical.encode(value))


def with_table(path: Path, change: Callable[[list[dict[str, object]]], None]) -> None:
    """Change the rows of a Parquet file."""
    table = pq.read_table(path)
    rows = table.to_pylist()
    change(rows)
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)


def test_whole_artifacts_tell_their_counts(whole: Path) -> None:
    found = facts(whole)
    assert found["corpus"]["wheels"] == 3
    assert found["shards"]["rows"] == 121
    assert set(found["shards"]["documents"]) == {"code", "math", "prose"}
    assert found["tokenizer"]["vocabulary"] == 320
    code = found["tokens/code"]
    assert code["train"]["documents"] + code["heldout"]["documents"] == 40
    assert code["train"]["sequences"] == code["train"]["tokens"] // 16
    canonical.encode(found)


def test_a_stage_without_a_reader_has_no_such_contents(tmp_path: Path) -> None:
    assert dict(observe("rung/d32", tmp_path)) == {}


def test_what_the_shards_hold_does_not_depend_on_where_they_are_cut(whole: Path, tmp_path: Path) -> None:
    shards.build(shard_settings(shard_bytes=4000), whole / "corpus", tmp_path / "shards")
    few, many = (observe("shards", folder / "shards") for folder in (whole, tmp_path))
    assert many["shards"] > few["shards"]
    assert many["documents"] == few["documents"]


def test_the_facts_are_no_word_of_the_stage(copy: Path) -> None:
    """What a stage wrote about itself is compared with the bytes, never taken."""

    def more(value: dict[str, Json]) -> None:
        value["splits"]["train"]["tokens"] += 1

    rewritten(copy / "tokens" / "code" / "tokens.json", more)
    with pytest.raises(DoesNotHold, match="its summary says"):
        observe("tokens/code", copy / "tokens" / "code")


FILES = [
    ("corpus", "wheels.json"),
    ("corpus", "alpha-1.0-py3-none-any.whl"),
    ("shards", "shards.parquet"),
    ("shards", "math/train-00000.parquet"),
    ("tokenizer", "identity.json"),
    ("tokenizer", "tokenizer.json"),
    ("tokenizer", "tokenizer_config.json"),
    ("tokens/code", "tokens.json"),
    ("tokens/code", "train/shard_ledger.json"),
    ("tokens/code", "train/documents.parquet"),
    ("tokens/code", "train/input_ids/data/zarr.json"),
    ("tokens/code", "train/input_ids/data/c/0"),
    ("tokens/code", "heldout/input_ids/offsets/c/0"),
    ("tokens/code", "heldout/input_ids/offsets/zarr.json"),
]


@pytest.mark.parametrize(("stage", "name"), FILES)
@pytest.mark.parametrize("damage", ["gone", "empty", "torn"])
def test_a_missing_or_torn_file_is_found(copy: Path, stage: str, name: str, damage: str) -> None:
    path = copy / stage / name
    data = path.read_bytes()
    path.unlink()
    if damage != "gone":
        path.write_bytes(b"" if damage == "empty" else data[: len(data) // 2])
    with pytest.raises(DoesNotHold):
        observe(stage, copy / stage)


@pytest.mark.parametrize(
    ("stage", "name"),
    [one for one in FILES if not one[1].endswith((".json", "c/0", "shards.parquet", "documents.parquet"))],
)
def test_one_flipped_bit_is_found(copy: Path, stage: str, name: str) -> None:
    """Where the stage's own digests cover a file. The others are covered by the digests in the records."""
    path = copy / stage / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(DoesNotHold):
        observe(stage, copy / stage)


def test_flipped_bits_in_a_cache_are_found(copy: Path) -> None:
    path = copy / "tokens" / "code" / "train" / "input_ids" / "data" / "c" / "0"
    data = bytearray(path.read_bytes())
    for place in range(20, 60):
        data[place] ^= 1
    path.write_bytes(data)
    with pytest.raises(DoesNotHold):
        observe("tokens/code", copy / "tokens" / "code")


def test_files_that_no_list_names_are_found(copy: Path) -> None:
    (copy / "corpus" / "stray-1.0-py3-none-any.whl").write_bytes(b"")
    shutil.copy(copy / "shards" / "code" / "train-00000.parquet", copy / "shards" / "code" / "train-00001.parquet")
    for stage in ("corpus", "shards"):
        with pytest.raises(DoesNotHold, match=r"its (list|table)"):
            observe(stage, copy / stage)


@pytest.mark.parametrize("path", ["../corpus/wheels.json", "/etc/passwd", "code/../code/train-00000.parquet"])
def test_a_table_cannot_lead_out_of_its_folder(copy: Path, path: str) -> None:
    with_table(copy / "shards" / "shards.parquet", lambda rows: rows[0].update(path=path))
    with pytest.raises(DoesNotHold, match="leaves it"):
        observe("shards", copy / "shards")


@pytest.mark.parametrize("column", ["sha256", "size_bytes", "rows", "text_bytes", "first_id", "last_id", "content"])
def test_a_table_of_shards_that_lies_is_found(copy: Path, column: str) -> None:
    def lie(rows: list[dict[str, object]]) -> None:
        rows[0][column] = 1 if isinstance(rows[0][column], int) else "0" * 64

    with_table(copy / "shards" / "shards.parquet", lie)
    with pytest.raises(DoesNotHold, match=f"has the {column}"):
        observe("shards", copy / "shards")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda rows: rows[0].update(text="other"), "not the one that its id names"),
        (lambda rows: rows.reverse(), "out of order"),
        (lambda rows: rows.append(rows[-1]), "out of order"),
        (lambda rows: [row.update(domain="poetry") for row in rows], "another domain"),
    ],
)
def test_documents_that_are_not_as_they_must_be_are_found(
    copy: Path, change: Callable[[list[dict[str, object]]], None], complaint: str
) -> None:
    with_table(copy / "shards" / "code" / "train-00000.parquet", change)
    with pytest.raises(DoesNotHold, match=complaint):
        observe("shards", copy / "shards")


@pytest.mark.parametrize("key", ["ids", "document", "text"])
def test_golden_documents_that_come_out_otherwise_are_found(copy: Path, key: str) -> None:
    def change(value: dict[str, Json]) -> None:
        value["golden"][1][key] = "other" if key == "text" else [7]

    rewritten(copy / "tokenizer" / "identity.json", change)
    with pytest.raises(DoesNotHold, match="golden document"):
        observe("tokenizer", copy / "tokenizer")


@pytest.mark.parametrize(
    "change",
    [
        lambda value: value.update(vocabulary=319),
        lambda value: value.update(files=[]),
        lambda value: value.update(golden=[]),
        lambda value: value["special"].update(bos_token=None),
        lambda value: value["files"].update({"../x": "sha256:00"}),
    ],
)
def test_an_identity_that_is_none_is_found(copy: Path, change: Callable[[dict[str, Json]], None]) -> None:
    rewritten(copy / "tokenizer" / "identity.json", change)
    with pytest.raises(DoesNotHold):
        observe("tokenizer", copy / "tokenizer")


@pytest.mark.parametrize("column", ["token_offset", "tokens"])
def test_a_document_table_that_does_not_fit_its_cache_is_found(copy: Path, column: str) -> None:
    path = copy / "tokens" / "code" / "train" / "documents.parquet"
    with_table(path, lambda rows: rows[3].update({column: 1}))
    with pytest.raises(DoesNotHold, match="does not fit"):
        observe("tokens/code", copy / "tokens" / "code")


def test_a_document_table_with_more_rows_than_the_cache_is_found(copy: Path) -> None:
    path = copy / "tokens" / "code" / "train" / "documents.parquet"
    with_table(path, lambda rows: rows.append(rows[-1]))
    with pytest.raises(DoesNotHold, match="and its cache"):
        observe("tokens/code", copy / "tokens" / "code")


def test_tokens_outside_of_the_vocabulary_are_found(copy: Path) -> None:
    rewritten(copy / "tokens" / "code" / "tokens.json", lambda value: value.update(vocabulary=10))
    with pytest.raises(DoesNotHold, match="foreign tokens"):
        observe("tokens/code", copy / "tokens" / "code")
