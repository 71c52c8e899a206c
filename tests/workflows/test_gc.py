"""A clean-up of a recorded archive: what each kind of root keeps, what goes, and that nothing reached is ever lost."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from fakes.workshop import FakeHost
from support import charted as charts
from support.charted import DOMAINS, STEPS, Charted

from registry.cli import charting, wiring
from registry.core import canonical
from registry.core.codec import record_bytes
from registry.core.digests import sha256
from registry.core.incidents import Kind

STATE = "state.safetensors"
OLD = "rung/d32"


class LaterHost(FakeHost):
    """A host whose clock is a year ahead of everything in the archive."""

    def now(self) -> str:
        return (datetime.fromisoformat(super().now()) + timedelta(days=400)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@pytest.fixture
def chart(charted: Charted, monkeypatch: pytest.MonkeyPatch) -> Charted:
    """The archive a year later, with a rung, a segment and their inputs superseded, and everything committed."""
    monkeypatch.setattr(wiring, "host", lambda: HOST)
    charts.train(charted, OLD, range(1, STEPS + 1), keep=(8, 16, 24), seed=99)
    charts.train(charted, "rung/d48", range(1, STEPS + 1), keep=(8, 16, 24), seed=98)
    charts.train(charted, "hero/2", range(13, STEPS + 1), keep=(18, 24), seed=7, parent="hero/1@step-12")
    return charted


HOST = LaterHost()


@pytest.fixture
def gc(reckon: Callable) -> Callable:
    """The facts of ``reckon gc``."""

    def call(*arguments: str, status: int = 0) -> dict:
        ended = reckon("gc", *arguments, "--json")
        assert ended.status == status, ended.stderr
        return json.loads(ended.stdout)

    return call


def stores(chart: Charted) -> dict[str, bytes]:
    """Every object of cache and remote by its path."""
    folders = (".dvc/cache/files/md5", "artifacts/store/remote/files/md5")
    return {
        path.relative_to(chart.root).as_posix(): path.read_bytes()
        for folder in folders
        for path in (chart.root / folder).rglob("*")
        if path.is_file()
    }


def everything(chart: Charted) -> dict[str, str]:
    """Digests of all files but objects, temporary ones and what a clean-up records."""
    files = (path for path in chart.root.rglob("*") if path.is_file())
    named = {path.relative_to(chart.root).as_posix(): path for path in files}
    return {name: sha256(path.read_bytes()).hex for name, path in named.items() if "/retentions/" not in name}


def products(chart: Charted, stage: str) -> list:
    """Products of a stage, oldest first."""
    ledger = wiring.ledger(chart.root)
    found = sorted(ledger.executions_of(stage), key=lambda pair: pair[1].attempt)
    return [(one.product, ledger.products[one.product]) for _, one in found]


def md5_of(chart: Charted, stage: str, at: int, path: str) -> str:
    """DVC's name of a file of the ``at``-th product of a stage."""
    _, product = products(chart, stage)[at]
    listing = charting.copies(chart.root).listing(product.outputs[0])
    assert listing is not None
    return listing[path]


def goes(facts: dict) -> set[str]:
    """The md5 of every object that goes."""
    return {"".join(one["path"].split("/")[-2:]) for one in facts["going"] if one["place"] in ("cache", "remote")}


def reasons(facts: dict, what: str) -> set[str]:
    return {one["ground"] for one in facts["staying"] if one["what"] == what}


def label(chart: Charted, stage: str, step: int | None = None) -> str:
    """What the first product of a stage, or a checkpoint of it, is called once it is superseded."""
    digest, _ = products(chart, stage)[0]
    return f"{stage}{f'@step-{step}' if step else ''} ({digest.short})"


def states(chart: Charted, stage: str = OLD, steps=(8, 16, 24)) -> dict[int, str]:
    return {step: md5_of(chart, stage, 0, f"checkpoints/step-{step}/{STATE}") for step in steps}


