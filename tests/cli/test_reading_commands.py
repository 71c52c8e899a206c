"""show, log, tree, verify and status as a person and a program meet them, on the toy archive."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable

import pytest
from support import toy as toys
from support.toy import Toy

STAGES = list(toys.STAGES)
READING = (["status"], ["log"], ["show", "leg/1"], ["tree", "hull"], ["verify", "--all"])


def told(ended: object) -> dict:
    return json.loads(ended.stdout)


@pytest.mark.parametrize("arguments", READING, ids=" ".join)
def test_an_untouched_archive_is_sound_in_every_view(at_sea: Toy, reckon: Callable, arguments: list[str]) -> None:
    plain, facts = reckon(*arguments), reckon(*arguments, "--json")
    assert (plain.status, facts.status) == (0, 0), plain.stderr + facts.stderr
    assert plain.stderr == facts.stderr == ""
    assert plain.stdout
    assert told(facts)


@pytest.mark.parametrize("arguments", READING, ids=" ".join)
def test_reading_changes_nothing(at_sea: Toy, reckon: Callable, arguments: list[str]) -> None:
    reckon(*arguments)
    assert at_sea.git("status", "--porcelain") == ""


class TestStatus:
    def test_one_line_a_stage(self, at_sea: Toy, reckon: Callable) -> None:
        ended = reckon("status")
        rows = [line.split() for line in ended.stdout.splitlines()[1:8]]
        assert [row[0] for row in rows] == STAGES
        assert {tuple(row[3:]) for row in rows} == {("T0", "1", "recorded")}
        assert (
            ended.stdout.splitlines()[-1]
            == "All recorded. Look next: reckon show hull, reckon tree hull, reckon verify --all"
        )

    def test_what_is_open_is_said_and_what_to_do(self, at_sea: Toy, reckon: Callable) -> None:
        at_sea.replace("params.yaml", "pull: 3", "pull: 4")
        shutil.rmtree(at_sea.root / "artifacts/hull")
        at_sea.interrupt("leg/2", 5)
        ended = reckon("status")
        assert ended.status == 1
        assert "leg/1: settings differ from the record: legs.1.pull 3 → 4" in ended.stdout
        assert "hull: artifacts/hull is recorded and not here" in ended.stdout
        assert "leg/2: the attempt 20261130t120000z-00000008 ended and has no execution record" in ended.stdout
        assert "3 stages are open. Next: dvc repro leg@1" in ended.stdout
        stages = {one["stage"]: one for one in told(reckon("status", "--json"))["stages"]}
        assert stages["leg/1"]["states"] == ["stale"]
        assert stages["leg/1"]["stale"] == {"settings": [{"found": "4", "key": "legs.1.pull", "recorded": "3"}]}
        assert stages["hull"]["missing"] == ["artifacts/hull"]
        assert stages["chart"]["sound"]

    def test_nothing_run_yet(self, at_sea: Toy, reckon: Callable) -> None:
        shutil.rmtree(at_sea.root / "manifests")
        shutil.rmtree(at_sea.root / "artifacts")
        ended = reckon("status")
        assert ended.status == 1
        assert ended.stdout.count("never run") == 7
        assert "Next: dvc repro chart" in ended.stdout

    def test_records_that_no_commit_holds_are_counted(self, at_sea: Toy, reckon: Callable) -> None:
        assert told(reckon("status", "--json"))["uncommitted"] == []
        at_sea.write("manifests/incidents/new.json", "{}")
        assert "1 record is not committed: git add manifests dvc.lock && git commit" in reckon("status").stdout
        assert told(reckon("status", "--json"))["uncommitted"] == ["manifests/incidents/new.json"]

    def test_what_a_killed_dvc_left_is_named(self, at_sea: Toy, reckon: Callable) -> None:
        assert told(reckon("status", "--json"))["broken_lock"] is None
        at_sea.write(".dvc/tmp/rwlock", "{}")
        assert told(reckon("status", "--json"))["broken_lock"] is None
        at_sea.write(".dvc/tmp/rwlock", "")
        assert "DVC was killed as it wrote .dvc/tmp/rwlock and will not start: delete it." in reckon("status").stdout
        assert told(reckon("status", "--json"))["broken_lock"] == ".dvc/tmp/rwlock"

    def test_damage_is_told(self, at_sea: Toy, reckon: Callable) -> None:
        digest, _ = at_sea.ledger.head("leg/1")
        at_sea.flip(f"manifests/executions/{digest.hex}.json", 12)
        ended = reckon("status")
        assert ended.status == 1
        assert f"The execution record {digest} is damaged" in ended.stdout
        assert "Look next: reckon verify --all" in ended.stdout


class TestShow:
    def test_witnesses_are_counted(self, at_sea: Toy, reckon: Callable) -> None:
        assert "1 witness, no contradiction" in reckon("show", "leg/1").stdout
        at_sea.run("leg/1")
        shown = reckon("show", "leg/1").stdout
        assert "2 witnesses, no contradiction" in shown
        assert "T1 4/4 steps" in shown

    def test_a_contradiction_is_named(self, at_sea: Toy, reckon: Callable) -> None:
        first = at_sea.ledger.head("chart")[1].product
        at_sea.recorder.begin("chart", None)
        at_sea.attempt("chart")
        at_sea.write("artifacts/chart/east/text.txt", "another coast\n")
        at_sea.recorder.record("chart", 0, at_sea.ledger)
        assert f"1 witness, contradicted by {first.short} (1 execution)" in reckon("show", "chart").stdout

    def test_the_hypothesis_stands_beside_the_outcome(self, at_sea: Toy, reckon: Callable) -> None:
        shown = reckon("show", "leg/1").stdout
        assert "expected before it ran" in shown
        assert "it arrives" in shown

    def test_a_dirty_tree_is_marked(self, at_sea: Toy, reckon: Callable) -> None:
        at_sea.write("scribble.txt", "not committed")
        at_sea.run("note")
        assert "+ changes" in reckon("show", "note").stdout
        assert "+ changes" in reckon("log", "note", "-n", "1").stdout

    @pytest.mark.slow
    def test_long_lists_are_cut_unless_all_is_asked_for(self, at_sea: Toy, reckon: Callable) -> None:
        for _ in range(12):
            at_sea.run("note")
        assert "… 1 more: --full" in reckon("show", "note").stdout
        full = reckon("show", "note", "--full").stdout
        assert "more: --full" not in full
        assert full.count("complete") == 13
        assert len(told(reckon("show", "note", "--json"))["executions"]) == 13

    def test_a_file_and_a_digest(self, at_sea: Toy, reckon: Callable) -> None:
        assert "transcript.jsonl" in reckon("show", "leg/1:transcript.jsonl").stdout
        digest, execution = at_sea.ledger.head("leg/1")
        assert f"execution {digest}" in reckon("show", digest.short).stdout
        assert f"recipe {execution.recipe}" in reckon("show", str(execution.recipe)).stdout


class TestLog:
    def test_newest_first_and_cut(self, at_sea: Toy, reckon: Callable) -> None:
        lines = reckon("log").stdout.splitlines()
        assert [line.split()[1] for line in lines[1:]] == STAGES[::-1]
        assert [one["stage"] for one in told(reckon("log", "-n", "2", "--json"))["executions"]] == ["hull", "leg/2"]
        assert "5 older: -n 7" in reckon("log", "-n", "2").stdout
        assert len(reckon("log", "chart").stdout.splitlines()) == 2

    def test_every_attempt_is_told(self, at_sea: Toy, reckon: Callable) -> None:
        at_sea.interrupt("leg/1", stop_after=3)
        at_sea.run("leg/1")
        outcomes = [one["outcome"] for one in told(reckon("log", "leg/1", "--json"))["executions"]]
        assert outcomes == ["complete", "interrupted", "complete"]
        assert "Interrupted: The process ended without a word." in reckon("log", "leg/1").stdout

    def test_an_empty_log(self, at_sea: Toy, reckon: Callable) -> None:
        shutil.rmtree(at_sea.root / "manifests")
        ended = reckon("log")
        assert (ended.status, ended.stdout) == (0, "No execution is recorded. Run a stage with 'dvc repro'.\n")


class TestTree:
    def test_up_and_down(self, at_sea: Toy, reckon: Callable) -> None:
        up = reckon("tree", "hull").stdout.splitlines()
        assert up[1].startswith("  leg/2")
        assert up[2].startswith("    parent  leg/1@step-4")
        assert "steps 4..6" in up[1]
        assert up[-1].endswith("(above)")
        assert "hull" in reckon("tree", "chart", "--down").stdout
        facts = told(reckon("tree", "hull", "--json"))
        assert facts["tree"]["branches"][0]["branches"][0]["role"] == "parent"
        assert facts["tree"]["mark"] == "claimed"


class TestVerify:
    def test_an_untouched_tree_holds_twice(self, at_sea: Toy, reckon: Callable) -> None:
        first, second = reckon("verify", "--all"), reckon("verify", "--all")
        assert first == second
        assert first.stdout.startswith("Holds: ")

    def test_damage_is_named_with_stage_path_and_both_digests(self, at_sea: Toy, reckon: Callable) -> None:
        at_sea.flip("artifacts/leg/1/checkpoints/step-4/state.safetensors")
        ended = reckon("verify", "--all")
        assert ended.status == 1
        lines = ended.stdout.splitlines()
        assert lines[0].startswith("leg/1@step-4: altered: artifacts/leg/1/checkpoints/step-4/state.safetensors")
        assert [line.split()[0] for line in lines[1:3]] == ["recorded", "found"]
        assert lines[3] == (
            "leg/1@step-4: tensor: The tensor opt_state/count of leg/1@step-4 has other values than recorded."
        )
        assert "Does not hold: 3 findings among" in ended.stdout
        assert "dvc checkout" in ended.stdout
        facts = told(reckon("verify", "leg/1@step-4", "--json"))
        assert not facts["holds"]
        assert facts["findings"][1]["part"] == "opt_state/count"
        assert reckon("verify", "leg/1@step-2").status == 0

    def test_a_damaged_record_is_named(self, at_sea: Toy, reckon: Callable) -> None:
        digest, _ = at_sea.ledger.head("leg/1")
        at_sea.flip(f"manifests/executions/{digest.hex}.json", 12)
        ended = reckon("verify", "--all")
        assert ended.status == 1
        assert f"manifests/executions/{digest.hex}.json" in ended.stdout
        assert "git checkout -- manifests" in ended.stdout

    def test_many_findings_are_cut(self, at_sea: Toy, reckon: Callable) -> None:
        for number in range(30):
            at_sea.write(f"artifacts/plot/west/{number}.bin", b"")
        assert "… 10 more findings: --full" not in reckon("verify", "plot/west", "--full").stdout
        assert "… 10 findings more: --full" in reckon("verify", "plot/west").stdout

    def test_nothing_recorded_does_not_hold(self, at_sea: Toy, reckon: Callable) -> None:
        shutil.rmtree(at_sea.root / "manifests")
        shutil.rmtree(at_sea.root / "artifacts")
        at_sea.commit("Nothing")
        ended = reckon("verify", "--all")
        assert ended.status == 1
        assert "nothing was checked" in ended.stdout

    @pytest.mark.parametrize("arguments", [[], ["chart", "--all"]])
    def test_a_name_or_all(self, at_sea: Toy, reckon: Callable, arguments: list[str]) -> None:
        ended = reckon("verify", *arguments)
        assert ended.status == 2
        assert "Give a NAME or --all" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["show", "leg/3"], 2, "Did you mean leg/2 or leg/1?"),
        (["show", "leg/1@step-3"], 2, "Did you mean"),
        (["show", "leg/1:transcript"], 2, "Did you mean transcript.jsonl?"),
        (["show", "LEG/1"], 2, "Names look like"),
        (["show", "sha256:0"], 2, "hex digits"),
        (["show", "00000000"], 2, "begins with"),
        (["tree", "../etc"], 2, "Names look like"),
        (["verify", "leg/9"], 2, "Did you mean"),
        (["log", "zzz"], 2, "Known are"),
        (["log", "-n", "0"], 2, "-n"),
    ],
)
def test_bad_input_is_refused_with_a_sentence(
    at_sea: Toy, reckon: Callable, arguments: list[str], status: int, words: str
) -> None:
    ended = reckon(*arguments)
    assert (ended.status, ended.stdout) == (status, "")
    assert words in ended.stderr
    assert "Traceback" not in ended.stderr
    assert told(reckon(*arguments, "--json"))["error"]["message"]


def test_a_stage_that_was_never_run_is_told_with_what_to_do(at_sea: Toy, reckon: Callable) -> None:
    shutil.rmtree(at_sea.root / "manifests")
    for command in ("show", "tree", "verify"):
        ended = reckon(command, "leg/1")
        assert ended.status == 2
        assert "The stage leg/1 has no complete execution on record. Run 'dvc repro leg@1'" in ended.stderr


@pytest.mark.parametrize("arguments", READING[1:4], ids=" ".join)
def test_records_can_be_read_although_the_pipeline_cannot(at_sea: Toy, reckon: Callable, arguments: list[str]) -> None:
    at_sea.write("dvc.yaml", "stages: [")
    assert reckon(*arguments).status == 0
    ended = reckon("status")
    assert ended.status == 2
    assert "dvc.yaml is not YAML" in ended.stderr


def test_outside_of_an_archive(tmp_path: object, monkeypatch: pytest.MonkeyPatch, reckon: Callable) -> None:
    monkeypatch.chdir(tmp_path)
    for arguments in READING:
        ended = reckon(*arguments)
        assert ended.status == 2
        assert "no archive" in ended.stderr


def test_a_hostile_name_in_a_record_moves_no_cursor(at_sea: Toy, reckon: Callable) -> None:
    at_sea.host.name = "har\x1b[2Jbour\u202e"
    at_sea.run("note")
    assert "\x1b" not in reckon("log").stdout
    assert "\\x1b[2J" in reckon("log").stdout
