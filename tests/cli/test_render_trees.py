"""Trees are drawn with guides on a terminal and indented in a pipe, to any depth that a lineage is drawn to."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from registry.cli.render import Mark, Tone, Tree, _drawn, emit
from registry.workflows.tree import DEEPEST, Branch
from registry.workflows.tree import Mark as Known

TREE = Tree(
    label="hull",
    branches=[
        Tree(label=Mark("leg/2", Tone.BAD), branches=[Tree(label="leg/1"), Tree(label="\x1b[2J")]),
        Tree(label="[red]note[/red]"),
    ],
)


def test_in_a_pipe_a_tree_is_indented(capsys: pytest.CaptureFixture[str]) -> None:
    emit({}, "before", TREE, as_json=False)
    assert capsys.readouterr().out.splitlines() == [
        "before",
        "",
        "hull",
        "  leg/2",
        "    leg/1",
        "    \\x1b[2J",
        "  [red]note[/red]",
    ]


def test_on_a_terminal_a_tree_has_guides_and_no_hostile_escapes() -> None:
    out = io.StringIO()
    Console(file=out, force_terminal=False, width=80).print(_drawn(TREE))
    assert out.getvalue().splitlines() == [
        "hull",
        "├── leg/2",
        "│   ├── leg/1",
        "│   └── \\x1b[2J",
        "└── [red]note[/red]",
    ]


def test_the_deepest_lineage_can_be_printed(capsys: pytest.CaptureFixture[str]) -> None:
    tree, branch = Tree(label="0"), None
    for number in range(1, DEEPEST + 1):
        tree = Tree(label=str(number), branches=[tree])
        below = () if branch is None else (branch,)
        branch = Branch(role=None, name="x", digest=None, steps=None, mark=Known.CLAIMED, note=None, branches=below)
    emit({}, tree, as_json=False)
    assert len(capsys.readouterr().out.splitlines()) == DEEPEST + 1
    emit(branch, as_json=True)
    assert json.loads(capsys.readouterr().out)["name"] == "x"
    Console(file=io.StringIO(), width=2000).print(_drawn(tree))
