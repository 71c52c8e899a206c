"""Scratch: whatever a kill leaves is resumed, published or begun anew, never mixed and never taken for complete."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from registry.errors import Refused
from train.scratch import Scratch, refuse_others, scratch


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scratch:
    monkeypatch.chdir(tmp_path)
    return scratch("hero/1", {"rate": "1"}, {"code": "sha256:1"})


def state(folder: Path, step: int) -> None:
    (folder / f"step-{step}").mkdir(parents=True)
    (folder / f"step-{step}" / "state").write_text(str(step))


def test_the_key_follows_settings_inputs_and_code(place: Scratch) -> None:
    assert scratch("hero/1", {"rate": "1"}, {"code": "sha256:1"}) == place
    others = [
        scratch("hero/1", {"rate": "2"}, {"code": "sha256:1"}),
        scratch("hero/1", {"rate": "1"}, {"code": "sha256:2"}),
    ]
    Path("train/data").mkdir(parents=True)
    Path("train/data/new.py").write_text("")
    others.append(scratch("hero/1", {"rate": "1"}, {"code": "sha256:1"}))
    assert len({place.folder, *(one.folder for one in others)}) == 4


def test_an_empty_place_has_nothing_to_go_on_from(place: Scratch) -> None:
    assert place.latest() is None
    assert not place.finished
    place.own("a")
    assert place.latest() is None


def test_the_latest_whole_state_is_found_with_the_attempt_that_wrote_it(place: Scratch) -> None:
    place.own("first")
    place.owned(5, "first")
    state(place.states, 5)
    place.own("second")
    place.owned(8, "second")
    state(place.work / "checkpoints", 8)
    state(place.states, 3)
    (place.states / ".step-9.partial").mkdir()
    place.own("third")
    found = place.latest()
    assert found is not None
    assert (found.step, found.attempt, found.folder) == (8, "second", place.work / "checkpoints" / "step-8")
    place.drop_states_before(8)
    assert not (place.states / "step-5").exists()
    assert (place.work / "checkpoints" / "step-8").is_dir(), "an output is kept"


def test_a_state_that_was_announced_but_never_written_does_not_count(place: Scratch) -> None:
    place.own("first")
    place.owned(5, "first")
    state(place.states, 5)
    place.owned(10, "first")
    found = place.latest()
    assert found is not None
    assert found.step == 5


def test_outputs_take_the_place_of_old_ones_in_one_go(place: Scratch) -> None:
    place.own("a")
    (place.work / "transcript.jsonl").write_text("new")
    state(place.states, 5)
    place.output.mkdir(parents=True)
    (place.output / "stale").write_text("old")
    place.publish()
    assert sorted(path.name for path in place.output.iterdir()) == ["checkpoints", "transcript.jsonl"]
    place.remove()
    assert not place.folder.parent.exists()


def test_finished_outputs_are_published_after_a_kill(place: Scratch, monkeypatch: pytest.MonkeyPatch) -> None:
    place.own("a")
    (place.work / "transcript.jsonl").write_text("new")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", _killed)
        with pytest.raises(KeyboardInterrupt):
            place.publish()
    assert place.finished
    place.publish()
    assert (place.output / "transcript.jsonl").read_text() == "new"


def test_what_is_left_after_publishing_is_not_taken_for_finished(place: Scratch) -> None:
    place.own("a")
    place.publish()
    assert not place.finished
    shutil.rmtree(place.output)  # as DVC does before it runs a stage again
    place.own("b")
    assert place.latest() is None
    assert not place.finished
    assert not (place.folder / "complete").exists()


def test_an_unfinished_run_of_another_recipe_is_not_passed_over(place: Scratch) -> None:
    other = scratch("hero/1", {"rate": "2"}, {"code": "sha256:1"})
    refuse_others(place)
    other.own("a")
    refuse_others(place)
    other.owned(40, "a")
    state(other.states, 40)
    with pytest.raises(Refused, match="step 40"):
        refuse_others(place)
    place.own("b")
    state(place.states, 2)
    refuse_others(place)  # this one goes on from its own


def _killed(self: Path, target: Path) -> Path:
    raise KeyboardInterrupt
