"""Every record is read back as it was written, keeps what it does not know, and refuses what it cannot be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from registry.adapters.records import FileRecordStore
from registry.adapters.tables import TableFolder
from registry.core import canonical, kinds
from registry.core.codec import Record, name_of, record_bytes
from registry.core.digests import Algorithm, Digest, sha256
from registry.core.openings import Opening, opening_of
from registry.core.records import Environment, Execution, Outcome, Output, Product, Recipe, Revision
from registry.errors import MalformedRecord

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/golden"
ARCHIVES = [GOLDEN, ROOT / "manifests"]
GOLDEN_FILES = sorted(path for path in GOLDEN.glob("*/*.json") if path.parent.name != "openings")


def kind_of(path: Path) -> str:
    """The kind of record that lies there."""
    return kinds.kind_in(path.parent.name) or ""


def golden(kind: str, **having: object) -> dict:
    """The golden record of a kind that has no unknown field, and these fields."""
    store = FileRecordStore(GOLDEN)
    values = [dict(canonical.decode(store.get(kind, digest))) for digest in store.digests(kind)]
    return next(value for value in values if "later" not in value and {**value, **having} == value)


@pytest.mark.parametrize("path", GOLDEN_FILES, ids=lambda path: f"{path.parent.name}-{path.name[:8]}")
def test_a_golden_record_is_written_back_byte_for_byte(path: Path) -> None:
    data = path.read_bytes()
    record = kinds.read(kind_of(path), data)
    assert record_bytes(record) == data
    assert name_of(record) == Digest(Algorithm.SHA256, path.stem)


def test_there_is_a_golden_record_of_every_kind_and_one_from_the_future() -> None:
    found = {kind_of(path): [] for path in GOLDEN_FILES}
    for path in GOLDEN_FILES:
        found[kind_of(path)].append("later" in canonical.decode(path.read_bytes()))
    assert found.keys() == kinds.READERS.keys()
    assert {kind: sorted(set(seen)) for kind, seen in found.items()} == {kind: [False, True] for kind in found}


def test_golden_tables_still_add_up() -> None:
    """Their bytes are those of an older writer; what they say is what it was."""
    tables = TableFolder(GOLDEN)
    [tree], [root] = tables.trees(), tables.roots()
    assert [len(tables.get_files(tree)), len(tables.get_leaves(root))] == [21, 3]
    assert tables.get_leaves(root)[2].shape == ()


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.name)
def test_every_record_of_an_archive_can_be_read_and_written_back(archive: Path) -> None:
    """The tracked ``manifests/`` grow with every recorded run; the golden ones are always there."""
    store, tables = FileRecordStore(archive), TableFolder(archive)
    for kind in store.kinds():
        for digest in store.digests(kind):
            if kind != "opening":
                assert record_bytes(kinds.read(kind, store.get(kind, digest))) == store.get(kind, digest)
    for tree in tables.trees():
        tables.get_files(tree)
    for root in tables.roots():
        tables.get_leaves(root)
    assert not [path for path in store.strays() if not path.startswith("README")]


@pytest.mark.parametrize("kind", sorted(kinds.READERS))
def test_an_unknown_schema_is_refused(kind: str) -> None:
    data = canonical.encode({**golden(kind), "schema": 2})
    with pytest.raises(MalformedRecord, match="schema 2"):
        kinds.read(kind, data)


@pytest.mark.parametrize("kind", sorted(kinds.READERS))
def test_a_record_lacks_none_of_its_fields(kind: str) -> None:
    value = golden(kind)
    for field in value:
        with pytest.raises(MalformedRecord):
            kinds.read(kind, canonical.encode({key: item for key, item in value.items() if key != field}))


@pytest.mark.parametrize("kind", sorted(kinds.READERS))
def test_no_field_takes_a_value_of_any_type(kind: str) -> None:
    value = golden(kind)
    for field in value:
        for odd in ([1], 7, "odd", {"odd": 1}):
            if type(odd) is type(value[field]):
                continue
            if value[field] is None and field in ("product", "cause", "steps", "resumed", "parent", "environment"):
                continue
            try:
                record = kinds.read(kind, canonical.encode({**value, field: odd}))
            except MalformedRecord:
                continue
            assert record_bytes(record) == canonical.encode({**value, field: odd}), f"{field} lost its value"


def test_a_kind_is_read_only_from_its_own_folder() -> None:
    data = canonical.encode(golden("recipe"))
    with pytest.raises(MalformedRecord, match="A product record was expected"):
        kinds.read("product", data)
    with pytest.raises(MalformedRecord, match="no records of the kind 'poem'"):
        kinds.read("poem", data)


@pytest.mark.parametrize(
    "alter", [lambda data: data + b"\n", lambda data: data.replace(b":", b": ", 1), lambda data: data[:-1]]
)
def test_only_canonical_bytes_are_a_record(alter: Callable[[bytes], bytes]) -> None:
    with pytest.raises(MalformedRecord):
        kinds.read("recipe", alter(canonical.encode(golden("recipe"))))


def test_unknown_fields_inside_parts_are_refused() -> None:
    recipe = golden("recipe")
    recipe["inputs"] = [{**recipe["inputs"][0], "more": 1}]
    with pytest.raises(MalformedRecord, match=r"inputs\[0\] has unknown fields: more"):
        kinds.read("recipe", canonical.encode(recipe))


def test_an_unknown_field_cannot_stand_in_for_a_known_one() -> None:
    """``extra`` is written first, so what a record knows always wins."""
    recipe = Recipe.from_json(golden("recipe"))
    assert replace(recipe, extra={"stage": "other", "kind": "other"}).to_json()["stage"] == recipe.stage


def test_an_unknown_outcome_is_refused() -> None:
    with pytest.raises(MalformedRecord, match="not an outcome"):
        Execution.from_json({**golden("execution"), "outcome": "splendid"})


def test_a_complete_execution_with_a_product_is_a_witness() -> None:
    execution = Execution.from_json(golden("execution", outcome="complete"))
    assert execution.witnesses
    assert not replace(execution, outcome=Outcome.FAILED).witnesses
    assert not replace(execution, product=None).witnesses


def test_a_product_finds_its_outputs_by_name() -> None:
    product = Product.from_json(golden("product"))
    assert product.output("rung/d32@step-20") is product.outputs[1]
    assert product.output("rung/d32@step-21") is None


def test_a_tree_is_dirty_when_it_has_a_patch() -> None:
    revision = Revision(commit="c" * 40, tree="d" * 40, patch=None)
    assert not revision.dirty
    assert replace(revision, patch=sha256(b"patch")).dirty


def test_records_are_frozen_and_named_by_keyword() -> None:
    for kind in (Recipe, Product, Output, Execution, Environment, Revision):
        with pytest.raises(TypeError):
            kind("positional")


def opening(time: str) -> Opening:
    return Opening(
        stage="rung/d32",
        time=time,
        recipe=sha256(b"recipe"),
        revision=Revision(commit="c" * 40, tree="d" * 40, patch=sha256(b"patch")),
        host={"name": "harbour"},
        hypothesis={"text": "it arrives"},
    )


def test_an_opening_is_read_back_and_strict() -> None:
    one: Record = opening("2026-11-30T12:00:00.000000Z")
    assert Opening.from_json(canonical.decode(record_bytes(one))) == one
    with pytest.raises(MalformedRecord, match="unknown fields: more"):
        Opening.from_json({**one.to_json(), "more": 1})


def test_the_opening_of_an_attempt_is_the_last_one_before_it() -> None:
    early, late = opening("2026-11-30T12:00:00.000000Z"), opening("2026-11-30T13:00:00.000000Z")
    assert opening_of("2026-11-30T12:30:00.000000Z", [late, early]) == early
    assert opening_of("2026-11-30T13:00:00.000000Z", [late, early]) == late
    assert opening_of("2026-11-30T11:59:59.999999Z", [late, early]) is None
