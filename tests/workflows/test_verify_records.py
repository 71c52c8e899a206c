"""Damage to any record, and any record that is gone, is found; untouched records hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.toy import Toy

from registry.adapters.attempts import RunFolder
from registry.adapters.git import GitRepository
from registry.core import canonical
from registry.core.codec import record_bytes
from registry.core.digests import sha256
from registry.core.findings import Finding, Tally, Trouble
from registry.core.records import Execution, Product
from registry.errors import OutsideFailed
from registry.workflows.verify_records import RecordVerifier

KINDS = ("recipe", "product", "execution", "environment")


def verified(toy: Toy) -> Tally:
    tally = Tally()
    RecordVerifier(
        records=toy.records,
        tables=toy.tables,
        repository=GitRepository(toy.root),
        attempts=RunFolder(toy.root / "artifacts/runs"),
        ledger=toy.ledger,
    ).verify(tally)
    return tally


def troubles(toy: Toy) -> set[Trouble]:
    return {one.trouble for one in verified(toy).findings}


def newest(toy: Toy, kind: str) -> Path:
    """The file of a record of leg/1, or the only environment."""
    digest, execution = toy.ledger.head("leg/1")
    named = {"recipe": execution.recipe, "product": execution.product, "environment": execution.environment}
    return toy.root / f"manifests/{kind}s/{named.get(kind, digest).hex}.json"


def uncommitted(toy: Toy) -> Toy:
    """The archive without what git could tell: the records are not committed."""
    toy.git("rm", "-r", "-q", "--cached", "manifests")
    toy.git("commit", "-q", "-m", "No records")
    return toy


def test_untouched_records_hold(sailed: Toy) -> None:
    tally = verified(sailed)
    assert tally.findings == []
    assert tally.records == len(list((sailed.root / "manifests").rglob("*.*")))
    assert tally.verdict.holds


def test_no_record_at_all_does_not_hold(toy: Toy) -> None:
    assert verified(toy).findings == []
    assert not verified(toy).verdict.holds


@pytest.mark.parametrize("kind", KINDS)
def test_every_flipped_bit_in_a_record_is_found(sailed: Toy, kind: str) -> None:
    path = newest(uncommitted(sailed), kind)
    data = path.read_bytes()
    for at in range(0, len(data), max(1, len(data) // 5)):
        sailed.flip(path.relative_to(sailed.root).as_posix(), at)
        found = [one for one in verified(sailed).findings if one.trouble is Trouble.RECORD]
        assert [one.path for one in found] == [path.relative_to(sailed.root).as_posix()]
        assert path.stem in found[0].subject
        path.write_bytes(data)


@pytest.mark.parametrize("kind", ["recipe", "product", "environment"])
def test_a_record_that_is_gone_is_found_where_others_speak_of_it(sailed: Toy, kind: str) -> None:
    path = newest(uncommitted(sailed), kind)
    path.unlink()
    findings = [one for one in verified(sailed).findings if one.trouble is Trouble.REFERENCE]
    assert findings
    assert {one.recorded for one in findings} == {f"sha256:{path.stem}"}


def test_an_execution_that_is_gone_is_found_by_its_run_log(sailed: Toy) -> None:
    path = newest(uncommitted(sailed), "execution")
    path.unlink()
    [finding] = verified(sailed).findings
    assert (finding.trouble, finding.subject) == (Trouble.UNRECORDED, "leg/1")


@pytest.mark.parametrize("kind", KINDS)
def test_a_committed_record_that_is_gone_is_found_by_git(sailed: Toy, kind: str) -> None:
    path = newest(sailed, kind)
    path.unlink()
    paths = {one.path for one in verified(sailed).findings if one.trouble is Trouble.RECORD}
    assert paths == {path.relative_to(sailed.root).as_posix()}


def test_a_damaged_or_missing_table_is_found(sailed: Toy) -> None:
    uncommitted(sailed)
    product = sailed.ledger.product_of("leg/1")
    tree, root = product.outputs[0].digest, product.outputs[1].contents["tensors"].removeprefix("sha256:")
    tables = [sailed.root / f"manifests/objects/{tree.hex}.parquet", sailed.root / f"manifests/tensors/{root}.parquet"]
    for path in tables:
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 2])
        assert [one.path for one in verified(sailed).findings] == [path.relative_to(sailed.root).as_posix()]
        path.unlink()
        assert [one.trouble for one in verified(sailed).findings] == [Trouble.REFERENCE]
        path.write_bytes(data)
    assert verified(sailed).verdict.holds


def test_a_record_under_another_name_is_told_twice(sailed: Toy) -> None:
    path = newest(uncommitted(sailed), "recipe")
    path.rename(path.with_name("f" * 64 + ".json"))
    assert troubles(sailed) == {Trouble.RECORD, Trouble.REFERENCE}


@pytest.mark.parametrize("path", ["manifests/note.txt", "manifests/recipes/x.json", "manifests/recipes/.x.json"])
def test_a_file_that_is_no_record_is_told(sailed: Toy, path: str) -> None:
    sailed.write(path, "{}")
    assert [one.path for one in verified(sailed).findings] == [path]


def test_what_a_killed_recorder_left_is_nothing(sailed: Toy) -> None:
    path = newest(sailed, "recipe")
    (path.parent / f".{path.name}.0a1b2c3d.tmp").write_bytes(b"{")
    assert verified(sailed).verdict.holds


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (canonical.encode({"kind": "recipe", "schema": 9}), "schema 9"),
        (canonical.encode({"kind": "product", "schema": 1}), "A recipe record was expected"),
        (b'{"kind": "recipe", "schema": 1}', "canonical"),
        (b"not JSON", "Not JSON"),
    ],
)
def test_a_record_that_hashes_but_is_none_is_told(sailed: Toy, data: bytes, words: str) -> None:
    sailed.records.put("recipe", data)
    [finding] = verified(sailed).findings
    assert finding.trouble is Trouble.RECORD
    assert words in finding.text


def test_a_record_of_an_unknown_kind_is_told(sailed: Toy) -> None:
    sailed.records.put("poem", canonical.encode({"kind": "poem", "schema": 1}))
    [finding] = verified(sailed).findings
    assert "no records of the kind 'poem'" in finding.text


def forged(toy: Toy, make: Callable[[Product, Execution], tuple[Product, Execution]]) -> list[Finding]:
    """Findings after a forger put a product and its execution among the others of leg/1."""
    execution = toy.ledger.head("leg/1")[1]
    product, execution = make(toy.ledger.products[execution.product], execution)
    digest = toy.records.put("product", record_bytes(product))
    later = replace(execution, product=digest, attempt="20261130t130000z-00000000")
    toy.records.put("execution", record_bytes(later))
    return verified(toy).findings


def test_a_forged_size_does_not_add_up(sailed: Toy) -> None:
    def make(product: Product, execution: Execution) -> tuple[Product, Execution]:
        own, *rest = product.outputs
        return replace(product, outputs=(replace(own, size_bytes=own.size_bytes + 1), *rest)), execution

    [finding] = forged(sailed, make)
    assert "its table has" in finding.text


def test_a_checkpoint_that_is_not_in_its_stage_is_told(sailed: Toy) -> None:
    """A forger gives a checkpoint the bytes of another, tables and all."""

    def make(product: Product, execution: Execution) -> tuple[Product, Execution]:
        own, early, late = product.outputs
        swapped = replace(late, digest=early.digest, size_bytes=early.size_bytes, contents=early.contents)
        return replace(product, outputs=(own, early, swapped)), execution

    findings = forged(sailed, make)
    assert [one.text for one in findings] == ["Its table does not hold leg/1@step-4."]


def test_a_product_of_another_recipe_is_told(sailed: Toy) -> None:
    other = sailed.ledger.head("leg/2")[1].recipe
    findings = forged(sailed, lambda product, execution: (replace(product, recipe=other), execution))
    assert "Its product is of another stage or recipe." in [one.text for one in findings]


def test_an_execution_under_another_stage_is_told(sailed: Toy) -> None:
    findings = forged(sailed, lambda product, execution: (product, replace(execution, stage="leg/2")))
    assert {one.trouble for one in findings} == {Trouble.REFERENCE}


def test_a_complete_attempt_that_was_not_recorded_is_told(sailed: Toy) -> None:
    sailed.attempt("chart")
    [finding] = verified(sailed).findings
    assert (finding.trouble, finding.subject) == (Trouble.UNRECORDED, "chart")


def test_an_interrupted_attempt_is_no_damage(sailed: Toy) -> None:
    sailed.interrupt("leg/1", stop_after=3)
    assert verified(sailed).verdict.holds


def test_run_logs_that_cannot_be_read_are_told(sailed: Toy) -> None:
    sailed.write("artifacts/runs/chart/20261130t140000z-00000000/run.jsonl", "{}\n")
    [finding] = verified(sailed).findings
    assert (finding.trouble, finding.path) == (Trouble.UNREADABLE, "artifacts/runs/chart")


def test_outside_of_git_there_is_an_error_not_a_verdict(sailed: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(OutsideFailed, match="git was not found"):
        verified(sailed)


def test_an_orphan_of_a_recorder_that_was_killed_holds(sailed: Toy) -> None:
    """A product without an execution claims nothing."""
    product = sailed.ledger.product_of("chart")
    sailed.records.put("product", record_bytes(replace(product, outputs=product.outputs, extra={"note": "orphan"})))
    assert verified(sailed).verdict.holds
    assert sha256(b"") not in sailed.ledger.products