def test_a_superseded_product_goes_but_for_its_papers(chart, gc):
    plan = gc()
    assert set(states(chart).values()) <= goes(plan)
    assert {one["place"] for one in plan["going"]} == {"cache", "remote"}
    for paper in ("transcript.jsonl", "order.json"):
        assert md5_of(chart, OLD, 0, paper) not in goes(plan)
    assert reasons(plan, label(chart, OLD)) == {"witness"}
    for stage in (OLD, "rung/d48", "hero/1", "hero/2"):
        assert not {one["what"] for one in plan["going"]} & {stage, f"{stage}@step-24", f"{stage}@step-12"}


def test_a_plan_deletes_nothing_and_says_how_much_it_would(chart, gc, reckon):
    before = everything(chart)
    plan = gc()
    assert everything(chart) == before
    objects = stores(chart)
    assert plan["forecast"]["units"] == len(plan["going"]) > 0
    assert plan["forecast"]["freed_bytes"] == sum(len(objects[one["path"]]) for one in plan["going"])
    done = gc("--yes")["done"]
    assert done["removed"] == plan["forecast"]["units"]
    left = stores(chart)
    assert set(objects) - set(left) == {one["path"] for one in plan["going"]}
    assert all(left[path] == objects[path] for path in left)
    assert gc()["forecast"]["units"] == 0
    assert "Nothing may go." in reckon("gc").stdout


@pytest.mark.slow
def test_every_reached_file_can_still_be_read_afterwards(chart, gc):
    gc("--yes")
    shelf, ledger, tables = charting.copies(chart.root), wiring.ledger(chart.root), wiring.table_store(chart.root)
    for stage in ledger.stages():
        newest = ledger.product_of(stage)
        for entry in tables.get_files(newest.outputs[0].digest):
            assert shelf.read(newest.outputs[0], entry)
    assert charting.orderly(chart.root).prove("hero", range(1, STEPS + 1)).holds


@pytest.mark.slow
def test_what_is_let_go_is_written_down_first(chart, gc, reckon):
    record = gc("--yes")["done"]["record"]
    told = json.loads(reckon("show", record, "--json").stdout)["record"]
    assert told["holds"] == "gone"
    assert {one["name"] for one in told["subjects"]} >= {f"{OLD}@step-{step}" for step in (8, 16, 24)}
    old, _ = products(chart, OLD)[0]
    assert {one["product"] for one in told["subjects"] if one["name"].startswith(OLD)} == {str(old)}
    assert gc("--yes")["done"]["record"] is None


# Each root keeps its own.


@pytest.mark.slow
@pytest.mark.parametrize("holds", ["release", "milestone", "handoff"])
def test_a_class_keeps_a_checkpoint_and_what_it_was_made_of(chart, gc, monkeypatch, holds):
    """Given while the product was current; the class stays with the bytes when the name has moved on."""
    mark(chart, f"{OLD}@step-16", holds)
    plan = gc()
    found = states(chart)
    assert found[16] not in goes(plan)
    assert {found[8], found[24]} <= goes(plan)
    assert holds in reasons(plan, label(chart, OLD, 16))
    mark(chart, f"{OLD}@step-16", "scratch")
    assert found[16] in goes(gc())


def mark(chart: Charted, name: str, holds: str) -> None:
    """Give the first product's checkpoint a class, as ``reckon gc keep`` did when it was the newest."""
    from registry.core.retention import Class, Retention, Subject

    digest, product = products(chart, name.partition("@")[0])[0]
    output = product.output(name)
    subject = Subject(name=name, product=digest, digest=output.digest)
    record = Retention(holds=Class(holds), subjects=(subject,), text="a reason", time=HOST.now())
    chart.records.put(record.kind, record_bytes(record))


