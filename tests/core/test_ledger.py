"""The ledger indexes what can be read and tells what cannot; it overwrites nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.executions import ONE

from registry.core.codec import name_of, record_bytes
from registry.core.digests import Digest, sha256
from registry.core.ledger import KINDS, Ledger
from registry.core.records import Execution, Outcome, Product, Recipe
from registry.errors import DoesNotHold

RECIPE = Recipe(
    stage="rung/d32", command=("make",), config={}, source=(), lock=sha256(b"lock"), inputs=(), determinism={}
)
PRODUCT = Product(stage="rung/d32", recipe=name_of(RECIPE), outputs=())
EXECUTION = replace(
    ONE,
    attempt="20261130t120000z-00000001",
    recipe=name_of(RECIPE),
    product=name_of(PRODUCT),
    steps=None,
    host={},
)


def at(hour: int, **changes: object) -> Execution:
    return replace(EXECUTION, attempt=f"20261130t{hour:02d}0000z-00000001", **changes)


def ledger(*records: Recipe | Product | Execution) -> Ledger:
    return Ledger.build((one.kind, name_of(one), record_bytes(one)) for one in records)


def test_every_record_is_found_by_its_digest() -> None:
    found = ledger(RECIPE, PRODUCT, EXECUTION)
    assert found.recipes == {name_of(RECIPE): RECIPE}
    assert found.products == {name_of(PRODUCT): PRODUCT}
    assert found.executions == {name_of(EXECUTION): EXECUTION}
    assert found.damages == ()
    assert KINDS == ("recipe", "product", "execution", "environment")


def test_damage_hides_nothing_else() -> None:
    lost = DoesNotHold("The bytes are not those of the name.")
    found = Ledger.build(
        [
            ("execution", sha256(b"1"), lost),
            ("execution", sha256(b"2"), b"{}"),
            ("recipe", sha256(b"3"), record_bytes(PRODUCT)),
            ("execution", name_of(EXECUTION), record_bytes(EXECUTION)),
        ]
    )
    assert list(found.executions.values()) == [EXECUTION]
    assert [(one.kind, one.name) for one in found.damages] == [
        ("execution", str(sha256(b"1"))),
        ("execution", str(sha256(b"2"))),
        ("recipe", str(sha256(b"3"))),
    ]
    assert all(one.reason for one in found.damages)


def test_executions_are_told_newest_first() -> None:
    other = at(13, stage="shards")
    found = ledger(at(12), at(15), other, at(14))
    assert [one.attempt for _, one in found.executions_of("rung/d32")] == [at(hour).attempt for hour in (15, 14, 12)]
    assert [one.attempt for _, one in found.newest()] == [at(hour).attempt for hour in (15, 14, 13, 12)]
    assert found.stages() == ("rung/d32", "shards")
    assert found.attempts("rung/d32") == {at(hour).attempt for hour in (12, 14, 15)}


def test_the_head_is_the_newest_that_came_to_a_product() -> None:
    failed = at(16, outcome=Outcome.FAILED, product=None)
    found = ledger(PRODUCT, at(12), at(15), failed)
    head = found.head("rung/d32")
    assert head is not None
    assert head[1] == at(15)
    assert found.product_of("rung/d32") == PRODUCT
    assert ledger(failed).head("rung/d32") is None
    assert ledger(failed).product_of("rung/d32") is None
    assert ledger(at(12)).product_of("rung/d32") is None, "its record is not there"


def test_witnesses_are_complete_executions_by_product() -> None:
    other = sha256(b"another product")
    executions = [at(12), at(14), at(13, product=other), at(15, outcome=Outcome.FAILED, product=None)]
    found = {one.product: one.executions for one in ledger(*executions).witnesses(name_of(RECIPE))}
    assert found == {
        name_of(PRODUCT): (name_of(executions[0]), name_of(executions[1])),
        other: (name_of(executions[2]),),
    }
    assert ledger(*executions).witnesses(sha256(b"no recipe")) == ()


@pytest.mark.parametrize("product", [None, Digest.parse("sha256:" + "0" * 64)])
def test_a_failed_execution_is_never_a_witness(product: Digest | None) -> None:
    failed = at(12, outcome=Outcome.INTERRUPTED, product=product)
    assert ledger(failed).witnesses(name_of(RECIPE)) == ()
