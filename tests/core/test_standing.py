"""Tiers are earned by complete second makings, step by step."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.executions import ONE

from registry.core.digests import sha256
from registry.core.records import Execution, Outcome
from registry.core.standing import Tier, covered, standing

TWO = replace(ONE, attempt="a2")


def attempts(*executions: Execution) -> dict[str, Execution]:
    return {one.attempt: one for one in executions}


def test_one_execution_is_custody() -> None:
    found = standing([ONE], attempts(ONE))
    assert (found.tier, found.replayed_steps, found.total_steps, found.label) == (Tier.CUSTODY, 0, 40, "T0")


def test_two_full_executions_on_one_host() -> None:
    found = standing([ONE, TWO], attempts(ONE, TWO))
    assert (found.tier, found.witnesses, found.label) == (Tier.SAME_SETUP, 2, "T1 40/40 steps")


def test_two_full_executions_on_two_hosts() -> None:
    found = standing([ONE, replace(TWO, host={"name": "roadstead"})], attempts(ONE, TWO))
    assert (found.tier, found.hosts) == (Tier.OTHER_HOST, ("harbour", "roadstead"))


def test_a_stage_without_steps_is_made_again_as_a_whole() -> None:
    whole = [replace(one, steps=None) for one in (ONE, TWO)]
    found = standing(whole, attempts(*whole))
    assert (found.tier, found.replayed_steps, found.label) == (Tier.SAME_SETUP, None, "T1")


def test_a_resumed_execution_vouches_for_what_it_ran() -> None:
    resumed = replace(TWO, steps={"first": 30, "reached": 40}, resumed={"attempt": "lost", "step": 30})
    found = standing([ONE, resumed], attempts(ONE, resumed))
    assert (found.tier, found.label) == (Tier.SAME_SETUP, "T1 10/40 steps")


def test_a_resumed_execution_vouches_for_those_before_it_too() -> None:
    killed = replace(ONE, attempt="a0", outcome=Outcome.INTERRUPTED, product=None, steps={"first": 0, "reached": 35})
    resumed = replace(TWO, steps={"first": 30, "reached": 40}, resumed={"attempt": "a0", "step": 30})
    assert standing([ONE, resumed], attempts(ONE, killed, resumed)).label == "T1 40/40 steps"


def test_an_attempt_of_another_recipe_is_no_part_of_it() -> None:
    killed = replace(ONE, attempt="a0", recipe=sha256(b"other"), outcome=Outcome.INTERRUPTED, product=None)
    resumed = replace(TWO, steps={"first": 30, "reached": 40}, resumed={"attempt": "a0", "step": 30})
    assert covered(resumed, attempts(killed, resumed)) == range(30, 40)


def test_two_halves_are_not_a_second_making() -> None:
    first = replace(ONE, steps={"first": 0, "reached": 20})
    second = replace(TWO, steps={"first": 20, "reached": 40})
    found = standing([first, second], attempts(first, second))
    assert (found.tier, found.replayed_steps, found.total_steps) == (Tier.CUSTODY, 0, 40)


def test_attempts_that_resume_from_each_other_end() -> None:
    first = replace(ONE, steps={"first": 10, "reached": 40}, resumed={"attempt": "a2", "step": 10})
    second = replace(TWO, steps={"first": 10, "reached": 40}, resumed={"attempt": "a1", "step": 10})
    assert covered(first, attempts(first, second)) == range(10, 40)


@pytest.mark.parametrize("steps", [{}, {"first": 0}, {"first": "0", "reached": 4}, {"first": True, "reached": 4}])
def test_odd_steps_count_as_none(steps: dict) -> None:
    assert covered(replace(ONE, steps=steps), {}) is None


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=2, max_size=5))
def test_steps_are_counted_as_sets_would(ranges: list[tuple[int, int]]) -> None:
    witnesses = [
        replace(ONE, attempt=f"a{number}", steps={"first": first, "reached": reached})
        for number, (first, reached) in enumerate(ranges)
    ]
    found = standing(witnesses, attempts(*witnesses))
    run = [step for first, reached in ranges for step in range(first, reached)]
    assert found.total_steps == len(set(run))
    assert found.replayed_steps == len([step for step in set(run) if run.count(step) > 1])
