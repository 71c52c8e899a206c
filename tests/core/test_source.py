"""Source identity: what a stage can import, whatever the form of the statement, and nothing more."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from registry.core.source import import_closure, source_digest, source_files
from registry.errors import Refused

CODE = {
    "train/__init__.py": b"",
    "train/stage.py": b"import os\nimport train.plain\nfrom train import folder\nfrom registry.core.kept import name\n",
    "train/plain.py": b"def f():\n    from train.folder.lazy import g\n    return g\n",
    "train/folder/__init__.py": b"",
    "train/folder/lazy.py": b"from . import sibling\nfrom ..above import h\n",
    "train/folder/sibling.py": b"",
    "train/above.py": b"import typing\nif typing.TYPE_CHECKING:\n    import train.typed\nelse:\n  import train.other\n",
    "train/typed.py": b"",
    "train/other.py": b"import train.stage\n",
    "train/unrelated.py": b"",
    "registry/__init__.py": b"",
    "registry/core/__init__.py": b"",
    "registry/core/kept.py": b"name = 1\n",
    "registry/core/name.py": b"",
}


def test_every_form_of_import_is_followed_and_nothing_else() -> None:
    closure = import_closure("train.stage", CODE)
    assert set(CODE) - set(closure) == {"train/typed.py", "train/unrelated.py", "registry/core/name.py"}
    assert list(closure) == sorted(closure)


def test_a_module_without_imports_still_needs_its_packages() -> None:
    assert import_closure("train.folder.sibling", CODE) == (
        "train/__init__.py",
        "train/folder/__init__.py",
        "train/folder/sibling.py",
    )


@pytest.mark.parametrize(
    "line",
    [
        b"import importlib\nimportlib.import_module(name)\n",
        b"def f():\n    return __import__('train.typed')\n",
        b"exec('import train.typed')\n",
    ],
)
def test_an_import_by_a_computed_name_is_refused(line: bytes) -> None:
    with pytest.raises(Refused, match="computed name"):
        import_closure("train.stage", {**CODE, "train/plain.py": line})


@pytest.mark.parametrize("data", [b"import (\n", b"\xff\xfe", b"\0"])
def test_what_is_not_python_is_refused(data: bytes) -> None:
    with pytest.raises(Refused, match=r"train/plain\.py"):
        import_closure("train.stage", {**CODE, "train/plain.py": data})


def test_an_unknown_module_is_refused() -> None:
    with pytest.raises(Refused, match=r"train\.nothing"):
        import_closure("train.nothing", CODE)


def test_the_identity_is_of_contents_by_path() -> None:
    digest = source_digest(source_files(CODE))
    assert source_digest(reversed(source_files(dict(reversed(CODE.items()))))) == digest
    renamed = {**CODE, "train/renamed.py": CODE["train/typed.py"]}
    del renamed["train/typed.py"]
    assert source_digest(source_files(renamed)) != digest
    assert source_digest(source_files({**CODE, "train/plain.py": b""})) != digest


def test_blobs_are_gits_own(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(CODE["train/stage.py"])
    told = subprocess.run(["git", "hash-object", "file"], cwd=tmp_path, capture_output=True, check=True, text=True)
    files = {file.path: file.blob for file in source_files(CODE)}
    assert files["train/stage.py"].hex == told.stdout.strip()
