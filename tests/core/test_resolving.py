"""Names and digests lead to the one thing that they mean, or to a refusal that says what there is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.executions import ONE

from registry.core.digests import Digest, FileEntry, sha256, tree_digest
from registry.core.ledger import Damage, Ledger
from registry.core.names import Name
from registry.core.records import Outcome, Output, Product
from registry.core.resolving import (
    Prefix,
    artifact,
    artifacts_with,
    digest_inside,
    file_in,
    folder_in,
    head,
    one_of,
    reference,
)
from registry.errors import DoesNotHold, Refused, UnknownName

ROOT = sha256(b"root")
RECIPE = sha256(b"recipe")


def output(name: str, **contents: object) -> Output:
    return Output(
        name=name,
        path=f"artifacts/{name}",
        digest=sha256(name.encode()),
        size_bytes=1,
        files=1,
        contents=contents,
        locator=None,
    )


PRODUCT = Product(
    stage="rung/d32",
    recipe=RECIPE,
    outputs=(
        output("rung/d32"),
        output("rung/d32@step-20", step=20, tensors=str(ROOT)),
        output("rung/d32@step-40", step=40),
    ),
)
EXECUTION = replace(
    ONE,
    attempt="20261130t120000z-00000001",
    recipe=RECIPE,
    product=sha256(b"product"),
    steps=None,
    host={},
)
LATER = replace(EXECUTION, attempt="20261130t130000z-00000001", product=None, outcome=Outcome.FAILED, cause={})
LEDGER = Ledger(
    products={sha256(b"product"): PRODUCT}, executions={sha256(b"execution"): EXECUTION, sha256(b"later"): LATER}
)


def entry(path: str, data: bytes = b"") -> FileEntry:
    return FileEntry(path=path, size_bytes=len(data), digest=sha256(data))


@pytest.mark.parametrize("text", ["3f2a91c0", "sha256:3f2a91c0", "3f2a91c0" * 8, "sha256:" + "3f2a91c0" * 8])
def test_eight_hex_digits_are_a_digest(text: str) -> None:
    assert reference(text, ["shards"]) == Prefix(digits=text.removeprefix("sha256:"))


def test_a_stage_comes_before_a_digest() -> None:
    assert reference("deadbeef", ["deadbeef"]) == Name(stage="deadbeef")
    assert reference("sha256:deadbeef", ["deadbeef"]) == Prefix(digits="deadbeef")


@pytest.mark.parametrize("text", ["sha256:3f2a91c", "sha256:", "sha256:XYZ", "sha256:" + "0" * 65, "sha256:3F2A91C0"])
def test_a_digest_cut_too_short_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="not a digest"):
        reference(text, [])


def test_seven_hex_digits_are_a_name() -> None:
    assert reference("3f2a91c", []) == Name(stage="3f2a91c")


def test_a_name_means_the_newest_complete_execution() -> None:
    held = head(LEDGER, "rung/d32")
    assert (held.execution_digest, held.output.name) == (sha256(b"execution"), "rung/d32")
    assert artifact(LEDGER, Name.parse("rung/d32@step-20:a")).output.name == "rung/d32@step-20"


def test_what_was_never_completed_is_unknown() -> None:
    failed = Ledger(executions={sha256(b"later"): LATER})
    with pytest.raises(UnknownName, match="dvc repro rung@d32"):
        head(failed, "rung/d32")
    damaged = Ledger(damages=(Damage(kind="execution", name="x", reason="y"),))
    with pytest.raises(UnknownName, match="Some records are damaged"):
        head(damaged, "rung/d32")


def test_a_step_that_was_not_kept_is_unknown() -> None:
    with pytest.raises(UnknownName, match="Did you mean rung/d32@step-20"):
        artifact(LEDGER, Name.parse("rung/d32@step-21"))


def test_a_product_that_cannot_be_read_does_not_hold() -> None:
    with pytest.raises(DoesNotHold, match="not readable on record"):
        head(replace(LEDGER, products={}), "rung/d32")
    nameless = replace(PRODUCT, outputs=())
    with pytest.raises(DoesNotHold, match="no output called rung/d32"):
        head(replace(LEDGER, products={sha256(b"product"): nameless}), "rung/d32")


def test_one_digest_is_found_and_several_are_listed() -> None:
    first, second = Digest.parse("sha256:" + "1" * 64), Digest.parse("sha256:" + "1" * 10 + "2" * 54)
    candidates = {"recipe": [first], "product": [second, second]}
    assert one_of(Prefix(digits="1" * 11), candidates) == ("recipe", first)
    with pytest.raises(Refused, match="2 digests begin with"):
        one_of(Prefix(digits="1" * 8), candidates)
    with pytest.raises(UnknownName, match="begins with"):
        one_of(Prefix(digits="3" * 8), candidates)


def test_an_artifact_is_found_by_tree_and_by_tensor_root() -> None:
    assert [one.name for _, one in artifacts_with(LEDGER, ROOT)] == ["rung/d32@step-20"]
    assert [one.name for _, one in artifacts_with(LEDGER, sha256(b"rung/d32"))] == ["rung/d32"]
    assert artifacts_with(LEDGER, sha256(b"nothing")) == ()


# "a.b" and "a0" sort before and after "a/…": a folder is neither.
TREE = sorted([entry("a.b", b"1"), entry("a/c", b"2"), entry("a/d/e", b"3"), entry("a0", b"4"), entry("b", b"5")])


def test_a_folder_is_its_files_and_no_others() -> None:
    assert [one.path for one in folder_in(TREE, "a")] == ["a/c", "a/d/e"]
    assert [one.path for one in folder_in(TREE, "a/d")] == ["a/d/e"]
    assert list(folder_in(TREE, "b")) == []


def test_the_digest_inside_a_tree() -> None:
    assert digest_inside(TREE, "a.b") == sha256(b"1")
    assert digest_inside(TREE, "a") == tree_digest([entry("c", b"2"), entry("d/e", b"3")])
    assert digest_inside(TREE, "a/x") is None
    assert digest_inside((), "a") is None


def test_a_file_in_a_tree_or_the_nearest() -> None:
    assert [one.path for one in file_in(TREE, "b")] == ["b"]
    assert [one.path for one in file_in(TREE, "a")] == ["a/c", "a/d/e"]
    with pytest.raises(UnknownName, match="Did you mean a/d/e"):
        file_in(TREE, "a/d/f")
