"""The tokenizer: deterministic files, every text comes back, golden documents bite."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.wheelhouse import lay, shard_settings, toy_pins, toy_wheels, tree
from tokenizers import Tokenizer

from registry.core import canonical
from registry.errors import DoesNotHold, Refused
from train import corpus, shards, tokenizer
from train.data.encoding import Encoder, read_identity
from train.data.golden import TEXTS

SETTINGS = {"vocabulary": 320, "sample_per_10000": 9000}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``shards`` and the ``tokenizer`` learned from them."""
    folder = tmp_path_factory.mktemp("made")
    wheels = toy_wheels()
    corpus.build(toy_pins(wheels), folder / "corpus", lay(wheels, folder / "cache"))
    shards.build(shard_settings(), folder / "corpus", folder / "shards")
    tokenizer.build(SETTINGS, folder / "shards", folder / "tokenizer")
    return folder


def copied(made: Path, target: Path) -> Path:
    """The tokenizer's folder, to be damaged."""
    return lay(tree(made / "tokenizer"), target)


@pytest.mark.slow
@pytest.mark.parametrize("cores", ["one", "two"])
def test_other_processes_learn_the_same_bytes(made: Path, tmp_path: Path, cores: str) -> None:
    """Hash seeds and thread pools differ from process to process."""
    script = (
        "import sys; from pathlib import Path; from train.tokenizer import build;"
        f"build({SETTINGS!r}, Path(sys.argv[1]), Path(sys.argv[2]))"
    )
    environment = os.environ | {"RAYON_NUM_THREADS": "1" if cores == "one" else "2", "PYTHONHASHSEED": "7"}
    command = [sys.executable, "-c", script, str(made / "shards"), str(tmp_path / "again")]
    subprocess.run(command, check=True, env=environment, cwd=Path(__file__).parents[2])
    assert tree(tmp_path / "again") == tree(made / "tokenizer")


@pytest.mark.parametrize("name", TEXTS)
def test_every_golden_text_comes_back(made: Path, name: str) -> None:
    found = Tokenizer.from_file(str(made / "tokenizer" / "tokenizer.json"))
    assert found.decode(found.encode(TEXTS[name]).ids[1:], skip_special_tokens=False) == TEXTS[name]


def test_the_identity_names_files_back_end_and_golden_documents(made: Path) -> None:
    identity, _ = read_identity(made / "tokenizer")
    assert set(identity["files"]) == set(tree(made / "tokenizer")) - {"identity.json"}
    assert identity["backend"]["name"] == "tokenizers"
    assert identity["special"] == {"bos_token": 0, "eos_token": 1, "pad_token": 2}
    golden = {entry["name"]: entry for entry in identity["golden"]}
    assert list(golden) == list(TEXTS)
    assert golden["empty"]["ids"] == []
    assert all(entry["document"][0] == 0 and entry["document"][-1] == 1 for entry in golden.values())
    assert golden["special tokens"]["ids"].count(1) == 1


def test_a_back_end_that_changed_tokens_is_refused(made: Path, tmp_path: Path) -> None:
    """The files are the recorded ones, but the golden documents come out otherwise."""
    folder = copied(made, tmp_path / "tokenizer")
    identity = dict(read_identity(folder)[0])
    identity["golden"] = [{**entry, "ids": [*entry["ids"], 5]} for entry in identity["golden"]]
    (folder / "identity.json").write_bytes(canonical.encode(identity))
    with pytest.raises(DoesNotHold, match="golden documents"):
        Encoder(folder)


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"])
def test_an_altered_or_missing_file_is_refused(made: Path, tmp_path: Path, name: str) -> None:
    folder = copied(made, tmp_path / "tokenizer")
    (folder / name).write_bytes((folder / name).read_bytes() + b" ")
    with pytest.raises(DoesNotHold, match=name):
        Encoder(folder)
    (folder / name).unlink()
    with pytest.raises(DoesNotHold, match=name):
        Encoder(folder)


def test_a_folder_without_identity_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="is no tokenizer"):
        Encoder(tmp_path)


def test_a_vocabulary_that_the_text_cannot_fill_is_refused(made: Path, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="fewer than"):
        tokenizer.build({**SETTINGS, "vocabulary": 60_000}, made / "shards", tmp_path / "tokenizer")
    assert not (tmp_path / "tokenizer").exists()


def test_a_vocabulary_smaller_than_the_bytes_is_refused(made: Path, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="at least 259"):
        tokenizer.build({**SETTINGS, "vocabulary": 258}, made / "shards", tmp_path / "tokenizer")


@pytest.mark.slow
def test_transformers_loads_the_folder_and_gives_the_golden_ids(made: Path) -> None:
    from transformers import AutoTokenizer

    loaded = AutoTokenizer.from_pretrained(str(made / "tokenizer"), local_files_only=True)
    identity, _ = read_identity(made / "tokenizer")
    assert (loaded.bos_token_id, loaded.eos_token_id, loaded.pad_token_id) == (0, 1, 2)
    assert len(loaded) == 320
    for entry in identity["golden"]:
        assert loaded(entry["text"])["input_ids"] == [0, *entry["ids"]]
        assert loaded(entry["text"], add_special_tokens=False)["input_ids"] == entry["ids"]
        assert loaded.decode(entry["ids"]) == entry["text"]
