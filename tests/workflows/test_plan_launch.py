"""Planning: what is asked is looked at before this checkout; a published run's bundle tells what the record tells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.foreign import document, shelf_of, thing

from registry.adapters.pipeline import DvcPipeline
from registry.cli import wiring
from registry.core.adopted.shelf import Shelf
from registry.core.digests import sha256
from registry.core.launch import Quotas, Target
from registry.core.ledger import Ledger
from registry.core.program import Asked, Lowered
from registry.core.records import Revision
from registry.errors import Refused, UnknownName
from registry.workflows.plan import Planner, Request

ROOT = Path(__file__).resolve().parents[2]
HERO = Request(name="d6144", target=Target.SLURM)


@cache
def ledger() -> Ledger:
    """This archive's own records, read once."""
    return wiring.ledger(ROOT)


def planner(
    *, dirty: bool = False, lower: Callable[[Asked], Lowered] | None = None, shelf: Shelf | None = None
) -> Planner:
    return Planner(
        workshop=wiring.workshop(ROOT),
        ledger=ledger(),
        shelf=shelf or shelf_of(document()),
        params=DvcPipeline(ROOT).params(),
        revision=Revision(commit="c" * 40, tree="d" * 40, patch=sha256(b"") if dirty else None),
        origin=None,
        lower=lower,
    )


@pytest.mark.parametrize(
    ("changed", "error", "said"),
    [
        ({"name": "d99"}, UnknownName, "d99 is no rung"),
        ({"target": Target.LOCAL}, Refused, "no data here"),
        ({"devices": 70}, Refused, "no whole racks"),
        ({"devices": 68}, Refused, "no whole racks"),
        ({"devices": 20}, Refused, "sequences cannot be spread over 20"),
        ({"devices": 44}, Refused, "384 experts cannot be spread over 44"),
        ({"name": "d48", "target": Target.LOCAL, "processes": 2}, Refused, "5 sequences cannot be spread over 2"),
        ({"name": "d48", "target": Target.LOCAL, "resume_processes": 3}, Refused, "5 sequences .* over 3"),
        ({"window": (5, 999_999)}, Refused, "390251 steps"),
        ({"window": (7, 2)}, Refused, "no window"),
        ({}, Refused, "no commit holds"),
    ],
)
def test_what_is_asked_wrongly_is_told_before_the_state_of_the_checkout(
    changed: dict[str, Any], error: type[Exception], said: str
) -> None:
    def lower(_: Asked) -> Lowered:
        raise AssertionError("nothing is lowered for what is refused")

    with pytest.raises(error, match=said):
        planner(dirty=True, lower=lower).plan(replace(HERO, **changed))


def test_the_heros_forecast_stands_beside_what_others_told() -> None:
    launch = planner().plan(HERO)
    told = launch.forecast
    assert (told.kept, launch.window.keep_every) == (66, 6000), "every 6000 of 390251 steps, and the last"
    assert told.checkpoint_objects == 28160 >= 28098, "the larger of the two figures that were told, in whole nodes"
    assert told.checkpoint_bytes == 8 * 535_305_388_032, "float32: parameters and one moment"
    assert told.total_bytes == 67 * told.checkpoint_bytes + 390251 * 4096
    assert launch.told == (
        "checkpoint size 5.36 TB (reports)",
        "checkpoint objects 26795 (reports)",
        "checkpoint objects 28098 (issue-8890)",
    )
    assert not told.exceeded(Quotas(disk_bytes=287 * 10**12, objects=67 * 28160 + 16))
    assert len(told.exceeded(Quotas(disk_bytes=286 * 10**12, objects=67 * 28160))) == 2


def test_what_a_published_run_lacks_is_told_from_the_record() -> None:
    def missing(first: int, shelf: Shelf | None = None) -> dict[str, str]:
        launch = planner(shelf=shelf).plan(replace(HERO, window=(first, 200_000)))
        assert launch.parent is None
        return {str(one["name"]): str(one["why"]) for one in launch.lacking}

    data = {"marin/data/harrier-mix-2026.08.18": "withheld: its sources may not be redistributed"}
    assert missing(0) == data
    assert missing(81716) == data | {"marin/hero/2@step-81716": "it is lost: deleted later in a quota clean-up"}
    assert missing(54000) == data | {"marin/hero/1@step-54000": "it is on the run's grid of permanent checkpoints"}
    told = document()
    thing(told, "marin/data/harrier-mix-2026.08.18")["absence"]["digest"] = "sha256:" + "7" * 64
    lacking = planner(shelf=shelf_of(told)).plan(HERO).lacking
    assert [one["digest"] for one in lacking] == ["sha256:" + "7" * 64]
    assert list(missing(0, Shelf())) == ["token caches"], "what nobody tells of is lacking all the same"


@pytest.mark.slow
def test_a_whole_stage_on_its_own_setup_is_the_stage_itself() -> None:
    params = yaml.safe_load((ROOT / "params.yaml").read_text())
    rung = next(iter(params["rungs"]))
    assert planner().plan(Request(name="hero/1", target=Target.SLURM)).recorded
    assert planner().plan(Request(name=f"rung/{rung}", target=Target.LOCAL)).forecast.copies == 1
    for changed in ({"window": (0, 5)}, {"processes": 2}, {"resume_processes": 2}):  # of a batch of four
        launch = planner().plan(replace(Request(name=rung, target=Target.LOCAL), **changed))
        assert not launch.recorded
        assert launch.forecast.copies == 4, "whole and as shards, of the run and of its reference"
