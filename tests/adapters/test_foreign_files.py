"""Sidecars of Marin and collections of figures: read as they are, and refused when they are something else."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.foreign import TIME, document

from registry.adapters.foreign_files import Shape, locate, read_bytes, status_beside
from registry.adapters.ladder_facts import _CONSTANTS, is_collection
from registry.adapters.ladder_facts import document as taken_apart
from registry.adapters.marin_files import records
from registry.core.adopted.document import records_of
from registry.core.adopted.foreign import LARGEST_BYTES, claims, clean, read_json, slug
from registry.core.adopted.record import Adopted, Bond, Ended
from registry.core.codec import record_bytes
from registry.core.digests import sha256
from registry.errors import MalformedRecord, Refused

SHARED = Path(__file__).resolve().parents[3] / "shared/facts/ladder.json"
HOME = "/" + "home/"
COMMIT = "5c30756624d5fa5b2009bbc65b1d8beec7c49b40"
ARTIFACT = {
    "name": "Tokenized/Nemotron",
    "version": "v3",
    "fingerprint": "9f8e7d6c",
    "result_type": "marin.processing.TokenizedCache",
    "output_path": "s3://bucket/tokenized/nemotron-9f8e7d",
    "deps": ["raw/nemotron@v1", "tokenizer@a5ca45f"],
    "config": {"format": {"text_key": "text"}, "weights": [0.25, 0.75]},
    "result": {"tokens": 12345678901234567890, "loss": 2.5},
    "fingerprint_payload": "{}",
    "provenance": {
        "git_commit": COMMIT,
        "user": "somebody",
        "command_line": [HOME + "somebody/run.py"],
        "created_at": "2026-08-18T10:00:00",
    },
}
STEP = {
    "name": "tokenized/fineweb",
    "fn_name": "marin.tokenize",
    "config": {"cache_path": "gs://bucket/x"},
    "version": {"tokenizer": "llama3"},
    "dependencies": ["gs://bucket/raw/fineweb-123"],
    "output_path": "gs://bucket/tokenized/fineweb-456",
}


def read(value: object, status: bytes | None = None) -> tuple[Adopted, ...]:
    return records(json.dumps(value).encode(), status, TIME)


def told(record: Adopted) -> dict[str, str]:
    return {claim.quantity: claim.value for claim in record.claims}


def test_an_artifact_is_read_with_its_inputs_and_without_anybodys_account():
    (record,) = read(ARTIFACT)
    facts = told(record)
    assert record.name == "marin/artifact/tokenized/nemotron/v3"
    assert record.ended is Ended.COMPLETE
    assert facts["commit"] == COMMIT
    assert facts["result.tokens"] == "12345678901234567890"
    assert facts["result.loss"] == "2.5"
    assert facts["config.format.text_key"] == "text"
    assert [(link.bond, link.name) for link in record.links] == [
        (Bond.INPUT, "marin/artifact/raw/nemotron/v1"),
        (Bond.INPUT, "marin/artifact/tokenizer/a5ca45f"),
    ]
    assert b"somebody" not in record_bytes(record)
    assert record.origin.digest == sha256(json.dumps(ARTIFACT).encode())


def test_an_old_bare_result_is_one_without_a_name():
    (record,) = read({"version": "v1", "output_dir": "s3://b/x", "result": {"rows": 5}})
    assert told(record)["result.result.rows"] == "5"


@pytest.mark.parametrize(
    ("status", "ended"),
    [
        (None, Ended.UNKNOWN),
        (b"SUCCESS", Ended.COMPLETE),
        (b'{"status": "FAILED"}', Ended.FAILED),
        (b"SUCCESS FAILED", Ended.UNKNOWN),
        (b"\xff\x00", Ended.UNKNOWN),
    ],
)
def test_a_step_ended_as_the_file_beside_it_says(status, ended):
    assert read(STEP, status)[0].ended is ended


def test_a_plan_is_no_execution_whatever_lies_beside_it():
    (record,) = read({**STEP, "executor_version": "step_runner"}, b"SUCCESS")
    assert record.ended is Ended.PLANNED


def test_a_launch_tells_of_its_steps_as_planned_with_one_commit():
    after = {**STEP, "name": "b", "output_path": "gs://bucket/b-7", "dependencies": [STEP["output_path"]]}
    found = read({"git_commit": COMMIT, "user": "x", "prefix": "gs://bucket", "steps": [STEP, after]})
    assert found[1].links[0].name == found[0].name == "marin/artifact/gs/bucket/tokenized/fineweb-456"
    assert [one.ended for one in found] == [Ended.PLANNED] * 2
    assert {told(one)["commit"] for one in found} == {COMMIT}


@pytest.mark.parametrize("value", [[], 5, "x", None, {}, {"steps": [1], "fn_name": "x"}, {"hello": 1}])
def test_json_of_another_shape_is_refused(value):
    with pytest.raises(Refused):
        read(value)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(st.sampled_from(sorted(ARTIFACT)), VALUES)
def test_any_value_in_an_artifact_is_read_or_refused(key, value):
    try:
        (record,) = read({**ARTIFACT, key: value})
    except Refused:
        return
    assert Adopted.from_json(record.to_json()) == record


@given(st.sampled_from(sorted(STEP)), VALUES)
def test_any_value_in_a_step_is_read_or_refused(key, value):
    try:
        found = read({**STEP, key: value})
    except Refused:
        return
    assert all(Adopted.from_json(one.to_json()) == one for one in found)


@given(st.text(max_size=80))
def test_any_text_becomes_a_name_and_a_printable_line(text):
    assert Adopted.from_json(read({**STEP, "name": text or "x"})[0].to_json())
    assert clean(text).isprintable()
    assert slug(text)


@pytest.mark.parametrize(
    "text", ["file://" + HOME + "me/x", HOME + "me/secret/run.py", "https://me:pass@host/x", "s3://host/x?token=abc"]
)
def test_secrets_and_places_of_a_machine_are_left_out(text):
    told_again = clean(f"see {text} there")
    assert not any(part in told_again for part in ("home/me", "pass@", "token=abc"))


@pytest.mark.parametrize(
    "data", [b"[" * 100_000, b'{"a":1,"a":2}', b"\xff", b"", b"{", b'{"a":"\\ud800"}', b" " * (LARGEST_BYTES + 1)]
)
def test_odd_json_is_refused(data):
    with pytest.raises(MalformedRecord):
        read_json(data, "it")


def test_more_facts_than_a_record_has_are_refused():
    with pytest.raises(MalformedRecord, match="facts"):
        claims({str(n): n for n in range(6000)}, "s")


# Files.


def test_what_lies_at_a_place_is_known_by_its_shape(tmp_path: Path):
    (tmp_path / "a").mkdir()
    with pytest.raises(Refused, match="no foreign record"):
        locate(tmp_path / "a")
    (tmp_path / "a/.executor_info").write_bytes(b"{}")
    assert locate(tmp_path / "a") == (Shape.JSON, tmp_path / "a/.executor_info")
    (tmp_path / "a/.artifact.json").write_bytes(b"{}")
    assert locate(tmp_path / "a")[1].name == ".artifact.json"
    assert status_beside(tmp_path / "a/.executor_info") is None
    (tmp_path / "a/.executor_status").write_bytes(b"SUCCESS")
    assert status_beside(tmp_path / "a/.executor_info") == b"SUCCESS"
    assert locate(tmp_path / "run-x.wandb") == (Shape.WANDB, tmp_path / "run-x.wandb")


def test_links_devices_and_large_files_are_refused(tmp_path: Path):
    (tmp_path / "real").write_bytes(b"{}")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(LARGEST_BYTES + 1)
    assert read_bytes(tmp_path / "real") == b"{}"
    for name in ("link", "pipe", "large", "absent"):
        with pytest.raises(Refused):
            read_bytes(tmp_path / name)


# Collections of figures.


def collection() -> dict[str, Any]:
    """A small collection in the collectors' layout, with figures of nobody."""
    table = dict.fromkeys(
        ("tokens", "flops", "muonh_lr", "adam_lr", "beta2", "eps", "active_params", "total_params"), "1e9"
    )
    shape = {
        "hidden": 768,
        "layers": 8,
        "heads": 6,
        "kv_heads": [1, 1],
        "batch_sequences": 1024,
        "racks": 1,
        "gpus": 64,
    }
    rung = {**table, **shape, "label": "x", "steps": 100, "phase_switch_step": 80}
    common = dict.fromkeys(("vocab", *_CONSTANTS, "last_layer_global", "grad_clip", "ema"), "1")
    return {
        "what": "nobody's",
        "sources": {"launcher": "l @ 1", "shapes": "s @ 2", "mixture_log": "m", "hero": "h", "launches": "r"},
        "common": {**common, "optimizers": {"rest": "Adam"}, "mesh_axes": ["data", "expert=64"]},
        "formulas": {"steps": "s"},
        "tolerances": {"t": "0.1"},
        "data": {
            "pool_tokens": "2e12 from 3 sources",
            "after_dedup_tokens": "1e12",
            "cells": "4 = 2 x 2",
            "mixture_block_sequences": 1,
            "note": "n",
            "shuffle": "s",
            "tokenizer": "t",
            "redistributable": False,
        },
        "rungs": {
            "d768": {**rung, "status": "complete", "final_paloma_macro_loss": "3"},
            "d9": {
                **rung,
                "predicted_paloma_macro_loss": "2",
                "status": "running; about step 60 (May)",
                "checkpoint": {"size": "5 TB", "objects": "7 (8)", "permanent_every_steps": 10, "one_off": [5]},
            },
        },
        "hero_segments": [
            {"run": "a", "steps": [0, 20], "commit": "a" * 40, "reason": "r", "parent": None},
            {"run": "b", "steps": [20, None], "commit": "b" * 10, "reason": "r", "parent": "step 20 (deleted)"},
        ],
        "rejected_trials": [{"run": "t-step20", "steps": [20, 25], "commit": "c" * 10, "outcome": "hang"}],
        "contradictions_in_the_public_record": [
            {"item": "data store behind the tag t-1", "one": "sa for the a (1.5T)", "other": "sb for the b (1.6T)"}
        ],
    }