@pytest.mark.slow
def test_a_name_is_pinned_when_it_gets_its_class(chart, gc, reckon):
    assert reckon("gc", "keep", f"{OLD}@step-8", "--as", "milestone", "--text", "in the paper").status == 0
    charts.train(chart, OLD, range(1, STEPS + 1), keep=(8, 16, 24), seed=100)
    plan = gc()
    kept, dropped = (md5_of(chart, OLD, 1, f"checkpoints/step-{step}/{STATE}") for step in (8, 16))
    assert kept not in goes(plan)
    assert dropped in goes(plan)


@pytest.mark.slow
def test_a_handoff_stays_without_being_told(chart, gc):
    """hero/1 is trained anew; the old hero/2 began from the old one's checkpoint."""
    charts.train(chart, "hero/1", range(1, 13), keep=(6, 12), seed=31)
    plan = gc()
    found = states(chart, "hero/1", (6, 12))
    assert found[12] not in goes(plan)
    assert found[6] in goes(plan)
    assert "handoff" in reasons(plan, label(chart, "hero/1", 12))


@pytest.mark.slow
def test_a_forecast_keeps_the_runs_that_it_rests_on(chart, gc):
    """By the digests of their papers: the last checkpoint stays with them, those between may go."""
    _, product = products(chart, OLD)[0]
    papers = {one.path: str(one.digest) for one in chart.tables.get_files(product.outputs[0].digest)}
    value = {"kind": "forecast", "runs": [{"evaluation": papers["transcript.jsonl"]}]}
    chart.records.put("forecast", canonical.encode(value))
    plan = gc()
    found = states(chart)
    assert found[24] not in goes(plan)
    assert {found[8], found[16]} <= goes(plan)
    assert "forecast" in reasons(plan, label(chart, OLD, 24))


@pytest.mark.slow
@pytest.mark.parametrize("named", ["product", "execution", "tree", "tensors", "bare"])
def test_a_release_keeps_what_it_names(chart, gc, named):
    """Whatever its records look like: every digest in one counts, as do those of kinds that are not known here."""
    digest, product = products(chart, OLD)[0]
    output = product.output(f"{OLD}@step-16")
    executions = [one for one, execution in wiring.ledger(chart.root).executions.items() if execution.product == digest]
    value = {
        "product": str(digest),
        "execution": str(executions[0]),
        "tree": str(output.digest),
        "tensors": output.contents["tensors"],
        "bare": output.digest.hex,
    }[named]
    for kind, ground in (("release", "release"), ("treasure", "named")):
        record = chart.records.put(kind, canonical.encode({"kind": kind, "deep": [{"x": [value]}]}))
        plan = gc()
        assert states(chart)[16] not in goes(plan)
        assert (states(chart)[8] in goes(plan)) == (named not in ("product", "execution"))
        assert ground in reasons(plan, label(chart, OLD, 16))
        (chart.root / f"manifests/{kind}s/{record.hex}.json").unlink()


@pytest.mark.slow
@pytest.mark.parametrize(("steps", "kept"), [("9:10", {8, 16}), ("8", {8}), ("3:4", {8}), ("16:17", {8, 24})])
def test_an_incident_keeps_the_checkpoints_around_it(charted, gc, reckon, monkeypatch, steps, kept):
    monkeypatch.setattr(wiring, "host", lambda: HOST)
    assert reckon("incident", "add", OLD, "--steps", steps, "--kind", Kind.HANG.value, "--text", "x").status == 0
    charts.train(charted, OLD, range(1, STEPS + 1), keep=(8, 16, 24), seed=99)
    charts.train(charted, "rung/d48", range(1, STEPS + 1), keep=(8, 16, 24), seed=98)
    away = goes(gc())
    assert {step for step, md5 in states(charted).items() if md5 not in away} == kept


