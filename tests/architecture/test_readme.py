"""The README tells the truth: its commands exist, its exit statuses are the real ones, its transcripts repeat."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from registry.cli.commands import COMMANDS
from registry.cli.exits import BUG
from registry.errors import DoesNotHold, OutsideFailed, Refused

ELISION = "…"


@pytest.fixture
def readme(root: Path) -> str:
    return (root / "README.md").read_text(encoding="utf-8")


def test_the_table_has_every_command_and_no_other(readme: str) -> None:
    told = set(re.findall(r"`reckon ([a-z]+)", readme))
    assert told == {entry.name for entry in COMMANDS}


def test_the_exit_statuses_are_the_real_ones(readme: str) -> None:
    told = [int(number) for number in re.findall(r"^\| (\d+) \|", readme, re.MULTILINE)]
    assert told == [0, DoesNotHold.exit_code, Refused.exit_code, OutsideFailed.exit_code, BUG]


def test_the_set_up_commands_are_targets(readme: str, root: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (root / "Makefile").read_text(), re.MULTILINE))
    told = set(re.findall(r"(?:^|`)make ([a-z-]+)", readme, re.MULTILINE))
    assert {"repro", "test"} <= told
    assert told <= targets


def transcripts(text: str) -> list[tuple[str, list[str]]]:
    """Command lines of the ``console`` blocks with the lines that they print."""
    found = []
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *lines = part.rstrip("\n").split("\n")
            found.append((command, lines))
    return found


@pytest.mark.slow
def test_the_transcripts_can_be_repeated(readme: str, root: Path, tmp_path: Path) -> None:
    """In a clone that holds the committed records and none of the bytes. ``…`` stands for lines that are left out."""
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", str(root), str(clone)], check=True)
    shown = transcripts(readme)
    assert shown
    for command, lines in shown:
        program, *arguments = command.split()
        assert program == "reckon"
        ended = subprocess.run(
            [sys.executable, "-m", "registry", *arguments],
            cwd=clone,
            env={**os.environ, "PYTHONPATH": str(root)},
            capture_output=True,
            text=True,
            check=False,
        )
        printed = iter(ended.stdout.splitlines())
        for line in lines:
            if line.strip() != ELISION:
                assert line in printed, f"'{command}' does not print, or not in this order: {line}"
