"""The mark of a re-derivation, and what it adds to the standing of a product."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.executions import ONE

from registry.core import canonical
from registry.core.codec import record_bytes
from registry.core.digests import sha256
from registry.core.ledger import Ledger
from registry.core.records import Execution, Outcome
from registry.core.rederivation import KEY, Mark, Verdict, mark_of, rederives
from registry.core.standing import Tier, standing

PRODUCT = sha256(b"product")
MARK = Mark(
    product=PRODUCT,
    execution=sha256(b"execution"),
    verdict=Verdict.AGREES,
    whole=False,
    tier="T1",
    first_step=10,
    last_step=25,
)


def window(mark: Mark, attempt: str = "a2", **changes: object) -> Execution:
    marked = replace(ONE, attempt=attempt, product=None, outcome=Outcome.INTERRUPTED, extra={KEY: mark.to_json()})
    return replace(marked, **changes)


def told(*others: Execution) -> tuple[str, int | None]:
    found = standing([ONE], {one.attempt: one for one in (ONE, *others)})
    return found.label, found.replayed_steps


def test_a_mark_is_written_and_read_back() -> None:
    full = replace(MARK, changes={"determinism.nproc": ["2", "1"]}, difference={"first_step": 4}, tolerance="0.1")
    made = Execution.from_json(canonical.decode(record_bytes(window(full))))
    assert mark_of(made) == full
    assert record_bytes(made) == record_bytes(window(full))


@pytest.mark.parametrize("odd", [{}, {"product": 1}, [], "T1", {**MARK.to_json(), "more": 1}])
def test_a_malformed_mark_marks_and_claims_nothing(odd: object) -> None:
    execution = replace(window(MARK), extra={KEY: odd})
    assert rederives(execution)
    assert mark_of(execution) is None
    assert told(execution) == ("T0", 0)


def test_windows_count_for_their_steps() -> None:
    assert told() == ("T0", 0)
    assert told(window(MARK)) == ("T1 15/40 steps", 15)
    later = replace(MARK, first_step=20, last_step=40)
    assert told(window(MARK), window(later, "a3")) == ("T1 30/40 steps", 30)
    assert told(window(MARK, host={"name": "roadstead"})) == ("T2 15/40 steps", 15)


def test_a_mark_cannot_add_steps_to_a_run() -> None:
    assert told(window(replace(MARK, first_step=30, last_step=10**12))) == ("T1 10/40 steps", 10)
    assert told(window(replace(MARK, first_step=50, last_step=60))) == ("T0", 0)


def test_the_same_bits_under_other_settings_are_no_witness() -> None:
    other = replace(MARK, whole=True, tier="T3", tolerance="0", changes={"determinism.nproc": ["2", "1"]})
    assert told(window(other)) == ("T3 within 0", 0)


def test_only_agreeing_windows_of_this_product_count() -> None:
    assert told(window(replace(MARK, verdict=Verdict.CONTRADICTS))) == ("T0", 0)
    assert told(window(replace(MARK, product=sha256(b"another")))) == ("T0", 0)


def test_approximate_tiers_count_where_there_is_nothing_better() -> None:
    near = replace(MARK, verdict=Verdict.MISMATCH, whole=True, tier="T3", tolerance="0.01", first_step=0, last_step=40)
    noisy = replace(near, tier="T4", tolerance=None, noise="0.02")
    assert told(window(near)) == ("T3 within 0.01", 0)
    assert told(window(noisy)) == ("T4 within 0.02", 0)
    assert told(window(noisy), window(near, "a3")) == ("T3 within 0.01", 0)
    assert told(window(near), window(MARK, "a3"))[0] == "T1 15/40 steps"
    assert told(window(replace(near, whole=False)))[0] == "T0"
    found = standing([ONE], {"a1": ONE, "a2": window(near)})
    assert (found.tier, found.within) == (Tier.TOLERANCE, "0.01")


def test_a_rederivation_leads_no_name() -> None:
    other = replace(ONE, attempt="a9", product=sha256(b"other"), extra={KEY: MARK.to_json()})
    ledger = Ledger(executions={sha256(b"1"): ONE, sha256(b"9"): other})
    assert ledger.head("rung/d32") == (sha256(b"1"), ONE)
    assert len(ledger.witnesses(ONE.recipe)) == 2, "and it contradicts all the same"
    alone = Ledger(executions={sha256(b"9"): other})
    assert alone.head("rung/d32") == (sha256(b"9"), other)