@pytest.mark.slow
def test_what_training_noticed_keeps_them_too_but_a_restart_does_not(charted, gc, monkeypatch):
    monkeypatch.setattr(wiring, "host", lambda: HOST)
    told = {"first_step": 9, "last_step": 10, "text": "it jumped"}
    charts.train(
        charted, OLD, range(1, STEPS + 1), keep=(8, 16, 24), seed=50, incidents=({**told, "kind": "loss-spike"},)
    )
    charts.train(
        charted, "rung/d48", range(1, STEPS + 1), keep=(8, 16, 24), seed=51, incidents=({**told, "kind": "restart"},)
    )
    for stage in (OLD, "rung/d48"):
        charts.train(charted, stage, range(1, STEPS + 1), keep=(8, 16, 24), seed=52 + len(stage))
    away = goes(gc())
    spiked, restarted = (
        {step for step in (8, 16, 24) if md5_of(charted, stage, 1, f"checkpoints/step-{step}/{STATE}") not in away}
        for stage in (OLD, "rung/d48")
    )
    assert spiked == {8, 16}
    assert restarted == set()


@pytest.mark.slow
def test_a_tainted_shard_stays_as_evidence(charted, gc, reckon, monkeypatch):
    monkeypatch.setattr(wiring, "host", lambda: HOST)
    shard = "math/train-00001.parquet"
    added = reckon("incident", "add", f"shards:{shard}", "--kind", "data-taint", "--text", "x")
    assert added.status == 0
    charted.flip(charted.root / f"artifacts/shards/{shard}", 40)
    charted.record("shards")
    for domain in DOMAINS:
        charted.write(f"artifacts/tokens/{domain}/tokens.json", b"{}")
        charted.record(f"tokens/{domain}", ["shards"])
    assert md5_of(charted, "shards", 0, shard) not in goes(gc())


@pytest.mark.slow
def test_milestones_by_their_step_stay(chart, gc):
    chart.write("params.yaml", b"retention: {milestone_every_steps: 16}\n")
    plan = gc()
    found = states(chart)
    assert found[16] not in goes(plan)
    assert {found[8], found[24]} <= goes(plan)
    mark(chart, f"{OLD}@step-16", "scratch")
    assert found[16] in goes(gc())


@pytest.mark.slow
def test_both_sides_of_a_contradiction_stay(charted, gc, monkeypatch):
    """One recipe, two products: the same settings, other bytes."""
    monkeypatch.setattr(wiring, "host", lambda: HOST)
    facts = charts.order_facts(charted)
    charted.write(f"artifacts/{OLD}/checkpoints/step-16/{STATE}", charts.safetensors([9, 9, 9, 9, 9, 9]))
    inputs = [f"tokens/{domain}" for domain in DOMAINS]
    charted.record(OLD, inputs, charts.settings(facts, OLD), steps={"first": 0, "reached": STEPS})
    charts.train(charted, "rung/d48", range(1, STEPS + 1), keep=(8, 16, 24), seed=98)
    plan = gc()
    assert not set(states(charted).values()) & goes(plan)
    assert reasons(plan, label(charted, OLD, 16)) == {"contradiction"}


@pytest.mark.slow
def test_young_products_stay(chart, gc, monkeypatch):
    chart.write("params.yaml", b"retention: {superseded_days: 500}\n")
    plan = gc()
    assert not plan["going"]
    assert "young" in reasons(plan, label(chart, OLD, 8))


@pytest.mark.slow
def test_what_another_branch_tracks_stays(chart, gc):
    """The lock of the old products is committed on a branch; the working tree has the new one."""
    lock = json.loads((chart.root / "dvc.lock").read_bytes())
    _, old = products(chart, OLD)[0]
    new = lock["stages"]["rung@d32"]["outs"][0]["md5"]
    git(chart, "init", "-q", "-b", "main")
    chart.write("dvc.lock", json.dumps(lock).replace(new, old.outputs[0].locator).encode())
    git(chart, "add", "dvc.lock", "manifests")
    git(chart, "commit", "-qm", "then")
    git(chart, "branch", "then")
    chart.write("dvc.lock", json.dumps(lock).encode())
    git(chart, "commit", "-qam", "now")
    plan = gc()
    assert not set(states(chart).values()) & goes(plan)
    assert "dvc.lock of refs/heads/then tracks it" in {one["why"] for one in plan["staying"]}
    git(chart, "branch", "-D", "then")
    assert set(states(chart).values()) <= goes(gc())


