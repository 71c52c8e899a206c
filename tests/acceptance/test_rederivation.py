"""Re-derivation as its users run it: recorded commits run again as processes, in worktrees of their own."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support import hauled
from support.hauled import Hauled

from registry.adapters.hashing import folder_locator
from registry.cli import wiring
from registry.core.codec import record_bytes
from registry.core.transcript import parse

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Hauled:
    return hauled.build(tmp_path_factory.mktemp("hauled") / "archive")


@pytest.fixture
def archive(once: Hauled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hauled:
    made = hauled.copy(once, tmp_path / "archive")
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.chdir(made.root)
    return made


@pytest.fixture
def again(reckon: Callable) -> Callable:
    """``reckon rederive … --yes --json``: the status and the answer."""

    def call(*arguments: str) -> tuple[int, dict]:
        ended = reckon("rederive", *arguments, "--yes", "--json")
        assert ended.stdout, ended.stderr
        return ended.status, json.loads(ended.stdout)

    return call


def test_nothing_runs_without_consent(archive, reckon, tmp_path, monkeypatch):
    runs = tmp_path / "runs.txt"
    monkeypatch.setenv("WINDLASS_RUNS", str(runs))
    ended = reckon("rederive", "haul/1")
    assert ended.status == 2
    assert archive.git("log", "--format=%H", "--reverse").splitlines()[0] in ended.stdout
    assert "python -m train.windlass haul/1" in ended.stdout
    assert not runs.exists()
    archive.git("config", "--add", "reckon.trust", "no-such-branch")
    assert reckon("rederive", "haul/1").status == 2
    archive.git("config", "--add", "reckon.trust", "main")
    assert reckon("rederive", "haul/1").status == 0
    assert len(runs.read_text().splitlines()) == 1


def test_from_scratch_and_from_its_parent_bit_for_bit(archive, again, reckon):
    before = archive.untouched()
    status, told = again("haul/2", "--from", "scratch")
    assert status == 0
    assert [(one["name"], one["tier"]) for one in told["rederived"]] == [("haul/1", "T1"), ("haul/2", "T1")]
    assert archive.untouched() == before
    assert again("rope")[0] == 0
    states = {one["stage"]: one for one in json.loads(reckon("status", "--json").stdout)["stages"]}
    assert (states["haul/2"]["standing"]["witnesses"], states["haul/2"]["standing"]["replayed_steps"]) == (2, 5)
    assert states["rope"]["standing"]["tier"] == "T1"
    assert all(one["sound"] for one in states.values())
    assert reckon("verify", "--all").status == 0
    assert reckon("audit", "haul/2", "--explain", "haul/2+hypothesis").status == 0
    assert reckon("audit", "haul/2", "--explain", "haul/2+steps").status == 0
    assert not list(Path(os.environ["TMPDIR"]).iterdir()), "nothing is left behind"


def test_another_nproc_is_a_mismatch_that_is_named(archive, again, reckon, tmp_path):
    kept = tmp_path / "kept"
    assert again("haul/1", "--env", "NPROC=3", "--tolerance", "0.000001")[0] == 1
    status, told = again("haul/1", "--env", "NPROC=3", "--tolerance", "0.01", "--keep", str(kept))
    [one] = told["rederived"]
    assert (status, one["tier"], one["verdict"]) == (0, "T3", "setup-mismatch")
    assert one["mark"]["changes"] == {"determinism.nproc": ["2", "3"]}
    assert one["mark"]["difference"]["first_step"] == 4
    assert one["mark"]["difference"]["first_tensor"] == "model/drum"
    assert again("haul/1", "--set", "determinism.nproc=3", "--noise", "0.01")[1]["rederived"][0]["tier"] == "T4"
    [state] = [one for one in json.loads(reckon("status", "--json").stdout)["stages"] if one["stage"] == "haul/1"]
    assert (state["sound"], state["standing"]["tier"], state["standing"]["within"]) == (True, "T3", "0.01")
    assert not state["contradictions"], "a mismatch is no contradiction"
    parted = json.loads(reckon("compare", "haul/1", str(kept), "--json").stdout)
    assert (parted["first_step"], parted["first_tensor"], parted["differing_tensors"]) == (4, "model/drum", 2)


def test_a_window_is_replayed_from_a_kept_checkpoint(archive, again):
    archive.set(pace=80)
    archive.commit("Slower")
    for stage in hauled.STAGES:
        archive.run(stage)
    status, told = again("haul/1", "--from", "haul/1@step-3", "--steps", "3")
    mark = told["rederived"][0]["mark"]
    assert (status, mark["verdict"], mark["whole"], mark["first_step"]) == (0, "agrees", False, 3)
    assert mark["last_step"] == 6, "what ran on until it was stopped does not count"
    assert told["rederived"][0]["tensors"] == {"haul/1@step-6": True}
    [window] = archive.marks()
    assert window["outcome"] == "interrupted"
    [reached] = [one.steps["reached"] for one in archive.ledger.executions.values() if "rederives" in one.extra]
    assert reached == 6
    standing = archive.ledger.head("haul/1")
    assert standing is not None
    assert standing[1].product is not None


def test_windows_count_for_their_steps_only(archive, again, reckon):
    again("haul/1", "--from", "haul/1@step-6")
    status, told = again("haul/1", "--set", "hauls.1.pace=1")
    assert (status, told["rederived"][0]["verdict"]) == (0, "agrees")
    [state] = [one for one in json.loads(reckon("status", "--json").stdout)["stages"] if one["stage"] == "haul/1"]
    assert (state["standing"]["tier"], state["standing"]["replayed_steps"]) == ("T1", 3)
    assert state["standing"]["witnesses"] == 1, "under other settings something else was asked"


def test_the_old_code_runs_after_a_later_commit(archive, again, reckon):
    archive.edit("PULL = 3.0", "PULL = 3.5")
    archive.commit("Another pull")
    status, told = again("haul/1")
    [one] = told["rederived"]
    assert (status, one["tier"]) == (0, "T1")
    assert [change["key"] for change in one["plan"]["today"]["code"]] == ["train/windlass.py"]
    assert "another recipe" in reckon("rederive", "haul/1").stdout


def test_the_same_setup_with_other_bits_is_a_contradiction(archive, again, reckon):
    """A stage that hides an input from its recipe is found out."""
    hidden = archive.root.parent / "word"
    hidden.write_text("fathom")
    archive.edit('"rope.txt").write_text("fathom', f'"rope.txt").write_text(Path({str(hidden)!r}).read_text() + "')
    archive.commit("A hidden input")
    archive.run("rope")
    hidden.write_text("cubit")
    status, told = again("rope")
    assert (status, told["rederived"][0]["verdict"]) == (1, "contradicts")
    assert told["rederived"][0]["files"] == ["rope.txt"]
    [state] = [one for one in json.loads(reckon("status", "--json").stdout)["stages"] if one["stage"] == "rope"]
    assert len(state["contradictions"]) == 1
    assert archive.ledger.head("rope")[1].extra == {}, "the name still means what was recorded first"


def test_a_copy_never_counts(archive, again, reckon, tmp_path, monkeypatch):
    """Outputs that lie in the cache, the checkout or the commit do not save the run; linked ones are refused."""
    runs = tmp_path / "runs.txt"
    monkeypatch.setenv("WINDLASS_RUNS", str(runs))
    archive.git("add", "-f", "artifacts/rope", "artifacts/haul/1")
    archive.commit("Outputs in the commit")
    archive.run("rope")
    archive.run("haul/1")
    before = len(runs.read_text().splitlines())
    assert again("haul/1")[0] == 0
    assert len(runs.read_text().splitlines()) == before + 1, "the command ran"
    source = archive.root / "artifacts/rope/rope.txt"
    here = f"__file__.startswith({str(archive.root)!r})"
    writes = '(out / "rope.txt").write_text('
    archive.edit(writes, f'{here} or os.link({str(source)!r}, out / "rope.txt")\n    {here} and {writes}')
    archive.commit("A stage that links")
    archive.run("rope")
    marks = len(archive.marks())
    ended = reckon("rederive", "rope", "--yes")
    assert ended.status == 1
    assert "did not make" in ended.stderr
    assert len(archive.marks()) == marks, "nothing was recorded"


def test_a_dirty_execution_needs_its_patch(archive, again, reckon, tmp_path):
    archive.edit("PULL = 3.0", "PULL = 2.5")
    patch = tmp_path / "changes.patch"
    archive.git("diff", "--binary", f"--output={patch}", "HEAD")
    archive.run("haul/1")
    archive.git("checkout", "-q", "--", "train")
    refused = reckon("rederive", "haul/1", "--yes")
    assert (refused.status, "--patch" in refused.stderr) == (2, True)
    assert again("haul/1", "--patch", str(patch))[0] == 0
    patch.write_text(patch.read_text().replace("2.5", "2.25"))
    assert reckon("rederive", "haul/1", "--patch", str(patch), "--yes").status == 1


def test_inputs_are_verified_before_use(archive, reckon):
    path = archive.root / "artifacts/rope/rope.txt"
    path.write_text(path.read_text().replace("fathom", "fathon", 1))
    ended = reckon("rederive", "haul/1", "--yes")
    assert (ended.status, "recorded bytes" in ended.stderr) == (1, True)
    path.unlink()
    assert reckon("rederive", "haul/1", "--yes").status == 2
    assert archive.marks() == []


def test_inputs_come_from_a_remote_where_the_checkout_has_none(archive, again, reckon, tmp_path):
    data = (archive.root / "artifacts/rope/rope.txt").read_bytes()
    md5 = hashlib.md5(data, usedforsecurity=False).hexdigest()
    listed = json.dumps([{"md5": md5, "relpath": "rope.txt"}]).encode()
    remote = tmp_path / "remote/files/md5"
    for name, held in ((md5, data), (folder_locator([("rope.txt", md5)]), listed)):
        (remote / name[:2]).mkdir(parents=True, exist_ok=True)
        (remote / name[:2] / name[2:]).write_bytes(held)
    archive.write(
        ".dvc/config.local", f"[core]\n    remote = far\n['remote \"far\"']\n    url = {tmp_path / 'remote'}\n"
    )
    shutil.rmtree(archive.root / "artifacts")
    assert again("haul/1")[0] == 0
    (remote / md5[:2] / md5[2:]).write_bytes(data.replace(b"fathom", b"fathon"))
    assert reckon("rederive", "haul/1", "--yes").status == 1, "a remote is believed no more than a checkout"


def test_a_forged_command_never_runs(archive, reckon, tmp_path):
    """Records that name a command which the commit does not declare, whoever consents to it."""
    store, ledger = wiring.record_store(archive.root), archive.ledger
    digest, execution = ledger.head("rope") or pytest.fail("nothing recorded")
    (archive.root / f"manifests/executions/{digest.hex}.json").unlink()
    mine = tmp_path / "ran"
    recipe = replace(ledger.recipes[execution.recipe], command=("touch", str(mine)))
    forged = store.put(recipe.kind, record_bytes(recipe))
    product = replace(ledger.products[execution.product], recipe=forged)
    made = store.put(product.kind, record_bytes(product))
    store.put(execution.kind, record_bytes(replace(execution, recipe=forged, product=made)))
    ended = reckon("rederive", "rope", "--yes")
    assert (ended.status, "does not hold what rope was made from: command" in ended.stderr) == (1, True)
    assert not mine.exists()


def test_a_failing_command_is_recorded_and_told(archive, reckon):
    archive.edit(
        "asked = []", "asked = []\n    if not Path('artifacts/runs/rope').exists():\n        raise RuntimeError"
    )
    archive.commit("Fails elsewhere")
    archive.run("haul/1")
    ended = reckon("rederive", "haul/1", "--yes")
    assert ended.status == 3
    assert "status 1" in ended.stderr


def test_a_kill_leaves_nothing_behind(archive, again):
    archive.set(pace=300)
    archive.commit("Slow")
    archive.run("rope")
    archive.run("haul/1")
    temporary = Path(os.environ["TMPDIR"])
    process = subprocess.Popen([sys.executable, "-m", "registry", "rederive", "haul/1", "--yes"], env=_environment())
    deadline = time.monotonic() + 60
    while not list(temporary.glob("*/tree/artifacts/scratch/haul/**/transcript.jsonl")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    [folder] = temporary.iterdir()
    [lines] = folder.glob("tree/artifacts/scratch/haul/**/transcript.jsonl")
    time.sleep(0.5)
    before = len(parse(lines.read_bytes()).lines)
    time.sleep(0.8)
    assert len(parse(lines.read_bytes()).lines) == before, "the stage died with it"
    assert archive.marks() == []
    assert again("rope")[0] == 0
    assert not folder.exists(), "the next one swept it away"
    assert archive.untouched()[1] == []


def test_bisect_names_the_step_that_no_transcript_tells(archive, again, reckon, tmp_path):
    kept = tmp_path / "kept"
    again("haul/1", "--env", "NPROC=3", "--keep", str(kept))
    told = json.loads(reckon("bisect", "haul/1", str(kept), "--json").stdout)
    assert (told["first_step"], told["by"]) == (4, "the transcripts of both")
    (kept / "transcript.jsonl").unlink()
    assert reckon("bisect", "haul/1", str(kept)).status == 2
    ended = reckon("bisect", "haul/1", str(kept), "--env", "NPROC=3", "--yes", "--json")
    told = json.loads(ended.stdout)
    assert (ended.status, told["first_step"], told["follows"]) == (1, 4, str(kept))
    assert told["window"] == {"begin": 3, "stop": 6}
    assert reckon("bisect", "haul/1", str(archive.root / "artifacts/haul/1")).status == 0


def _environment() -> dict[str, str]:
    root = Path(__file__).resolve().parents[2]
    return {**os.environ, "PYTHONPATH": str(root)}
