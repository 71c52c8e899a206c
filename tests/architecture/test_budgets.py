"""The code keeps to the budgets of ``[tool.reckon.limits]`` in pyproject.toml."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

Functions = ast.FunctionDef | ast.AsyncFunctionDef


def functions(trees: dict[Path, ast.Module]) -> Iterator[tuple[str, Functions]]:
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, Functions):
                yield f"{path}:{node.lineno} {node.name}", node


def parameters(function: Functions) -> int:
    """Parameters that a caller may give; the receiver of a method is none."""
    arguments = function.args
    named = [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return len(named) - (named[:1] in (["self"], ["cls"]))


def test_files_are_short(sources, limits):
    assert {path: len(text.splitlines()) for path, text in sources.items()}, "no source was found"
    assert not [path for path, text in sources.items() if len(text.splitlines()) > limits["file_lines"]]


def test_functions_are_short(trees, limits):
    longest = {where: one.end_lineno - one.lineno + 1 for where, one in functions(trees)}
    assert not {where: lines for where, lines in longest.items() if lines > limits["function_lines"]}


def test_functions_have_few_parameters(trees, limits):
    counts = {where: parameters(one) for where, one in functions(trees)}
    assert not {where: count for where, count in counts.items() if count > limits["parameters"]}


def test_the_style_checker_has_the_same_limit_of_parameters(project, limits):
    assert project["tool"]["ruff"]["lint"]["pylint"]["max-args"] == limits["parameters"]


def test_command_files_are_short(sources, limits):
    from registry.cli.commands import COMMANDS

    files = {Path(*entry.module.split(".")).with_suffix(".py") for entry in COMMANDS}
    assert not [path for path in files if len(sources[path].splitlines()) > limits["command_lines"]]


def test_the_command_line_is_a_small_share(sources, limits):
    """Says nothing while registry/ is smaller than the limit names."""
    lines = {path: len(text.splitlines()) for path, text in sources.items() if path.parts[0] == "registry"}
    of_commands = sum(count for path, count in lines.items() if path.parts[1] == "cli")
    total = sum(lines.values())
    assert total < limits["cli_share_from_lines"] or of_commands * 100 <= limits["cli_share_percent"] * total


def test_every_module_says_what_it_is(trees):
    assert not [path for path, tree in trees.items() if not ast.get_docstring(tree)]
