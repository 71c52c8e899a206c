"""``reckon incident``, and where incidents and taints show: in the tree, at the artifact, at the step."""

from __future__ import annotations

import json
import re

import pytest
from fakes.workshop import FakeHost

from registry.cli import wiring
from registry.core.incidents import Kind

SHARD = "shards:math/train-00001.parquet"


@pytest.fixture
def noted(charted, reckon, monkeypatch):
    """Write incidents down in the charted archive, with a clock that never repeats itself."""
    host = FakeHost()
    monkeypatch.setattr(wiring, "host", lambda: host)

    def add(*arguments: str, kind: Kind, text: str = "It happened."):
        ended = reckon("incident", "add", *arguments, "--kind", kind.value, "--text", text, "--json")
        assert ended.status == 0, ended.stderr
        return json.loads(ended.stdout)

    return add


def labels(reckon, *arguments: str) -> dict[str, list[str]]:
    """What the lines of a tree say in brackets, by name."""
    found: dict[str, list[str]] = {}
    for line in reckon("tree", *arguments).stdout.splitlines():
        name = line.split()[1] if "parent" in line.split()[:1] else line.split()[0]
        found.setdefault(name, re.findall(r"\[(.*?)\]", line))
    return found


def test_every_kind_is_written_down_and_listed(charted, noted, reckon):
    for kind in Kind:
        told = noted("hero/2", "--steps", "14:16", kind=kind)
        path = charted.root / f"manifests/incidents/{told['record'].removeprefix('sha256:')}.json"
        assert json.loads(path.read_bytes())["incident"] == kind.value
    listed = json.loads(reckon("incident", "list", "hero", "--json").stdout)["incidents"]
    assert [one["incident"] for one in listed] == [kind.value for kind in Kind]
    assert {(one["first_step"], one["last_step"]) for one in listed} == {(14, 16)}
    page = reckon("incident", "list").stdout
    assert all(kind.value in page for kind in Kind)
    assert "14:16" in page


def test_records_are_appended_never_replaced(charted, noted):
    first = noted("hero/2", "--steps", "14", kind=Kind.HANG)
    before = (charted.root / f"manifests/incidents/{first['record'].removeprefix('sha256:')}.json").read_bytes()
    second = noted("hero/2", "--steps", "14", kind=Kind.HANG)
    assert first["record"] != second["record"]
    assert len(list((charted.root / "manifests/incidents").iterdir())) == 2
    assert (charted.root / f"manifests/incidents/{first['record'].removeprefix('sha256:')}.json").read_bytes() == before


def test_an_incident_shows_where_its_steps_are(charted, noted, reckon):
    noted("hero", "--steps", "14:16", kind=Kind.LOSS_SPIKE, text="after the switch")
    assert labels(reckon, "hero/2")["hero/2"] == ["loss-spike 14:16"]
    assert labels(reckon, "hero/2")["hero/1@step-12"] == []
    assert labels(reckon, "hero/2@step-18")["hero/2@step-18"] == ["loss-spike 14:16"]
    shown = json.loads(reckon("show", "hero/2", "--json").stdout)
    assert [event["incident"] for event in shown["incidents"]] == ["loss-spike"]
    assert json.loads(reckon("show", "hero/1", "--json").stdout)["incidents"] == []
    assert "after the switch" in reckon("show", "hero/2").stdout
    batches = {step: json.loads(reckon("batch", "hero", str(step), "--json").stdout) for step in (13, 14, 16, 17)}
    assert [len(batch["incidents"]) for batch in batches.values()] == [0, 1, 1, 0]
    assert "loss-spike 14:16: after the switch" in reckon("batch", "hero", "14").stdout


def test_what_training_noticed_shows_too(charted, reckon):
    told = {"kind": "dropped-tokens", "first_step": 20, "last_step": 21, "text": "0.3 were dropped."}
    charted.record("hero/2", ["hero/1@step-12"], parent=charted_parent(charted), incidents=(told,))
    (event,) = json.loads(reckon("incident", "list", "hero/2", "--json").stdout)["incidents"]
    assert (event["incident"], event["automatic"]) == ("dropped-tokens", True)
    assert labels(reckon, "hero/2")["hero/2"] == ["dropped-tokens 20:21"]
    assert labels(reckon, "hero/2@step-18")["hero/2@step-18"] == []


