"""Differences of setups are graded: what reaches the numbers, what cannot, and what nobody has shown to be either."""

from __future__ import annotations

from dataclasses import replace

import pytest

from registry.core.records import Environment
from registry.core.setups import Grade, Setup, lacking_instructions, setup_changes

RECORD = "sha256:" + "7" * 64
TOLD = Environment(
    python="3.11.7",
    platform={"system": "Linux", "machine": "x86_64", "release": "6.1", "libc": "glibc-2.36", "cores": 2},
    accelerator={"kind": "cpu", "name": "cpu", "count": 1},
    distributions=(
        {"name": "jax", "version": "0.10.2", "record": RECORD},
        {"name": "ml_dtypes", "version": "0.5", "record": RECORD},
        {"name": "wandb", "version": "0.31.0", "record": RECORD},
        {"name": "orjson", "version": "3.0", "record": None},
    ),
)
HERE = Setup(
    environment=TOLD,
    host={"name": "harbour", "processor": "old", "cores": 2, "memory_bytes": 8},
    determinism={"nproc": 2, "max_isa": "AVX2", "jax": "0.10.2"},
)


def graded(found: Setup, recorded: Setup = HERE) -> dict[str, Grade]:
    return {one.fact: one.grade for one in setup_changes(recorded, found)}


def told(**changes: object) -> Setup:
    return replace(HERE, environment=replace(TOLD, **changes))


def test_the_same_setup_has_no_differences() -> None:
    assert setup_changes(HERE, HERE) == ()


@pytest.mark.parametrize(
    ("found", "fact", "grade"),
    [
        (replace(HERE, determinism={**HERE.determinism, "nproc": 1}), "determinism nproc", Grade.NUMERIC),
        (replace(HERE, determinism={**HERE.determinism, "new": 1}), "determinism new", Grade.NUMERIC),
        (replace(HERE, host={**HERE.host, "name": "roadstead"}), "host name", Grade.HARMLESS),
        (replace(HERE, host={**HERE.host, "cores": 64}), "host cores", Grade.HARMLESS),
        (replace(HERE, host={**HERE.host, "processor": "new"}), "host processor", Grade.UNKNOWN),
        (told(python="3.12.1"), "python", Grade.UNKNOWN),
        (told(platform={**TOLD.platform, "machine": "aarch64"}), "platform machine", Grade.NUMERIC),
        (told(platform={**TOLD.platform, "release": "6.2"}), "platform release", Grade.HARMLESS),
        (told(platform={**TOLD.platform, "libc": "musl"}), "platform libc", Grade.UNKNOWN),
        (told(accelerator={"kind": "gpu", "name": "cpu", "count": 1}), "accelerator kind", Grade.NUMERIC),
        (told(distributions=TOLD.distributions[1:]), "distribution jax", Grade.NUMERIC),
        (told(distributions=(*TOLD.distributions[:2], *TOLD.distributions[3:])), "distribution wandb", Grade.HARMLESS),
        (told(distributions=TOLD.distributions[:3]), "distribution orjson", Grade.UNKNOWN),
    ],
)
def test_a_difference_has_its_grade(found: Setup, fact: str, grade: Grade) -> None:
    assert graded(found) == {fact: grade}


def test_cores_reach_the_numbers_unless_they_are_pinned() -> None:
    free = replace(HERE, determinism={})
    assert graded(replace(free, host={**HERE.host, "cores": 64}), free) == {"host cores": Grade.NUMERIC}


def test_another_record_of_one_version_is_harmless_only_for_scripts() -> None:
    other = {"name": "ml-dtypes", "version": "0.5", "record": "sha256:" + "8" * 64}
    found = told(distributions=(TOLD.distributions[0], other, *TOLD.distributions[2:]))
    assert graded(found) == {"distribution ml-dtypes": Grade.NUMERIC}
    [one] = setup_changes(HERE, found, frozenset({"ml_dtypes"}))
    assert one.grade is Grade.HARMLESS
    newer = told(distributions=(TOLD.distributions[0], {**other, "version": "0.6"}, *TOLD.distributions[2:]))
    [one] = setup_changes(HERE, newer, frozenset({"ml_dtypes"}))
    assert one.grade is Grade.NUMERIC


def test_what_the_record_does_not_tell_is_not_compared() -> None:
    extra = told(distributions=(*TOLD.distributions, {"name": "torch", "version": "9", "record": None}))
    assert graded(extra) == {}
    recorded = told(distributions=({"name": "orjson", "version": "3.0", "record": RECORD},))
    assert graded(told(), recorded) == {}
    assert graded(replace(HERE, environment=None)) == {}


def test_the_numeric_come_first() -> None:
    found = replace(told(python="3.12.1"), determinism={"nproc": 1}, host={**HERE.host, "name": "x"})
    order = [one.grade for one in setup_changes(HERE, found)]
    assert order == sorted(order, key=[Grade.NUMERIC, Grade.UNKNOWN, Grade.HARMLESS].index)


def test_a_processor_must_have_the_instructions() -> None:
    assert lacking_instructions({"max_isa": "AVX2"}, frozenset({"sse4_2", "avx2"})) is None
    assert lacking_instructions({"max_isa": "AVX2"}, frozenset()) is None, "unknown is not lacking"
    lacking = lacking_instructions({"max_isa": "AVX2"}, frozenset({"sse4_2"}))
    assert lacking is not None
    assert lacking.can_change_bits
