"""Reference prose out of a Python source: its docstrings, in their order, each under its qualified name.

The source is parsed, never compiled or run. Refuses, by returning nothing, what the parser does not take.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator

_SCOPES = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_BLOCKS = ("body", "orelse", "handlers", "finalbody", "cases")


def docstrings(source: str, module: str, minimum_characters: int) -> str | None:
    """The docstrings of ``source`` as one text, or None when it is no Python that this interpreter can parse.

    ``module`` is the dotted name that stands above the module's own docstring. Docstrings shorter than
    ``minimum_characters`` are left out. Indentation is taken off as ``inspect.cleandoc`` does.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
        found = list(_walk(tree, module))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return "\n\n".join(f"{name}\n\n{text.strip()}" for name, text in found if len(text) >= minimum_characters)


def module_name(path: str) -> str:
    """The dotted name of the module at ``path`` in its package."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _walk(node: ast.AST, name: str) -> Iterator[tuple[str, str]]:
    """Name and docstring of ``node`` and of every scope in its blocks."""
    if isinstance(node, _SCOPES):
        name = f"{name}.{node.name}"
    if isinstance(node, (ast.Module, *_SCOPES)) and (text := ast.get_docstring(node)):
        yield name, text
    for block in _BLOCKS:
        for child in getattr(node, block, ()):
            if hasattr(child, "body") or hasattr(child, "cases"):
                yield from _walk(child, name)
