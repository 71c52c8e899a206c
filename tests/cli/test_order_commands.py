"""``reckon batch``, ``seen`` and ``order`` on a recorded archive: they agree with one another and with the tokens."""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter

import pytest
from support.charted import BATCH, DOMAINS, LENGTH, STEPS

TOKENS = "artifacts/tokens"


@pytest.fixture
def facts(reckon):
    """The facts that a command prints with ``--json``."""

    def call(*arguments: str, status: int = 0):
        ended = reckon(*arguments, "--json")
        assert ended.status == status, ended.stderr
        return json.loads(ended.stdout)

    return call


def rows_of(facts, run: str, steps) -> list[dict]:
    return [{**row, "step": step} for step in steps for row in facts("batch", run, str(step))["rows"]]


def test_a_batch_is_what_the_tokens_say(charted, facts):
    """Every piece of a document, put together in batch order, is what the transcript's digest was made of."""
    navigator = charted.navigator
    for run, step in (("rung/d32", 1), ("rung/d32", 17), ("hero", 13), ("hero/2", 24)):
        told = facts("batch", run, str(step), "--prove")
        assert told["proof"]["holds"]
        leg = navigator.course(run).leg(step)
        tokens: list[int] = []
        for row in told["rows"]:
            held = leg.documents(row["component"])
            offset = held.offsets[held.ids.index(row["document"])]
            tokens += charted.streams[row["component"]][offset + row["first_token"] : offset + row["stop_token"]]
        ids = leg.order.ids(step)
        names = leg.order.facts.names
        assert tokens == [
            token for number, one in ids for token in charted.streams[names[number]][one * LENGTH : (one + 1) * LENGTH]
        ]
        assert [(names.index(row["component"]), row["sequence"]) for row in told["rows"]] == [
            ids[row["position"]] for row in told["rows"]
        ]
        assert sorted({row["position"] for row in told["rows"]}) == list(range(BATCH))


def test_a_batch_reads_no_token(charted, facts):
    before = facts("batch", "hero", "13")
    for domain in DOMAINS:
        shutil.rmtree(charted.root / TOKENS / domain / "train/input_ids")
    assert facts("batch", "hero", "13") == before


@pytest.mark.slow
def test_seen_agrees_with_the_batches(charted, facts):
    """Random documents: the steps, times and tokens of ``seen`` are those of all batches together."""
    rows = {run: rows_of(facts, run, range(1, STEPS + 1)) for run in ("rung/d32", "hero")}
    documents = sorted({row["document"] for row in rows["hero"]})
    navigator = charted.navigator
    silent = navigator.course("hero").legs[0].documents("prose").ids[0]
    for document in [*random.Random(4).sample(documents, 6), silent]:
        seen = facts("seen", document[:16])
        assert seen["name"] == document
        told = {one["run"]: one for one in seen["runs"]}
        assert set(told) == {"rung/d32", "rung/d48", "hero"}
        for run, found in rows.items():
            mine = [row for row in found if row["document"] == document]
            steps = [step for one in told[run]["segments"] for a, b in one["steps"] for step in range(a, b + 1)]
            assert steps == sorted({row["step"] for row in mine})
            assert sum(one["sequences"] for one in told[run]["segments"]) == len(mine)
            tokens = sum(row["stop_token"] - row["first_token"] for row in mine)
            assert sum(one["tokens"] for one in told[run]["segments"]) == tokens
            for kept in told[run]["checkpoints"]:
                before = [row for row in mine if row["step"] <= int(kept["name"].rpartition("-")[2])]
                assert kept["sequences"] == len(before)
                assert (kept["name"] in told[run]["free"]) == (not before)
    assert [one["name"] for one in told["hero"]["checkpoints"]] == [
        "hero/1@step-6", "hero/1@step-12", "hero/2@step-18", "hero/2@step-24",
    ]  # fmt: skip
    assert told["hero"]["free"] == [one["name"] for one in told["hero"]["checkpoints"]]


@pytest.mark.parametrize(
    ("option", "name", "column"),
    [("--shard", "math/train-00001.parquet", "shard"), ("--source", "math-extra", "source")],
)
def test_shards_and_packages_agree_with_the_batches(charted, facts, option, name, column):
    rows = [row for row in rows_of(facts, "hero", range(1, STEPS + 1)) if row[column] == name]
    assert rows
    (seen,) = facts("seen", option, name, "--run", "hero")["runs"]
    steps = {step for one in seen["segments"] for a, b in one["steps"] for step in range(a, b + 1)}
    assert steps == {row["step"] for row in rows}
    sequences = Counter((row["step"], row["position"]) for row in rows)
    assert sum(one["sequences"] for one in seen["segments"]) == len(sequences)
    tokens = sum(row["stop_token"] - row["first_token"] for row in rows)
    assert sum(one["tokens"] for one in seen["segments"]) == tokens