def charted_parent(charted):
    from support.charted import _parent_facts

    return _parent_facts(charted, "hero/1@step-12")


def test_a_taint_on_a_shard_flows_to_all_that_descends_from_it(charted, noted, reckon):
    noted(SHARD, kind=Kind.DATA_TAINT, text="test set inside")
    found = labels(reckon, "hero/2")
    assert {name for name, words in found.items() if words != [f"tainted by {SHARD}"]} == {"shards"}
    shown = json.loads(reckon("show", "hero/2", "--json").stdout)
    assert [taint["via"] for taint in shown["taints"]] == [[SHARD, "tokens/code", "hero/2"]]
    assert "Tainted: " + SHARD in reckon("show", "hero/2").stdout


def test_a_taint_on_the_tokenizer_leaves_the_shards_alone(charted, noted, reckon):
    noted("tokenizer", kind=Kind.DATA_TAINT)
    found = labels(reckon, "rung/d32")
    assert found["shards"] == []
    assert found["tokens/code"] == found["rung/d32"] == ["tainted by tokenizer"]


def test_a_taint_on_steps_leaves_earlier_checkpoints_free(charted, noted, reckon):
    noted("hero/1", "--steps", "7:9", kind=Kind.DATA_TAINT)
    assert labels(reckon, "hero/2")["hero/2"] == ["tainted by hero/1"]
    taints = {
        name: json.loads(reckon("show", name, "--json").stdout)["taints"]
        for name in ("hero/1@step-6", "hero/1@step-12", "hero/1", "hero/2@step-18", "rung/d32")
    }
    assert [name for name, found in taints.items() if found] == ["hero/1@step-12", "hero/1", "hero/2@step-18"]
    later = noted("hero/1", "--steps", "12", kind=Kind.DATA_TAINT)
    assert later["first_step"] == 12


def test_a_repaired_shard_is_not_tainted(charted, noted, reckon):
    noted(SHARD, kind=Kind.DATA_TAINT)
    charted.flip(charted.root / "artifacts/shards/math/train-00001.parquet", 40)
    charted.record("shards")
    assert json.loads(reckon("show", "shards", "--json").stdout)["taints"] == []
    assert labels(reckon, "rung/d32")["rung/d32"] == [f"tainted by {SHARD}"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["hero/9", "--steps", "1", "--kind", "nan", "--text", "x"], "hero/2 or hero/1"),
        (["hero/2", "--kind", "nan", "--text", "x"], "--steps"),
        (["hero/2", "--steps", "20:25", "--kind", "nan", "--text", "x"], "step 24"),
        (["hero/2", "--steps", "9:3", "--kind", "nan", "--text", "x"], "range of steps"),
        (["shards", "--steps", "1:3", "--kind", "nan", "--text", "x"], "not trained in steps"),
        (["hero/2@step-18", "--steps", "1:3", "--kind", "nan", "--text", "x"], "no steps of its own"),
        (["hero/2@step-19", "--kind", "data-taint", "--text", "x"], "hero/2@step-18"),
        (["shards:code/none.parquet", "--kind", "data-taint", "--text", "x"], "no file"),
        (["shards:../../etc/passwd", "--kind", "data-taint", "--text", "x"], "relative path"),
        (["Hero/2", "--steps", "1", "--kind", "nan", "--text", "x"], "not a name"),
        (["hero/2", "--steps", "14", "--kind", "mutiny", "--text", "x"], "hang"),
        (["hero/2", "--steps", "14", "--kind", "hang", "--text", " "], "printable"),
        (["hero/2", "--steps", "14", "--kind", "hang", "--text", "\x1b[2J"], "printable"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_written(charted, reckon, arguments, words):
    ended = reckon("incident", "add", *arguments)
    assert ended.status == 2
    assert words in ended.stderr
    assert not (charted.root / "manifests/incidents").exists()


def test_a_damaged_record_is_told_and_hides_no_other(charted, noted, reckon):
    noted("hero/2", "--steps", "14", kind=Kind.HANG)
    bad = charted.root / "manifests/incidents" / ("0" * 64 + ".json")
    bad.write_bytes(b"{}")
    ended = reckon("incident", "list")
    assert "hang" in ended.stdout
    assert "0000" in ended.stderr
    assert reckon("tree", "hero/2").status == 0


def test_no_incident_is_said_in_words(charted, reckon):
    assert "No incident is on record" in reckon("incident", "list").stdout