def git(chart: Charted, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=chart.root, check=True, capture_output=True)


# Objects that no record speaks of, scratch and attempts go by their age.


@pytest.mark.slow
def test_an_object_that_no_record_speaks_of_goes_when_it_is_old(chart, gc):
    name = chart.stored(b"somebody's")
    stores = (".dvc/cache", "artifacts/store/remote")
    paths = [chart.root / f"{store}/files/md5/{name[:2]}/{name[2:]}" for store in stores]
    for path in paths:
        age(path, days=-380)
    assert name not in goes(gc())
    for path in paths:
        age(path, days=-300)
    (found,) = [one for one in gc()["going"] if one["path"].endswith(name[2:]) and one["place"] == "cache"]
    assert "no record speaks of it" in found["why"]


def age(path: Path, days: int) -> None:
    """Set the time of change relative to the clean-up's year ahead: 400 days ahead minus so many."""
    when = datetime.fromisoformat("2026-11-30T12:00:00Z") - timedelta(days=days)
    os.utime(path, (when.timestamp(), when.timestamp()))


@pytest.mark.slow
def test_scratch_goes_by_the_age_of_its_newest_file(chart, gc):
    old, new = "artifacts/scratch/rung/d32/aa/states/step-5/x", "artifacts/scratch/rung/d32/bb/states/step-5/x"
    for path in (old, new):
        chart.write(path, b"resume")
        chart.write(path.replace("step-5", "step-4"), b"older")
    for path in chart.root.glob("artifacts/scratch/rung/d32/*/states/*/x"):
        age(path, days=-390 if "step-4" in path.as_posix() else -392 if "/aa/" in path.as_posix() else -399)
    facts = gc("--yes")
    assert [one["path"] for one in facts["going"] if one["place"] == "scratch"] == ["artifacts/scratch/rung/d32/aa"]
    assert not (chart.root / "artifacts/scratch/rung/d32/aa").exists()
    assert (chart.root / new).read_bytes() == b"resume"
    assert not any((chart.root / "artifacts/.gc").iterdir())


def test_the_last_copy_in_scratch_stays(chart, gc):
    """All copies of a handed-off checkpoint are damaged but the one that a killed stage left in its scratch."""
    data = (chart.root / f"artifacts/hero/1/checkpoints/step-12/{STATE}").read_bytes()
    path = f"artifacts/scratch/hero/1/aa/work/checkpoints/step-12/{STATE}"
    chart.write(path, data)
    assert [one["place"] for one in gc()["going"]].count("scratch") == 1
    name = hashlib.md5(data, usedforsecurity=False).hexdigest()
    copies = [f".dvc/cache/files/md5/{name[:2]}/{name[2:]}", f"artifacts/store/remote/files/md5/{name[:2]}/{name[2:]}"]
    for copy in (*copies, f"artifacts/hero/1/checkpoints/step-12/{STATE}"):
        chart.flip(chart.root / copy)
    facts = gc("--yes")
    assert (chart.root / path).read_bytes() == data
    (found,) = [one for one in facts["staying"] if one["place"] == "scratch"]
    assert "last copy of hero/1@step-12" in found["why"]
    assert found["ground"] == "handoff"


@pytest.mark.slow
def test_a_link_to_an_object_is_no_copy(chart, gc):
    """The working tree holds links into the cache, as DVC can make them: without the cache nothing would be left."""
    data = (chart.root / f"artifacts/hero/1/checkpoints/step-12/{STATE}").read_bytes()
    name = hashlib.md5(data, usedforsecurity=False).hexdigest()
    shutil.rmtree(chart.root / "artifacts/store")
    home = chart.root / f"artifacts/hero/1/checkpoints/step-12/{STATE}"
    home.unlink()
    home.symlink_to(chart.root / f".dvc/cache/files/md5/{name[:2]}/{name[2:]}")
    assert name not in goes(gc("--thin"))
    home.unlink()
    home.write_bytes(data)
    assert name in goes(gc("--thin"))