def test_a_heldout_document_is_free_everywhere(charted, facts):
    leg = charted.navigator.course("hero").legs[0]
    seen = facts("seen", leg.documents("code", "heldout").ids[1])
    assert (seen["documents"], seen["heldout"]) == (1, 1)
    assert all(len(run["free"]) == len(run["checkpoints"]) for run in seen["runs"])


def test_counts_stand_beside_the_weights(charted, reckon, facts):
    (first, second) = facts("order", "hero")["segments"]
    assert [phase["silent"] for phase in first["phases"]] == [["prose"]]
    shares = {one["component"]: one for one in first["phases"][0]["shares"]}
    assert {name: (one["weight"], one["per_block"]) for name, one in shares.items()} == {
        "code": (60, 5), "math": (39, 3), "prose": (1, 0),
    }  # fmt: skip
    drawn = [one["drawn"] for segment in (first, second) for phase in segment["phases"] for one in phase["shares"]]
    assert sum(drawn) == STEPS * BATCH
    page = reckon("order", "hero").stdout
    assert "prose has a weight and gets nothing in steps 1:12" in page
    assert "12" in page


def test_pages_are_plain_lines(charted, reckon):
    assert "Step 13 of hero/2: 4 sequences of 8 tokens" in reckon("batch", "hero", "13").stdout
    page = reckon("seen", "--source", "prose-lib").stdout
    assert "never" in page
    assert "free" in page
    assert "Holds: 1 batch was made again" in reckon("batch", "hero", "13", "--prove").stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["batch", "hero", "25"], "steps 1 to 24"),
        (["batch", "hero/2", "3"], "steps 13 to 24"),
        (["batch", "rung", "1"], "more than one run"),
        (["batch", "tokens/code", "1"], "tokens/code has no batches and no order of data: only runs have"),
        (["order", "tokens"], "Name a run, such as rung/d48; known are hero, rung/d32"),
        (["batch", "nothing", "1"], "Known are"),
        (["batch", "hero/3", "1"], "hero/2"),
        (["batch", "hero", "0"], "range"),
        (["order", "hero", "--prove", "5:3"], "range of steps"),
        (["order", "hero", "--prove", "0:3"], "range of steps"),
        (["order", "hero", "--prove", "20:25"], "steps 1 to 24"),
        (["seen"], "DOCUMENT"),
        (["seen", "abc"], "not the id"),
        (["seen", "zzzzzzzzzz"], "not the id"),
        (["seen", "00000000"], "No document"),
        (["seen", "--shard", "code/train-00009.parquet"], "train-00001"),
        (["seen", "--source", "math-libs"], "math-lib"),
        (["seen", "--source", "a", "--shard", "b"], "DOCUMENT"),
    ],
)
def test_bad_input_is_refused_with_words(charted, reckon, arguments, words):
    ended = reckon(*arguments)
    assert ended.status == 2
    assert words in ended.stderr
    assert not ended.stdout


def test_altered_facts_are_not_answered_from(charted, reckon):
    """Without any copy that has the recorded bytes there is no answer; with one there is."""
    charted.edit("artifacts/hero/2/order.json", seed=6)
    assert reckon("batch", "hero", "20").status == 0
    shutil.rmtree(charted.root / ".dvc/cache")
    shutil.rmtree(charted.root / "artifacts/store")
    ended = reckon("batch", "hero", "20")
    assert ended.status == 1
    assert "other bytes" in ended.stderr


def test_a_shard_that_lies_nowhere_leaves_the_source_open(charted, facts, reckon):
    shutil.rmtree(charted.root / ".dvc/cache")
    shutil.rmtree(charted.root / "artifacts/store")
    shutil.rmtree(charted.root / "artifacts/shards/code")
    rows = facts("batch", "hero", "20")["rows"]
    assert {row["source"] for row in rows if row["component"] == "code"} <= {None}
    assert all(row["source"] for row in rows if row["component"] == "math")


def test_an_empty_archive_has_no_runs(tmp_path, monkeypatch, reckon):
    (tmp_path / "dvc.yaml").write_text("stages: {}\n")
    monkeypatch.chdir(tmp_path)
    assert "No run is on record" in reckon("seen", "00000000").stderr
    assert reckon("batch", "hero", "1").status == 2
