"""Source identity: the code that a stage can read, and nothing else.

The identity is that of the files' contents by path, not of a commit: a commit that touches a README changes no recipe.
What a stage can read is the closure of its module over import statements, those inside of functions included. Refuses
code that imports by a computed name, since no list could then be complete.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence

from registry.core.canonical import Json
from registry.core.digests import Digest, git_blob, record_digest
from registry.core.records import SourceFile
from registry.errors import Refused

_HIDDEN_IMPORTS = frozenset(
    {"import_module", "__import__", "spec_from_file_location", "run_module", "run_path", "exec"}
)


def source_files(contents: Mapping[str, bytes]) -> tuple[SourceFile, ...]:
    """Each file of ``contents`` (path to bytes) by git's object id, sorted by path."""
    return tuple(SourceFile(path=path, blob=git_blob(contents[path])) for path in sorted(contents))


def source_digest(files: Iterable[SourceFile]) -> Digest:
    """SHA-256 of the canonical ``[{path, blob}, …]``, sorted by path: one name for all the code of a recipe."""
    rows: list[Json] = [file.to_json() for file in sorted(files, key=lambda file: file.path)]
    return record_digest(rows)


def import_closure(module: str, contents: Mapping[str, bytes]) -> tuple[str, ...]:
    """Paths out of ``contents`` that running ``module`` may import, itself and all packages above it included; sorted.

    ``contents`` maps repository paths of own Python files (``train/rung.py``) to their bytes; a module that is not
    among those is not own code. Imports for a type checker alone are left out. Raises ``Refused`` when ``module`` is
    not in ``contents``, a file is not Python, or one imports by a computed name.
    """
    found: set[str] = set()
    waiting = [module]
    if _path(module, contents) is None:
        raise Refused(f"There is no module {module}.", remedy="Look at the command of its stage.")
    while waiting:
        name = waiting.pop()
        path = _path(name, contents)
        if path is None or path in found:
            continue
        found.add(path)
        package = name if path.endswith("/__init__.py") else name.rpartition(".")[0]
        waiting += _with_packages([name])
        waiting += _with_packages(_imports(_parsed(path, contents[path]), package))
    return tuple(sorted(found))


def _path(module: str, contents: Mapping[str, bytes]) -> str | None:
    stem = module.replace(".", "/")
    return next((path for path in (f"{stem}.py", f"{stem}/__init__.py") if path in contents), None)


def _with_packages(modules: Iterable[str]) -> list[str]:
    parts = [module.split(".") for module in modules]
    return [".".join(names[:depth]) for names in parts for depth in range(1, len(names) + 1)]


def _parsed(path: str, data: bytes) -> ast.Module:
    try:
        return ast.parse(data, filename=path)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise Refused(f"{path} is not Python: {error}.") from error


def _imports(tree: ast.Module, package: str) -> list[str]:
    """Every module that a statement of ``tree`` may import. ``from a import b`` may mean the module ``a.b``."""
    names: list[str] = []
    for node in _executed(tree.body):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, package)
            names += [base, *(f"{base}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Call) and _called(node) in _HIDDEN_IMPORTS:
            raise Refused(
                f"A module of {package} imports by a computed name ({_called(node)}, line {node.lineno}).",
                remedy="Name what a stage imports, so that its source can be recorded.",
            )
    return names


def _executed(statements: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """All nodes under ``statements``, except what only a type checker reads."""
    for statement in statements:
        if isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test):
            yield from _executed(statement.orelse)
        else:
            yield statement
            yield from _executed(list(ast.iter_child_nodes(statement)))


def _absolute(node: ast.ImportFrom, package: str) -> str:
    if node.level == 0:
        return node.module or ""
    above = package.split(".")[: len(package.split(".")) - node.level + 1]
    return ".".join([*above, *([node.module] if node.module else [])])


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