@pytest.mark.slow
def test_thinning_keeps_one_good_copy(chart, gc):
    """Second copies in the cache go, except of what is current and where the other copy is damaged."""
    held = states(chart, "hero/1", (12,))[12]
    papers = md5_of(chart, OLD, 0, "transcript.jsonl")
    chart.flip(chart.root / f"artifacts/store/remote/files/md5/{papers[:2]}/{papers[2:]}")
    plan = gc("--thin", "--yes")
    gone = {one["path"] for one in plan["going"] if one["why"] == "another copy stays"}
    assert f".dvc/cache/files/md5/{held[:2]}/{held[2:]}" in gone
    assert (chart.root / f".dvc/cache/files/md5/{papers[:2]}/{papers[2:]}").is_file()
    assert all(path.startswith(".dvc/cache/") for path in gone)
    assert md5_of(chart, "rung/d48", 1, f"checkpoints/step-8/{STATE}") not in {
        path[-32:].replace("/", "") for path in gone
    }
    test_every_reached_file_can_still_be_read_afterwards(chart, gc)


# What stops it, and what does not.


@pytest.mark.slow
def test_damaged_or_missing_records_stop_the_deleting(chart, gc, reckon):
    for kind, data in (("products", b"{}"), ("treasures", b"x"), ("incidents", b"{}"), ("retentions", b"{}")):
        path = chart.root / f"manifests/{kind}/{'0' * 64}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        before = stores(chart)
        ended = reckon("gc", "--yes")
        assert ended.status == 2, kind
        assert "Nothing was deleted" in ended.stderr
        assert stores(chart) == before
        assert gc()["notes"]
        path.unlink()
    _, product = products(chart, OLD)[0]
    table = chart.root / f"manifests/objects/{product.outputs[0].digest.hex}.parquet"
    data = table.read_bytes()
    table.write_bytes(data[:-9])
    assert "file table" in reckon("gc", "--yes").stderr
    table.write_bytes(data)
    git(chart, "init", "-q")
    git(chart, "add", "manifests")
    git(chart, "commit", "-qm", "x")
    next((chart.root / "manifests/executions").iterdir()).unlink()
    assert reckon("gc", "--yes").status == 2


def test_a_running_stage_stops_the_deleting(chart, gc, reckon, monkeypatch):
    from fakes.workshop import FakeAttempts

    from registry.core import runlog

    started = runlog.Started(
        stage=OLD,
        attempt="20261130t120000z-00000001",
        time="2026-11-30T12:00:00.000000Z",
        pid=1,
        host="harbour",
        argv=(),
        settings={},
        determinism={},
        resumed=None,
        parent=None,
    )
    log = runlog.RunLog(events=(started,), torn=False)
    running = FakeAttempts(logs={OLD: [log]}, running={started.attempt})
    monkeypatch.setattr(wiring, "attempts", lambda archive: running)
    chart.write("artifacts/scratch/rung/d32/aa/x", b"resume")
    ended = reckon("gc", "--yes")
    assert ended.status == 2
    assert f"The stage {OLD} is running." in ended.stderr
    assert any(one["why"] == "an attempt is running" for one in gc()["staying"])


KILLER = """
import os, shutil, signal, sys
from datetime import datetime, timedelta
left = int(sys.argv[1])
def counted(real):
    def call(*arguments, **named):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **named)
    return call
os.unlink, os.rename, os.rmdir = counted(os.unlink), counted(os.rename), counted(os.rmdir)
from registry.cli import wiring
from registry.adapters.host import LocalHost
class Later(LocalHost):
    def now(self):
        return (datetime.fromisoformat(super().now()) + timedelta(days=400)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
wiring.host = lambda: Later()
from registry.cli.main import run
sys.exit(run(["gc", "--yes"]))
"""


