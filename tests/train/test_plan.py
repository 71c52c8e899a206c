"""Plans of rungs and segments follow from the settings, and what would begin anew by accident is refused."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import pocket

from registry.core.ladder import Shape, derive
from registry.core.names import Name
from registry.errors import Refused
from train import plan as plans

END = derive(plans.Family.from_settings(pocket.PARAMS["family"]), Shape.from_settings(pocket.PARAMS["hero"])).steps


@pytest.fixture
def params(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(tmp_path)
    settings = copy.deepcopy(pocket.PARAMS)
    write(settings)
    return settings


def write(settings: dict[str, Any]) -> None:
    Path("params.yaml").write_text(yaml.safe_dump(settings))


@pytest.mark.usefixtures("params")
def test_a_rung_is_one_segment_from_first_to_last_step() -> None:
    plan = plans.rung_plan("d16")
    assert (plan.stage, plan.run, plan.parent, plan.first_step) == ("rung/d16", "rung/d16", None, 0)
    assert plan.last_step == plan.rung.steps
    assert plan.kept[-1] == plan.last_step
    assert set(plan.declared) == {*plans.COMMON, "rungs.d16"}


def test_kept_steps_are_multiples_and_the_last(params: dict[str, Any]) -> None:
    params["training"]["keep_every_steps"] = 3
    write(params)
    first, second = plans.segment_plan("1"), plans.segment_plan("2")
    assert first.kept == (3, 4)
    assert second.kept == (*range(6, END, 3), END)
    assert not set(first.kept) & set(second.kept)


@pytest.mark.usefixtures("params")
def test_segments_join_at_the_parent_and_share_the_run() -> None:
    first, second = plans.segment_plan("1"), plans.segment_plan("2")
    assert second.parent == Name(stage="hero/1", step=4)
    assert (first.last_step, second.first_step, second.last_step) == (4, 4, END)
    assert first.run == second.run == "hero"
    assert first.rung == second.rung, "the schedule and the order are those of the whole run"
    assert "segments.2" not in first.declared, "a change of the second segment does not make the first one again"


def test_a_segment_changes_what_its_recipe_says_and_declares_it(params: dict[str, Any]) -> None:
    params["segments"]["2"]["changes"] = {"training": {"weight_decay": "0.02", "decayed": ["gate"]}}
    write(params)
    first, second = plans.segment_plan("1"), plans.segment_plan("2")
    assert first.sections["training"]["weight_decay"] == "0"
    assert second.sections["training"]["weight_decay"] == "0.02"
    assert second.declared["training"] == first.declared["training"]
    assert second.declared["segments.2"]["changes"]["training"]["decayed"] == ["gate"]  # type: ignore[index, call-overload]


@pytest.mark.parametrize(
    ("number", "change", "words"),
    [
        ("2", {"parent": None}, "has no parent"),
        ("1", {"parent": "hero/0@step-3"}, "names a parent"),
        ("2", {"parent": "hero/1"}, "no parent of segment 2"),
        ("2", {"parent": "rung/d16@step-4"}, "no parent of segment 2"),
        ("2", {"parent": "hero/2@step-4"}, "no parent of segment 2"),
        ("2", {"parent": "hero/1@step-4:state.safetensors"}, "no parent of segment 2"),
        ("2", {"parent": f"hero/1@step-{END}"}, "goes from step"),
        ("2", {"last_step": 4}, "goes from step 4 to 4"),
        ("2", {"last_step": END + 1}, "goes from step"),
        ("2", {"last_step": "soon"}, "last_step"),
        ("2", {"changes": {"training": {"rate_of_change": "1"}}}, "lacks"),
        ("2", {"changes": {"hero": {"hidden": 64}}}, "lacks"),
        ("2", {"reason": ""}, "reason"),
    ],
)
def test_segments_that_make_no_chain_are_refused(
    params: dict[str, Any], number: str, change: dict[str, Any], words: str
) -> None:
    params["segments"][number].update(change)
    write(params)
    with pytest.raises(Refused, match=words):
        plans.segment_plan(number)


@pytest.mark.usefixtures("params")
def test_unknown_names_are_refused_with_the_known_ones() -> None:
    with pytest.raises(Refused, match="d16"):
        plans.rung_plan("d17")
    with pytest.raises(Refused, match="1, 2"):
        plans.segment_plan("3")
