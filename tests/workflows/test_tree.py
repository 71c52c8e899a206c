"""The lineage of the toy archive, up and down, with what is reached twice drawn once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.toy import Toy

from registry.core.ledger import Ledger
from registry.core.lineage import Lineage, Role
from registry.core.names import Name
from registry.core.resolving import artifact
from registry.errors import DoesNotHold
from registry.workflows import tree
from registry.workflows.tree import Branch, Grower, Mark


def grown(toy: Toy, name: str, *, down: bool = False, ledger: Ledger | None = None) -> Branch:
    ledger = ledger or toy.ledger
    grower = Grower(ledger=ledger, lineage=Lineage(ledger, toy.tables.get_files))
    held = artifact(ledger, Name.parse(name))
    return grower.downwards(held) if down else grower.upwards(held)


def outline(branch: Branch, depth: int = 0) -> list[str]:
    note = f" ({branch.note})" if branch.note else ""
    parent = "parent " if branch.role is Role.PARENT else ""
    return [
        " " * depth + parent + branch.name + note,
        *(line for one in branch.branches for line in outline(one, depth + 1)),
    ]


def test_upwards_to_the_beginning(sailed: Toy) -> None:
    assert outline(grown(sailed, "hull")) == [
        "hull",
        " leg/2",
        "  parent leg/1@step-4",
        "   plot/east",
        "    chart:east/text.txt",
        "   plot/west",
        "    chart:west/text.txt",
        "   note",
        "  plot/east (above)",
        "  plot/west (above)",
        "  leg/1@step-4 (above)",
    ]


def test_digests_and_steps_are_told(sailed: Toy) -> None:
    leg = grown(sailed, "leg/2")
    parent = leg.branches[0]
    assert (leg.steps, parent.steps) == ("4..6", "0..4")
    assert parent.digest == sailed.ledger.product_of("leg/1").outputs[2].digest
    chart = parent.branches[0].branches[0]
    [entry] = [
        one
        for one in sailed.tables.get_files(sailed.ledger.product_of("chart").outputs[0].digest)
        if "east" in one.path
    ]
    assert chart.digest == entry.digest
    assert leg.mark is Mark.CLAIMED


def test_downwards_to_the_end(sailed: Toy) -> None:
    assert outline(grown(sailed, "chart", down=True)) == [
        "chart",
        " plot/east",
        "  leg/1",
        "   leg/2",
        "    hull",
        "  leg/2 (above)",
        " plot/west",
        "  leg/1 (above)",
        "  leg/2 (above)",
    ]
    assert outline(grown(sailed, "hull", down=True)) == ["hull"]


def test_a_gap_is_drawn_with_its_reason(sailed: Toy) -> None:
    ledger = sailed.ledger
    kept = {digest: one for digest, one in ledger.executions.items() if one.stage != "note"}
    lines = grown(sailed, "leg/1", ledger=replace(ledger, executions=kept))
    [missing] = [one for one in lines.branches if one.mark is Mark.MISSING]
    assert missing.name == "note"
    assert "no complete execution" in missing.note


def test_of_two_plots_with_equal_bytes_each_is_drawn_under_its_own_name(sailed: Toy) -> None:
    """The toy's plots are equal byte for byte."""
    east, west = (sailed.ledger.product_of(f"plot/{side}").outputs[0].digest for side in ("east", "west"))
    assert east == west
    assert [one.name for one in grown(sailed, "leg/1").branches] == ["plot/east", "plot/west", "note"]


def test_deep_lineages_are_cut(sailed: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "DEEPEST", 2)
    assert outline(grown(sailed, "hull"))[:3] == ["hull", " leg/2", "  parent leg/1@step-4 (deeper)"]


def test_what_descends_from_itself_is_refused(sailed: Toy) -> None:
    ledger = sailed.ledger
    _, execution = ledger.head("leg/1")
    recipe = ledger.recipes[execution.recipe]
    hull = ledger.product_of("hull").outputs[0]
    circular = replace(
        recipe, inputs=(replace(recipe.inputs[0], name="hull", path="artifacts/hull", digest=hull.digest),)
    )
    with pytest.raises(DoesNotHold, match="descends from itself"):
        grown(sailed, "hull", ledger=replace(ledger, recipes={**ledger.recipes, execution.recipe: circular}))
