"""The state of a stage is what its records, its attempts and the present say, and nothing open is called sound."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
from support import toy as toys
from support.toy import Toy

from registry.adapters.attempts import RunFolder
from registry.adapters.openings import OpeningFolder
from registry.core.comparison import Part
from registry.core.ledger import Ledger
from registry.core.records import Outcome
from registry.core.standing import Tier
from registry.workflows.status import StageState, Surveyor


def states(toy: Toy, ledger: Ledger | None = None) -> dict[str, StageState]:
    surveyor = Surveyor(
        workshop=toy.workshop,
        attempts=RunFolder(toy.root / "artifacts/runs"),
        openings=OpeningFolder(toy.root / "artifacts/runs"),
        tables=toy.tables,
        ledger=ledger or toy.ledger,
    )
    return {state.stage: state for state in surveyor.survey()}


def stale(toy: Toy) -> dict[str, dict[str, list[str]]]:
    found = {stage: state.stale for stage, state in states(toy).items() if state.stale}
    return {
        stage: {part: [one.key for one in changes] for part, changes in parts.items()} for stage, parts in found.items()
    }


def test_every_declared_stage_is_told_in_its_order(toy: Toy) -> None:
    found = states(toy)
    assert list(found) == list(toys.STAGES)
    assert not any(state.sound for state in found.values())
    assert all(state.product is None and state.trouble is None for state in found.values())


def test_a_stage_that_was_run_once_is_sound_and_in_custody(sailed: Toy) -> None:
    found = states(sailed)
    assert all(state.sound for state in found.values())
    assert {state.standing.tier for state in found.values()} == {Tier.CUSTODY}
    assert found["leg/1"].standing.total_steps == 4
    assert stale(sailed) == {}


def test_a_second_making_is_told_with_its_steps(sailed: Toy) -> None:
    sailed.run("leg/1")
    assert states(sailed)["leg/1"].standing.label == "T1 4/4 steps"
    sailed.host.name = "roadstead"
    sailed.run("chart")
    assert states(sailed)["chart"].standing.label == "T2"
    assert states(sailed)["chart"].sound


def test_a_changed_setting_makes_its_stage_stale(sailed: Toy) -> None:
    sailed.replace("params.yaml", "pull: 3", "pull: 4")
    assert stale(sailed) == {"leg/1": {Part.SETTINGS: ["legs.1.pull"]}}
    assert not states(sailed)["leg/1"].sound


def test_changed_code_makes_all_that_read_it_stale(sailed: Toy) -> None:
    sailed.replace("train/voyage.py", "KEEP_EVERY = 2", "KEEP_EVERY = 2  # steps")
    assert stale(sailed) == {stage: {Part.CODE: ["train/voyage.py"]} for stage in toys.STAGES}


def test_a_changed_lock_and_other_libraries_are_told(sailed: Toy) -> None:
    sailed.write("requirements.lock", "sextant==2.0\n")
    sailed.host.version = "2.0"
    found = stale(sailed)
    assert found["chart"] == {Part.LOCK: ["lock"]}
    assert found["leg/2"] == {Part.LOCK: ["lock"], Part.DETERMINISM: ["jax"]}


def test_a_changed_command_is_told(sailed: Toy) -> None:
    sailed.replace("dvc.yaml", "python -m train.voyage chart", "python -m train.voyage chart --fast")
    assert stale(sailed) == {"chart": {Part.COMMAND: ["command"]}}


def test_another_product_makes_what_was_made_from_it_stale(sailed: Toy) -> None:
    sailed.replace("params.yaml", "lines: 20", "lines: 21")
    sailed.run("chart")
    assert stale(sailed) == {
        "plot/east": {Part.INPUTS: ["chart:east/text.txt"]},
        "plot/west": {Part.INPUTS: ["chart:west/text.txt"]},
    }
    for side in ("east", "west"):
        sailed.run(f"plot/{side}")
    assert stale(sailed) == {leg: {Part.INPUTS: ["plot/east", "plot/west"]} for leg in ("leg/1", "leg/2")}


def test_inputs_are_taken_as_recorded_and_not_hashed(sailed: Toy) -> None:
    """Flipped bytes are for verify to find; a clone without bytes still knows what is stale."""
    sailed.flip("artifacts/plot/east/points.bin")
    assert stale(sailed) == {}
    shutil.rmtree(sailed.root / "artifacts")
    found = states(sailed)
    assert stale(sailed) == {}
    assert found["leg/1"].missing[0] == "artifacts/leg/1"
    assert found["note"].missing == ("artifacts/note.json",)
    assert not any(state.sound for state in found.values())


def test_a_stage_that_died_has_an_open_attempt(sailed: Toy) -> None:
    sailed.interrupt("leg/1", stop_after=3)
    found = states(sailed)["leg/1"]
    assert found.unrecorded == ("20261130t120000z-00000008",)
    assert not found.sound


def test_a_running_stage_is_told(sailed: Toy) -> None:
    sailed.interrupt("leg/1", stop_after=3)
    surveyor = Surveyor(
        workshop=sailed.workshop,
        attempts=RunFolder(sailed.root / "artifacts/runs"),
        openings=OpeningFolder(sailed.root / "artifacts/runs"),
        tables=sailed.tables,
        ledger=sailed.ledger,
    )
    surveyor.attempts.alive = lambda log: log.finished is None
    [found] = [state for state in surveyor.survey() if state.stage == "leg/1"]
    assert (found.running, found.unrecorded) == ("20261130t120000z-00000008", ())
    assert not found.sound


def test_a_failed_last_attempt_is_told_although_an_older_product_stands(sailed: Toy) -> None:
    sailed.recorder.begin("chart", None)
    with pytest.raises(RuntimeError):
        sailed.attempt("chart", failing=True)
    sailed.recorder.record("chart", 1, sailed.ledger)
    found = states(sailed)["chart"]
    assert found.product is not None
    assert found.last.outcome is Outcome.FAILED
    assert not found.sound
    sailed.run("chart")
    assert states(sailed)["chart"].sound


def test_a_contradiction_is_told_and_not_overwritten(sailed: Toy) -> None:
    first = states(sailed)["chart"].product
    sailed.recorder.begin("chart", None)
    sailed.attempt("chart")
    sailed.write("artifacts/chart/east/text.txt", "another coast\n")
    sailed.recorder.record("chart", 0, sailed.ledger)
    found = states(sailed)["chart"]
    assert found.contradictions == (first,)
    assert found.standing.witnesses == 1
    assert not found.sound


def test_a_recipe_that_cannot_be_made_any_more_is_told(sailed: Toy) -> None:
    (sailed.root / "train/voyage.py").unlink()
    assert "train/voyage.py does not exist" in states(sailed)["chart"].trouble
    assert not states(sailed)["chart"].sound


def test_records_that_cannot_be_read_are_told(sailed: Toy) -> None:
    ledger = sailed.ledger
    found = states(sailed, replace(ledger, recipes={}))
    assert all("recipe" in state.trouble for state in found.values())
    found = states(sailed, replace(ledger, products={}))
    assert all("product" in state.trouble for state in found.values())
    assert not any(state.sound for state in found.values())


def test_a_stage_that_is_no_longer_declared_is_told_last(sailed: Toy) -> None:
    text = (sailed.root / "dvc.yaml").read_text()
    sailed.write("dvc.yaml", text[: text.index("  note:")] + text[text.index("  leg:") :])
    found = states(sailed)
    assert list(found)[-1] == "note"
    assert not found["note"].declared
    assert found["note"].product is not None


def test_run_logs_that_cannot_be_read_are_told(sailed: Toy) -> None:
    sailed.write("artifacts/runs/chart/20261130t140000z-00000000/run.jsonl", "{}\n")
    assert "malformed" in states(sailed)["chart"].trouble
