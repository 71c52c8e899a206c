"""Classes of artifacts as records, and ages as settings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from registry.core.codec import name_of, record_bytes
from registry.core.digests import sha256
from registry.core.retention import Class, Marks, Policy, Retention, Subject
from registry.errors import MalformedRecord, Refused

SUBJECT = Subject(name="hero/1@step-400", product=sha256(b"product"), digest=sha256(b"tree"))
MILESTONE = Retention(
    holds=Class.MILESTONE, subjects=(SUBJECT,), text="in the paper", time="2026-11-30T12:00:00.000000Z"
)


@pytest.mark.parametrize("changes", [{"subjects": ()}, {"text": " "}, {"text": "two\nlines"}, {"text": "x" * 5000}])
def test_a_class_that_makes_no_sense_is_refused(changes):
    with pytest.raises(MalformedRecord):
        replace(MILESTONE, **changes)


def test_an_unknown_class_and_a_name_that_is_none_are_refused():
    with pytest.raises(MalformedRecord, match="no class"):
        Retention.from_json({**MILESTONE.to_json(), "holds": "treasure"})
    with pytest.raises(Refused, match="not a name"):
        Retention.from_json({**MILESTONE.to_json(), "subjects": [{**SUBJECT.to_json(), "name": "../hero"}]})


def test_the_newest_record_about_an_output_counts():
    back = replace(MILESTONE, holds=Class.SCRATCH, time="2026-11-30T13:00:00.000000Z")
    other = replace(MILESTONE, subjects=(replace(SUBJECT, name="hero/1@step-600"),))
    for records in ([MILESTONE, back, other], [other, back, MILESTONE]):
        marks = Marks.build((name_of(one), record_bytes(one)) for one in records)
        assert {name: one.holds for (_, name), one in marks.current.items()} == {
            "hero/1@step-400": Class.SCRATCH,
            "hero/1@step-600": Class.MILESTONE,
        }
    assert marks.of(sha256(b"another"), "hero/1@step-400") is None


def test_one_bad_record_hides_no_other():
    marks = Marks.build([(sha256(b"x"), b"{}"), (name_of(MILESTONE), record_bytes(MILESTONE))])
    assert len(marks.current) == len(marks.damages) == 1


def test_ages_come_from_the_settings():
    assert Policy.from_settings({}) == Policy()
    assert Policy.from_settings({"retention": {"scratch_days": 1}}) == Policy(scratch_days=1)


@pytest.mark.parametrize(
    "section",
    [3, [], {"scratch_days": -1}, {"scratch_days": True}, {"scratch_days": "7"}, {"days": 1}, {"scratch_days": 1.5}],
)
def test_odd_settings_are_refused(section):
    with pytest.raises(Refused, match="retention"):
        Policy.from_settings({"retention": section})
