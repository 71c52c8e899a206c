"""What is on record is shown whole, by name and by digest."""

from __future__ import annotations

import pytest
from support.toy import Toy

from registry.core.canonical import encode
from registry.core.codec import record_bytes
from registry.core.digests import Digest
from registry.core.names import Name
from registry.core.pointers import pointer_failed
from registry.core.resolving import Prefix
from registry.errors import DoesNotHold, UnknownName
from registry.workflows.show import Shower, ShownArtifact, ShownFiles, ShownRecord, facts


def shower(toy: Toy) -> Shower:
    return Shower(records=toy.records, tables=toy.tables, ledger=toy.ledger)


def by_name(toy: Toy, name: str) -> object:
    return shower(toy).show(Name.parse(name))


def by_digest(toy: Toy, digest: Digest, digits: int = 12) -> object:
    return shower(toy).show(Prefix(digits=digest.hex[:digits]))


def test_an_artifact_with_its_recipe_and_executions(sailed: Toy) -> None:
    sailed.run("leg/1")
    shown = by_name(sailed, "leg/1")
    assert isinstance(shown, ShownArtifact)
    assert shown.output.name == "leg/1"
    assert shown.recipe.stage == "leg/1"
    assert [one.attempt for _, one in shown.executions] == ["20261130t120000z-00000008", "20261130t120000z-00000005"]
    assert shown.standing.label == "T1 4/4 steps"
    assert [len(one.executions) for one in shown.witnesses] == [2]


def test_a_checkpoint_is_an_artifact_of_its_own(sailed: Toy) -> None:
    assert by_name(sailed, "leg/1@step-2").output.name == "leg/1@step-2"


def test_a_file_and_a_folder(sailed: Toy) -> None:
    shown = by_name(sailed, "leg/1:transcript.jsonl")
    assert isinstance(shown, ShownFiles)
    assert [one.path for one in shown.files] == ["transcript.jsonl"]
    assert len(shown.executions) == 1
    assert len(by_name(sailed, "leg/1:checkpoints").files) == 4
    with pytest.raises(UnknownName, match="Did you mean"):
        by_name(sailed, "leg/1:transcript.json")


def test_every_digest_leads_to_what_it_names(sailed: Toy) -> None:
    digest, execution = sailed.ledger.head("leg/1")
    own, early, _ = sailed.ledger.product_of("leg/1").outputs
    shown = by_digest(sailed, digest)
    assert isinstance(shown, ShownRecord)
    assert (shown.kind, shown.record) == ("execution", execution)
    recipe = by_digest(sailed, execution.recipe)
    assert recipe.kind == "recipe"
    assert recipe.spoken_of == (("product", execution.product), ("execution", digest))
    environment = by_digest(sailed, execution.environment)
    assert len(environment.spoken_of) == 7
    assert by_digest(sailed, execution.product).output == own
    assert by_digest(sailed, own.digest, 64).output == own
    assert by_digest(sailed, early.digest).output == early
    assert by_digest(sailed, Digest.parse(early.contents["tensors"])).output == early


def test_an_older_product_is_shown_by_its_digest(sailed: Toy) -> None:
    old = sailed.ledger.head("chart")[1].product
    sailed.replace("params.yaml", "lines: 20", "lines: 21")
    sailed.run("chart")
    shown = by_digest(sailed, old)
    assert shown.product_digest == old
    assert shown.standing.witnesses == 1
    assert len(shown.executions) == 2


def test_pointers_of_its_executions_are_shown(sailed: Toy) -> None:
    digest, _ = sailed.ledger.head("leg/1")
    other, _ = sailed.ledger.head("chart")
    pointers = [pointer_failed(one, "mlflow", "no answer", "2026-11-30T12:00:00.000000Z") for one in (digest, other)]
    for pointer in pointers:
        sailed.records.put(pointer.kind, record_bytes(pointer))
    sailed.records.put("pointer", encode({"kind": "pointer", "schema": 9}))
    assert by_name(sailed, "leg/1").pointers == (pointers[0],)


def test_what_is_not_there_is_unknown(sailed: Toy, toy: Toy) -> None:
    with pytest.raises(UnknownName, match="no complete execution"):
        by_name(toy, "leg/1")
    with pytest.raises(UnknownName, match="begins with"):
        shower(sailed).show(Prefix(digits="0" * 8))


def test_a_damaged_record_is_not_shown(sailed: Toy) -> None:
    digest, execution = sailed.ledger.head("leg/1")
    sailed.flip(f"manifests/executions/{digest.hex}.json", 9)
    with pytest.raises(DoesNotHold, match="does not have the bytes of its name"):
        by_digest(sailed, digest)
    sailed.flip(f"manifests/products/{execution.product.hex}.json", 9)
    with pytest.raises(DoesNotHold, match="does not have the bytes of its name"):
        by_digest(sailed, execution.product)


@pytest.mark.parametrize("name", ["leg/1", "leg/1@step-4", "leg/1:transcript.jsonl", "note"])
def test_all_facts_have_a_canonical_form(sailed: Toy, name: str) -> None:
    assert encode(facts(by_name(sailed, name)))
    digest, execution = sailed.ledger.head("leg/1")
    told = facts(by_digest(sailed, digest))
    assert told["record"] == execution.to_json()