@pytest.mark.slow
def test_a_killed_clean_up_is_finished_by_the_next_one(chart, gc, tmp_path):
    """Killed before any deletion or renaming, wherever: nothing reached is lost, and the end is the same."""
    for name in ("aa", "bb"):
        for step in (4, 5):
            chart.write(f"artifacts/scratch/rung/d32/{name}/states/step-{step}/x", b"resume")
    whole = charts.copy(chart, tmp_path / "whole")
    clean_up(whole.root, 10**6)
    expected = {path for path in everything(whole) if not path.startswith("artifacts/.gc")}
    deleted = len(everything(chart)) - len(expected)
    for survived in sorted({0, 1, 2, 3, 5, 8, deleted // 2, deleted - 1, deleted + 1}):
        mine = charts.copy(chart, tmp_path / f"killed-{survived}")
        assert clean_up(mine.root, survived) == -9
        kept = {path: digest for path, digest in everything(mine).items() if path in expected}
        assert kept.keys() == expected
        ended = clean_up(mine.root, 10**6)
        assert ended == 0
        found = everything(mine)
        assert found == everything(whole) == {path: kept[path] for path in expected}
        assert sorted(record_subjects(mine)) == sorted(record_subjects(whole))


def clean_up(root: Path, survived: int) -> int:
    done = subprocess.run(
        [sys.executable, "-c", KILLER, str(survived)],
        cwd=root,
        check=False,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
    )
    return done.returncode


def record_subjects(chart: Charted) -> list[str]:
    records = (chart.root / "manifests/retentions").glob("*.json")
    return sorted(
        {f"{one['name']} {one['product']}" for path in records for one in json.loads(path.read_bytes())["subjects"]}
    )


def test_a_page_says_why_each_thing_stays(chart, reckon):
    page = reckon("gc").stdout
    assert "hero/2 began from it" in page
    assert "nothing that stays reaches it" in page
    assert "may go. Nothing was deleted" in page
    assert "Deleted" in reckon("gc", "--yes").stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["keep", "hero/9", "--as", "milestone", "--text", "x"], "hero/2"),
        (["keep", "hero/1@step-7", "--as", "milestone", "--text", "x"], "hero/1@step-6"),
        (["keep", "hero/1:order.json", "--as", "milestone", "--text", "x"], "no class"),
        (["keep", "hero/1", "--as", "gone", "--text", "x"], "milestone"),
        (["keep", "hero/1", "--as", "milestone", "--text", " "], "printable"),
    ],
)
def test_bad_input_is_refused(charted, reckon, arguments, words):
    ended = reckon("gc", *arguments)
    assert ended.status == 2
    assert words in ended.stderr
    assert not (charted.root / "manifests/retentions").exists()


def test_bad_settings_are_refused(charted, reckon):
    charted.write("params.yaml", b"retention: {scratch_days: soon}\n")
    assert "retention.scratch_days" in reckon("gc").stderr


def test_attempts_that_gave_nothing_go_when_they_are_recorded_and_old(toy, gc, monkeypatch):
    """A failed one that is recorded goes; one that made what stays, and one that nobody recorded, stay."""
    monkeypatch.chdir(toy.root)
    monkeypatch.setattr(wiring, "host", lambda: HOST)
    for stage in ("chart", "note"):
        toy.recorder.begin(stage, None)
        with pytest.raises(RuntimeError):
            toy.attempt(stage, failing=True)
    toy.run("chart")
    facts = gc()
    runs = {path.name: path.parent.name for path in toy.root.glob("artifacts/runs/*/2*")}
    assert sorted(runs.values()) == ["chart", "chart", "note"]
    assert [one["what"] for one in facts["going"]] == ["an attempt of chart"]
    assert {(one["what"], one["ground"]) for one in facts["staying"] if one["place"] == "runs"} == {
        ("an attempt of chart", "witness"),
        ("an attempt of note", "unrecorded"),
    }
    gc("--yes")
    assert len(list(toy.root.glob("artifacts/runs/*/2*"))) == 2
    assert list(toy.root.glob("artifacts/runs/chart/*.json*"))