def test_a_collection_is_taken_apart_into_claims():
    assert is_collection(collection())
    found = {one.name: one for one in records_of(taken_apart(collection()), sha256(b""), TIME)}
    assert set(found) == {
        "marin", "marin/data/t-1", "marin/rung/d768", "marin/hero", "marin/hero/1", "marin/hero/2",
        "marin/hero/trial-20", "marin/forecast",
    }  # fmt: skip
    lost = found["marin/hero/2"].links[0].absence
    assert lost is not None
    assert lost.reason == "deleted"


def test_without_a_pair_its_claims_are_not_there():
    value = {**collection(), "contradictions_in_the_public_record": []}
    found = {one.name: one for one in records_of(taken_apart(value), sha256(b""), TIME)}
    assert not [claim for claim in found["marin/data"].claims if claim.quantity == "store"]


@pytest.mark.parametrize("key", sorted(collection()))
def test_a_collection_that_lacks_a_part_is_refused(key):
    value = collection()
    del value[key]
    with pytest.raises(Refused, match="another way"):
        taken_apart(value)


@given(st.sampled_from(sorted(collection())), VALUES)
def test_any_value_in_a_collection_is_read_or_refused(key, value):
    try:
        found = records_of(taken_apart({**collection(), key: value}), sha256(b""), TIME)
    except Refused:
        return
    assert all(Adopted.from_json(one.to_json()) == one for one in found)


def test_the_committed_document_says_what_the_collection_says():
    """Where the collection lies beside the checkout, figure by figure; the document stands by itself elsewhere."""
    ours = records_of(document(), sha256(b""), TIME)
    collected = json.loads(SHARED.read_text()) if SHARED.is_file() else None
    assert len(ours) == 17
    assert collected is None or records_of(taken_apart(collected), sha256(b""), TIME) == ours
