"""The code that dvc.yaml declares for a stage is what the stage can import: no less, no more."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from registry.core.pipeline import StageSpec, resolve
from registry.core.source import import_closure

OWN = ("registry", "train")


@pytest.fixture(scope="session")
def contents(sources: dict[Path, str]) -> dict[str, bytes]:
    """The shipped Python files by repository path."""
    return {path.as_posix(): text.encode() for path, text in sources.items()}


@pytest.fixture
def stages(root: Path) -> Mapping[str, StageSpec]:
    """The declared pipeline."""
    documents = (yaml.safe_load((root / name).read_bytes()) for name in ("dvc.yaml", "params.yaml"))
    return resolve(*documents)


def module_of(spec: StageSpec) -> str:
    """The module that a stage's command runs."""
    found = re.findall(r"python -m (train(?:\.\w+)+)", spec.command)
    assert len(found) == 1, f"{spec.name} must run one module of train: {spec.command}"
    return found[0]


@pytest.mark.slow
def test_every_stage_declares_exactly_what_it_can_import(
    stages: Mapping[str, StageSpec], contents: Mapping[str, bytes]
) -> None:
    assert stages
    wrong = {}
    for spec in stages.values():
        real = set(import_closure(module_of(spec), contents))
        declared = set(spec.code)
        if real != declared:
            wrong[spec.name] = {"add": sorted(real - declared), "remove": sorted(declared - real)}
    assert not wrong


@pytest.mark.slow
def test_what_is_imported_at_start_lies_within_the_closure(
    stages: Mapping[str, StageSpec], contents: Mapping[str, bytes], root: Path
) -> None:
    """The static closure is a superset of what Python really loads."""
    for module in sorted({module_of(spec) for spec in stages.values()}):
        script = (
            f"import sys, {module}; print(*(m.__file__ for m in sys.modules.values() if getattr(m, '__file__', None)))"
        )
        told = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, check=True, text=True)
        loaded = {
            Path(path).relative_to(root).as_posix() for path in told.stdout.split() if Path(path).is_relative_to(root)
        }
        own = {path for path in loaded if path.partition("/")[0] in OWN}
        assert own, f"{module} loaded nothing of its own"
        assert own <= set(import_closure(module, contents))


@pytest.mark.slow
def test_the_recorder_is_no_part_of_any_stage(contents: Mapping[str, bytes]) -> None:
    """A change to the command line, an adapter or a workflow re-runs nothing."""
    for path in contents:
        if path.startswith("train/") and not path.endswith("__init__.py"):
            closure = import_closure(path.removesuffix(".py").replace("/", "."), contents)
            assert not [
                one for one in closure if one.startswith(("registry/cli", "registry/adapters", "registry/workflows"))
            ]
