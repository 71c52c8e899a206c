"""Every command is in the table, explains itself with an example, speaks JSON, and costs nothing until it is run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from registry.cli.commands import COMMANDS
from registry.cli.main import cli

ROOT = Path(__file__).resolve().parents[2]
HEAVY = {
    "blake3", "datasets", "dvc", "huggingface_hub", "jax", "levanter", "mlflow", "numpy", "pyarrow", "rich",
    "safetensors", "tensorstore", "transformers", "wandb", "yaml",
}  # fmt: skip
# What an installation with the base dependencies alone does not have.
EXTRAS = (
    "datasets",
    "dvc",
    "equinox",
    "haliax",
    "jax",
    "levanter",
    "mlflow",
    "pygit2",
    "safetensors",
    "starlette",
    "tensorstore",
    "torch",
    "transformers",
    "uvicorn",
    "wandb",
)
WITHOUT_EXTRAS = """
import importlib, pkgutil, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in %(extras)r:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
import registry
modules = [found.name for found in pkgutil.walk_packages(registry.__path__, "registry.")]
for name in modules:
    if not name.startswith("registry.adapters.hub_server"):  # all of it needs the extra `hub`; only wiring imports it
        importlib.import_module(name)
from registry.cli.main import run
status = run(["--help"])
assert not {name.partition(".")[0] for name in sys.modules} & set(%(extras)r)
print(len(modules), "modules")
sys.exit(status)
"""


def test_the_table_and_the_modules_agree():
    named = {entry.name.replace("-", "_") for entry in COMMANDS}
    assert len(named) == len(COMMANDS)
    holding = {
        path.stem
        for path in (ROOT / "registry/cli").glob("*.py")
        if re.search(r"^def command\(", path.read_text(), re.MULTILINE)
    }
    assert named == holding


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.name)
def test_a_command_explains_itself(entry, reckon):
    command = entry.load()
    assert isinstance(command, click.Command)
    assert entry.help.endswith(".")
    assert len(entry.help) <= 60
    ended = reckon(entry.name, "--help")
    assert ended.status == 0
    assert re.search(rf"Examples?:\n +.*\breckon {entry.name}\b[^\n]*\n*(  .*\n)*\Z", ended.stdout)
    assert "--json" in [name for parameter in leaves(command) for name in parameter.opts]
    assert command.help


def leaves(command: click.Command) -> list[click.Parameter]:
    """The parameters of a command, or of the commands of a group."""
    if isinstance(command, click.Group):
        return [parameter for one in command.commands.values() for parameter in leaves(one)]
    return command.params


def test_the_front_page_lists_every_command(reckon):
    page = reckon("--help").stdout
    assert not [
        entry.name
        for entry in COMMANDS
        if not re.search(rf"^  {entry.name} +{re.escape(entry.help[:20])}", page, re.MULTILINE)
    ]
    assert isinstance(cli, click.Group)


def test_the_front_page_imports_nothing_heavy():
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "registry", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    modules = re.findall(r"^import time: .*\| +(\S+)$", done.stderr, re.MULTILINE)
    assert "registry.cli.commands" in modules
    commands = {entry.module for entry in COMMANDS}
    others = [
        name for name in modules if name.startswith(("registry.adapters", "registry.workflows", "registry.cli.wiring"))
    ]
    assert not [name for name in modules if name.partition(".")[0] in HEAVY or name in commands] + others


def test_the_registry_needs_no_training_stack():
    """Every module of registry/ imports, and the front page prints, where the extras ``lab`` and ``train`` are absent.

    It shows that no module needs them *to be imported*; what a command imports while it runs is its own test's matter.
    """
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS % {"extras": EXTRAS}],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=os.environ,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"^\d\d+ modules$", done.stdout, re.MULTILINE)
