"""Incidents as records, and beside them those that executions tell."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.charted import execution_of

from registry.core.codec import name_of, record_bytes
from registry.core.digests import sha256
from registry.core.incidents import LONGEST_TEXT, Incident, Incidents, Kind, belongs
from registry.core.ledger import Ledger
from registry.errors import DoesNotHold, MalformedRecord, Refused

HANG = Incident(
    about="hero/2",
    digest=None,
    incident=Kind.HANG,
    first_step=14,
    last_step=16,
    text="One rank waited.",
    time="2026-11-30T12:00:30.000000Z",
)
NAN = {"kind": "nan", "first_step": 3, "last_step": 3, "text": "The loss is nan."}


def incidents(*records: Incident, told: tuple[object, ...] = ()) -> Incidents:
    execution = replace(execution_of("hero/1", 1, sha256(b"recipe"), None), incidents=told)
    ledger = Ledger(executions={name_of(execution): execution})
    return Incidents.build(((name_of(one), record_bytes(one)) for one in records), ledger)


@pytest.mark.parametrize(
    "changes",
    [
        {"about": "Hero/2"},
        {"about": "hero//2"},
        {"about": "../hero"},
        {"last_step": None},
        {"first_step": None},
        {"first_step": 17},
        {"last_step": 2**60},
        {"text": " \n"},
        {"text": "x" * (LONGEST_TEXT + 1)},
        {"text": "\x1b[2J"},
        {"text": "a\u202eb"},
    ],
    ids=lambda changes: str(changes)[:30],
)
def test_an_incident_that_makes_no_sense_is_refused(changes):
    with pytest.raises(Refused):
        replace(HANG, **changes)


def test_a_kind_that_is_not_known_is_refused():
    with pytest.raises(MalformedRecord, match="no kind of incident"):
        Incident.from_json({**HANG.to_json(), "incident": "mutiny"})


def test_records_and_executions_are_listed_together_by_time():
    found = incidents(HANG, told=(NAN,))
    assert [(event.incident, event.automatic, event.steps) for event in found.events] == [
        ("nan", True, "3"),
        ("hang", False, "14:16"),
    ]
    assert [event.label for event in found.of("hero/2")] == ["hang 14:16"]
    assert [event.label for event in found.of("hero/1")] == ["nan 3"]
    assert found.of("hero") == ()
    assert len(found.of("hero", family=True)) == 2
    assert not found.of("rung/d48", family=True)


def test_the_same_incident_of_two_attempts_is_told_twice_and_of_one_attempt_once():
    assert len(incidents(told=(NAN, NAN)).events) == 1


def test_steps_are_met_at_both_ends():
    found = incidents(HANG)
    assert [len(found.at("hero/2", step)) for step in (13, 14, 16, 17)] == [0, 1, 1, 0]
    assert [len(found.of("hero/2", range(*steps))) for steps in ((1, 14), (1, 15), (16, 20), (17, 20))] == [0, 1, 1, 0]
    without = incidents(replace(HANG, first_step=None, last_step=None, incident=Kind.ANNOTATION))
    assert len(without.of("hero/2", range(1, 3))) == 1
    assert not without.at("hero/2", 1)


def test_what_is_about_a_run_is_about_its_segments():
    assert belongs("hero", "hero/2")
    assert belongs("hero/2@step-18", "hero/2")
    assert belongs("shards:code/train-00000.parquet", "shards")
    assert not belongs("hero/2", "hero")
    assert not belongs("hero", "heroine/1")


@pytest.mark.parametrize(
    "odd",
    [None, 3, {}, {**NAN, "kind": 4}, {**NAN, "first_step": True}, {**NAN, "last_step": "3"}, {**NAN, "text": None}],
)
def test_odd_facts_of_an_execution_hide_no_other(odd):
    assert [event.label for event in incidents(told=(odd, NAN)).events] == ["nan 3"]


def test_one_bad_record_hides_no_other():
    digest = sha256(b"other")
    raw = [
        (digest, b"{}"),
        (digest, DoesNotHold("it does not have the bytes of its name")),
        (name_of(HANG), record_bytes(HANG)),
    ]
    found = Incidents.build(raw, Ledger())
    assert [event.incident for event in found.events] == ["hang"]
    assert len(found.damages) == 2
