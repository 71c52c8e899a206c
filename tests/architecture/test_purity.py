"""What the layer contracts of the import linter cannot say: purity, laziness, and who may catch everything."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

MAPPER = Path("registry/cli/exits.py")
BROAD = {"Exception", "BaseException"}
# Core has no file, clock, process or network. (Pure paths and the parsing of addresses and times touch nothing.)
IMPURE_MODULES = {
    "asyncio", "glob", "http", "io", "multiprocessing", "os", "pathlib", "pathlib.Path", "random", "secrets",
    "shutil", "signal", "socket", "subprocess", "tempfile", "time", "urllib", "urllib.request", "uuid",
}  # fmt: skip
IMPURE_CALLS = {"open", "print", "input", "now", "today", "utcnow"}
INNER = ("core", "workflows", "errors.py", "ports")


def imported(node: ast.AST) -> list[str]:
    """The modules that a statement imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [node.module or "."]
    return []


def touched(node: ast.AST) -> set[str]:
    """What of ``IMPURE`` a node imports or calls."""
    if isinstance(node, ast.ImportFrom):
        names = {f"{node.module}.{alias.name}" for alias in node.names}
        return {name for name in {node.module, *names} if name in IMPURE_MODULES and (name != "pathlib")}
    if isinstance(node, ast.Call):
        called = {getattr(node.func, "id", None), getattr(node.func, "attr", None)}
        return called & IMPURE_CALLS
    return set(imported(node)) & IMPURE_MODULES


def caught(node: ast.AST) -> Iterator[str]:
    """The exceptions that a handler or ``suppress`` names; a bare ``except`` names ``BaseException``."""
    if isinstance(node, ast.ExceptHandler):
        yield from (
            (named for part in ast.walk(node.type) if (named := getattr(part, "id", "")))
            if node.type
            else ["BaseException"]
        )
    elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("suppress"):
        yield from (ast.unparse(argument) for argument in node.args)


def broad(trees: dict[Path, ast.Module]) -> list[str]:
    return [path.as_posix() for path, tree in trees.items() for node in ast.walk(tree) if BROAD & set(caught(node))]


def test_only_the_exit_mapper_catches_everything(trees):
    assert broad(trees) == [MAPPER.as_posix()]


@pytest.mark.parametrize(
    "handler",
    [
        "try: f()\nexcept: pass",
        "try: f()\nexcept (ValueError, Exception): pass",
        "with contextlib.suppress(BaseException): f()",
    ],
)
def test_a_broad_handler_would_be_seen(handler):
    assert broad({Path("registry/core/x.py"): ast.parse(handler)})


def test_core_touches_nothing_outside(trees):
    core = {path: tree for path, tree in trees.items() if path.parts[:2] == ("registry", "core")}
    assert core
    assert not [
        (str(path), found) for path, tree in core.items() for node in ast.walk(tree) if (found := touched(node))
    ]


@pytest.mark.parametrize(
    "line", ["import os", "from pathlib import Path", "open('x')", "datetime.now()", "from time import time"]
)
def test_a_touch_would_be_seen(line):
    assert any(touched(node) for node in ast.walk(ast.parse(line)))


def test_inner_layers_import_only_the_standard_library(trees, project):
    """An allow-list, beside the linter's list of what is forbidden: a library that nobody thought of is refused too."""
    allowed = exceptions(project)
    inner = {path: tree for path, tree in trees.items() if path.parts[0] == "registry" and path.parts[1] in INNER}
    uses = {
        (".".join(path.with_suffix("").parts), name.partition(".")[0])
        for path, tree in inner.items()
        for node in ast.walk(tree)
        for name in imported(node)
    }
    foreign = {(path, name) for path, name in uses if name not in sys.stdlib_module_names and name != "registry"}
    assert foreign <= allowed


def test_every_exception_has_its_page(project, root):
    pages = [page.read_text(encoding="utf-8") for page in (root / "registry/decisions").glob("*.md")]
    assert not [library for _, library in exceptions(project) if not any(library in page.lower() for page in pages)]


def exceptions(project: dict) -> set[tuple[str, str]]:
    """The reasoned exceptions, from the one place that names them."""
    (contract,) = (one for one in project["tool"]["importlinter"]["contracts"] if one["id"] == "pure")
    return {tuple(line.split(" -> ")) for line in contract["ignore_imports"]}


def test_wiring_imports_adapters_only_inside_functions(trees):
    top = trees[Path("registry/cli/wiring.py")].body
    assert not [name for node in top for name in imported(node) if name.startswith("registry.adapters")]
