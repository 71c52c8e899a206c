"""What an audit says of archives in which nothing is wrong, and of those in which not everything can be looked at."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support.heroic import Hero
from support.shipyard import Shipyard

from registry.core.audit.edges import Kind, Place, State, worst
from registry.core.audit.judging import Audit, Looked
from registry.core.codec import record_bytes
from registry.core.digests import sha256
from registry.core.findings import Trouble
from registry.core.incidents import Incident
from registry.core.incidents import Kind as Happening
from registry.core.records import Execution

ROOT = Path(__file__).resolve().parents[2]


def audited(reckon, name: str = "handoff", *arguments: str) -> tuple[int, dict, dict[str, str]]:
    ended = reckon("audit", name, *arguments, "--json")
    assert ended.stdout, ended.stderr
    audit = json.loads(ended.stdout)
    return ended.status, audit, {edge["id"]: edge["state"] for edge in audit["edges"]}


def test_states_are_ordered_from_best_to_worst():
    assert [state.value for state in State] == [
        "verified", "attested", "claimed", "withheld", "missing", "contradicted",
    ]  # fmt: skip
    assert worst(State) is State.CONTRADICTED
    assert worst([State.CLAIMED, State.VERIFIED]) is State.CLAIMED
    assert worst([]) is None


def test_a_finding_decides_the_state_of_its_edge():
    place = Place("hero/2", Kind.INPUT, "tokens/code")
    gone, other = (place.finding(trouble, "") for trouble in (Trouble.MISSING, Trouble.TIME))
    assert place.edge(State.VERIFIED, "").id == "hero/2+input=tokens/code"
    assert place.edge(State.VERIFIED, "", [gone]).state is State.MISSING
    assert place.edge(State.VERIFIED, "", [gone, other]).state is State.CONTRADICTED


# Edges that need a tracker, a lowered program or somebody's word, and those of releases and of foreign records.
ELSEWHERE = {"attestation", "card", "figure", "files", "program", "signature", "tracker"}


def test_an_audit_that_checked_nothing_does_not_hold():
    claimed = Place("a", Kind.BYTES).edge(State.CLAIMED, "")
    empty = Audit(
        name="a",
        product=sha256(b""),
        depth="records",
        edges=(claimed,),
        looked=Looked(),
        reproduced=(),
        consulted={},
        marks=(),
    )
    assert not empty.holds
    assert not replace(empty, edges=()).holds
    assert replace(empty, edges=(claimed, Place("a", Kind.RECORD).edge(State.VERIFIED, ""))).holds


def test_every_kind_of_edge_is_walked(built, reckon, monkeypatch):
    monkeypatch.chdir(built.root)
    _, audit, states = audited(reckon)
    kinds = {kind.value for kind in Kind} - ELSEWHERE
    assert {edge.partition("+")[2].partition("=")[0] for edge in states} == kinds
    assert {edge.partition("+")[0].partition("@")[0] for edge in states} == {
        "manifests", "handoff", "hero/1", "hero/2", "data", "words", "stream/code", "stream/prose", "forecast",
        "rung/a", "rung/b", "rung/c",
    }  # fmt: skip
    assert audit["coverage"]["looked"]["size_bytes"] > 10_000
    assert audit["coverage"]["total_steps"] == 18


def test_records_alone_take_bytes_at_their_word(built, reckon, monkeypatch):
    monkeypatch.chdir(built.root)
    status, audit, states = audited(reckon, "handoff", "--depth", "records")
    assert (status, audit["coverage"]["looked"]["files"], states["data+bytes"]) == (0, 0, "claimed")
    assert audit["consulted"]["DVC cache"] == "not consulted: only records were read"


@pytest.mark.slow
def test_a_clone_without_artifacts_holds_by_its_records_and_not_by_its_bytes(ship, tmp_path, reckon, monkeypatch):
    subprocess.run(["git", "clone", "-q", str(ship.root), str(tmp_path / "clone")], check=True)
    monkeypatch.chdir(tmp_path / "clone")
    status, _, states = audited(reckon, "handoff", "--depth", "records")
    assert (status, states["hero/1+transcript"], states["handoff+code"]) == (0, "claimed", "verified")
    status, audit, states = audited(reckon)
    assert (status, audit["verdict"], states["data+bytes"], states["hero/1@step-4+weights"]) == (
        1, "missing", "missing", "missing",
    )  # fmt: skip
    assert audit["consulted"]["DVC cache"].startswith("not consulted")


@pytest.mark.slow
def test_without_git_its_edges_are_claimed(ship, reckon, monkeypatch):
    shutil.rmtree(ship.root / ".git")
    monkeypatch.chdir(ship.root)
    status, audit, states = audited(reckon)
    assert (status, audit["consulted"]["git"]) == (0, "not consulted: no repository here")
    assert {states[f"handoff+{kind}"] for kind in ("code", "config", "commit", "lock")} == {"claimed"}
    assert states["handoff+input=README.md"] == "claimed"


@pytest.mark.slow
def test_a_dirty_execution_is_marked_and_proves_nothing_of_its_code(ship, reckon, monkeypatch):
    ship.write("train/ship.py", "print('changed')\n")
    ship.run("handoff")
    monkeypatch.chdir(ship.root)
    status, audit, states = audited(reckon)
    assert status == 0
    assert [mark["holder"] for mark in audit["marks"] if mark["what"] == "dirty"] == ["handoff"]
    assert {states[f"handoff+{kind}"] for kind in ("code", "commit", "config", "lock")} == {"claimed"}
    assert states["hero/2+code"] == "verified"
    assert "dirty" in reckon("audit", "handoff").stdout


@pytest.mark.slow
def test_a_second_execution_is_a_witness_and_raises_the_tier(ship, reckon, monkeypatch):
    ship.run("hero/1")
    monkeypatch.chdir(ship.root)
    status, audit, _ = audited(reckon)
    made = {one["holder"]: one["standing"] for one in audit["reproduced"]}
    assert (status, made["hero/1"]["tier"], made["hero/1"]["replayed_steps"], audit["tier"]) == (0, "T1", 4, "T0")
    assert (audit["coverage"]["replayed_steps"], audit["coverage"]["total_steps"]) == (4, 18)


@pytest.mark.slow
def test_a_product_that_a_newer_one_replaced_is_judged_by_the_cache(ship, reckon, monkeypatch):
    ship.write("params.yaml", ship.read("params.yaml").replace(b"shards: 20", b"shards: 21"))
    ship.commit()
    old = ship.head("data")[2].outputs[0]
    ship.run("data")
    monkeypatch.chdir(ship.root)
    status, _, states = audited(reckon, "hero/2")
    assert (status, states["data+bytes"]) == (0, "verified")
    listed = old.locator
    (ship.root / f".dvc/cache/files/md5/{listed[:2]}/{listed[2:]}").unlink()
    status, _, states = audited(reckon, "hero/2")
    assert (status, states["data+bytes"]) == (1, "missing")


@pytest.mark.slow
def test_a_declared_rewind_is_no_stale_head(ship, reckon, monkeypatch):
    ship.write("params.yaml", ship.read("params.yaml").replace(b"parent: hero/1@step-4", b"parent: hero/1@step-2"))
    ship.write("dvc.yaml", ship.read("dvc.yaml").replace(b"hero/1/checkpoints/step-4", b"hero/1/checkpoints/step-2"))
    ship.commit()
    ship.run("hero/2")
    monkeypatch.chdir(ship.root)
    assert audited(reckon, "hero/2")[2]["hero/2+parent=hero/1@step-2"] == "contradicted"
    rewind = Incident(
        about="hero",
        digest=None,
        incident=Happening.REWIND,
        first_step=3,
        last_step=4,
        text="the loss ran away",
        time="2026-12-01T00:00:00.000000Z",
    )
    ship.records.put(Incident.KIND, record_bytes(rewind))
    status, audit, states = audited(reckon, "hero/2")
    assert (status, states["hero/2+parent=hero/1@step-2"]) == (0, "verified")
    assert [mark for mark in audit["marks"] if mark["what"] == "rewind 3:4"]


@pytest.mark.slow
def test_a_taint_is_marked_on_all_that_descends(ship, reckon, monkeypatch):
    monkeypatch.chdir(ship.root)
    taint = reckon("incident", "add", "words", "--kind", "data-taint", "--text", "trained on the test set")
    assert taint.status == 0, taint.stderr
    status, audit, _ = audited(reckon)
    tainted = {mark["holder"] for mark in audit["marks"] if mark["what"] == "tainted"}
    assert status == 0
    assert {"handoff", "hero/2", "hero/1", "stream/code", "words"} <= tainted
    assert "data" not in tainted


def test_the_answer_reads_well(built, reckon, monkeypatch):
    monkeypatch.chdir(built.root)
    shown = reckon("audit", "handoff").stdout
    assert "Holds. The worst edge of handoff is claimed: only the record says so" in shown
    assert "Coverage: " in shown
    assert "tier T0" in shown
    assert shown.count("\n") < 250


def test_a_file_and_an_unknown_name_are_refused(built, reckon, monkeypatch, tmp_path):
    monkeypatch.chdir(built.root)
    assert reckon("audit", "data:code/train-00003.parquet").status == 2
    assert reckon("audit", "handof").status == 2
    assert reckon("audit").status == 2
    monkeypatch.chdir(tmp_path)
    assert reckon("audit", "handoff").status == 2


def test_a_small_hero_is_audited_like_a_large_one(tmp_path, reckon, monkeypatch):
    Hero(root=tmp_path, checkpoints=2, objects=50, components=3, shards=40, segments=3, steps=90).build()
    monkeypatch.chdir(tmp_path)
    status, audit, states = audited(reckon, "export", "--depth", "records")
    assert (status, [edge for edge in audit["edges"] if edge["findings"]]) == (0, [])
    assert (states["hero/3+transcript"], states["hero/2+order"]) == ("verified", "verified")
    transcript = tmp_path / "artifacts/hero/2/transcript.jsonl"
    transcript.write_bytes(transcript.read_bytes()[:-10])
    assert audited(reckon, "export", "--depth", "records")[0] == 1


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_hero_of_the_published_size_takes_little_memory(tmp_path):
    """The peak is that of the auditing process alone, which tells it as its last word.

    It is the kernel's figure for this address space: ``ru_maxrss`` begins at the parent's size, since a child
    shares the parent's pages until it executes.
    """
    Hero(root=tmp_path).build()
    script = (
        "import sys; from registry.cli.main import run; "
        "status = run(['audit', 'export', '--depth', 'records', '--json']); "
        "peak = next(line for line in open('/proc/self/status') if line.startswith('VmHWM')); "
        "sys.stderr.write(peak.split()[1]); sys.exit(status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=True,
    )
    audit = json.loads(done.stdout)
    assert audit["holds"]
    assert audit["coverage"]["total_steps"] == 390_251
    assert int(done.stderr.split()[-1]) < 2**20, "kibibytes"


def test_executions_without_a_clock_are_told(ship: Shipyard, reckon, monkeypatch):
    ship.forge_execution("rung/a", lambda one: replace(one, started="yesterday"))
    ship.commit()
    monkeypatch.chdir(ship.root)
    status, audit, states = audited(reckon)
    assert (status, states["rung/a+record"]) == (1, "contradicted")
    assert Execution.KIND == "execution"
    assert audit["verdict"] == "contradicted"
