"""Lowering a step of training: ``python -m train.program`` in a process of its own, here or at another commit.

The registry never imports JAX. The process gets little of the caller's environment and writes into a temporary folder.
Refuses commits from before there was anything to lower with, and answers that are none.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from registry.core.canonical import Json
from registry.core.mlir import LARGEST_CHARACTERS
from registry.core.program import Asked, Lowered
from registry.errors import OutsideFailed, Refused

_MODULE: Final = "train.program"
_KEPT: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "SSL_CERT_FILE", "LD_LIBRARY_PATH")
_CALM: Final = {
    "PYTHONNOUSERSITE": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "HF_HUB_OFFLINE": "1",
    "WANDB_MODE": "disabled",
}
_LIMIT_SECONDS: Final = 900
_TAIL: Final = 1500


class LoweringProcess:
    """Lowers what lies in the folder ``root``, or in a worktree that ``open_commit`` opens."""

    def __init__(self, root: Path, open_commit: Callable[[str], AbstractContextManager[Path]]) -> None:
        self._root = root
        self._open_commit = open_commit

    def lower(self, asked: Asked, commit: str | None) -> Lowered:
        """The step at a commit (40 hex), or as the working tree has it.

        Raises ``Refused`` for what cannot be lowered, ``OutsideFailed`` when the process fails or takes too long.
        """
        if commit is None:
            return self._run(asked, None, self._root)
        with self._open_commit(commit) as folder:
            return self._run(asked, commit, folder)

    def _run(self, asked: Asked, commit: str | None, folder: Path) -> Lowered:
        if commit is not None and not (folder / "train" / "program.py").is_file():
            raise Refused(
                f"The commit {commit[:12]} is from before programs were lowered: it has no {_MODULE}.",
                remedy="Name a later commit.",
            )
        with tempfile.TemporaryDirectory(prefix="reckon-program-") as place:
            output = Path(place) / "program.mlir"
            told = _facts(_said(folder, [*_arguments(asked), "--output", str(output)]))
            if not output.is_file() or output.stat().st_size > LARGEST_CHARACTERS:
                raise OutsideFailed(f"{_MODULE} wrote no program.", remedy="Run it by hand.")
            return Lowered(commit=commit, facts=told, mlir=output.read_text(encoding="utf-8", errors="replace"))


def _arguments(asked: Asked) -> list[str]:
    given = {
        "--platform": asked.platform,
        "--devices": asked.devices,
        "--device-memory": asked.device_gigabytes,
    }
    words = [word for option, value in given.items() if value is not None for word in (option, str(value))]
    mesh = [] if asked.mesh is None else ["--mesh", ",".join(map(str, asked.mesh))]
    return [*words, *mesh, "--", asked.name]


def _said(folder: Path, arguments: list[str]) -> str:
    kept = {name: value for name, value in os.environ.items() if name in _KEPT}
    try:
        done = subprocess.run(
            [sys.executable, "-m", _MODULE, *_before(arguments)],
            cwd=folder,
            env={**kept, **_CALM},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LIMIT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise OutsideFailed(f"Lowering took more than {_LIMIT_SECONDS} seconds.") from error
    tail = done.stderr.strip()[-_TAIL:]
    if done.returncode == Refused.exit_code and tail:
        raise Refused(tail.splitlines()[-1])
    if done.returncode:
        if "No module named" in tail:
            raise OutsideFailed(
                "Lowering needs the training stack.", remedy="Install deadreckon with its extra 'train'."
            )
        raise OutsideFailed(f"{_MODULE} failed with status {done.returncode}: {tail}")
    return done.stdout


def _before(arguments: list[str]) -> list[str]:
    """Options in front of the name, whatever the name looks like."""
    cut = arguments.index("--")
    return [*arguments[:cut], *arguments[cut + 2 :], *arguments[cut : cut + 2]]


def _facts(said: str) -> Mapping[str, Json]:
    try:
        told = json.loads(said.splitlines()[-1])
    except (IndexError, ValueError) as error:
        raise OutsideFailed(f"{_MODULE} did not say what it lowered.", remedy="Run it by hand.") from error
    if not isinstance(told, dict):
        raise OutsideFailed(f"{_MODULE} did not say what it lowered.", remedy="Run it by hand.")
    return told
