"""What lets a killed stage go on: the outputs so far and the states to resume from, keyed by recipe.

The key is the digest of settings, inputs and code, so a resume never mixes recipes. Outputs are built in ``work/`` and
renamed into place in one go when all of them are there; then the rest is removed. Whenever the process is killed, the
next one finds either a state to resume from, or finished outputs to publish, or nothing. Refuses to begin a segment of
the hero anew while an unfinished one of another recipe lies there.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from registry.core.canonical import Json
from registry.core.digests import record_digest, sha256
from registry.errors import Refused
from train import paths
from train.files import write_json

CODE: Final = ("train/**/*.py", "registry/core/*.py", "registry/errors.py", "requirements.lock")
_STEP = re.compile(r"step-(0|[1-9][0-9]{0,14})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """The state to go on from: its folder, its completed steps, and the attempt that wrote it."""

    folder: Path
    step: int
    attempt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scratch:
    """The scratch folder of one stage and recipe, and where its outputs belong in the end."""

    folder: Path
    output: Path

    @property
    def work(self) -> Path:
        """The outputs as far as they are."""
        return self.folder / "work"

    @property
    def states(self) -> Path:
        """States that are no outputs."""
        return self.folder / "states"

    @property
    def metrics(self) -> Path:
        """One line of metrics a step, from which the history is made."""
        return self.folder / "metrics.jsonl"

    @property
    def finished(self) -> bool:
        """All outputs are there and only need their place."""
        return (self.folder / "complete").is_file() and self.work.is_dir()

    def latest(self) -> Resume | None:
        """The latest complete state, or None."""
        found = {**_steps(self.states), **_steps(self.work / "checkpoints")}
        if not found:
            return None
        step = max(found)
        return Resume(folder=found[step], step=step, attempt=self._owner(step))

    def own(self, attempt: str) -> None:
        """Note that ``attempt`` writes here from now on. Makes the folders."""
        if not self.work.is_dir():
            (self.folder / "complete").unlink(missing_ok=True)  # of outputs that were published before a kill
        for folder in (self.states, self.work / "checkpoints"):
            folder.mkdir(parents=True, exist_ok=True)
        owners = self._owners()
        write_json(self.folder / "owners.json", {**owners, "last": attempt})

    def owned(self, step: int, attempt: str) -> None:
        """Note that ``attempt`` writes the state of ``step``."""
        write_json(self.folder / "owners.json", {**self._owners(), str(step): attempt, "last": attempt})

    def drop_states_before(self, step: int) -> None:
        """Remove states, other than outputs, that a later one replaces."""
        for older, folder in _steps(self.states).items():
            if older < step:
                shutil.rmtree(folder)

    def publish(self) -> None:
        """Put the outputs in their place. Each line may be the last that a killed process did."""
        (self.folder / "complete").touch()
        shutil.rmtree(self.states, ignore_errors=True)
        if self.output.exists():
            shutil.rmtree(self.output)
        self.output.parent.mkdir(parents=True, exist_ok=True)
        self.work.rename(self.output)

    def remove(self) -> None:
        """Remove what is left, and the stage's folder when nothing else lies in it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        parent = self.folder.parent
        if parent.is_dir() and not any(parent.iterdir()):
            parent.rmdir()

    def _owner(self, step: int) -> str:
        owners = self._owners()
        return cast(str, owners.get(str(step)) or owners["last"])

    def _owners(self) -> dict[str, Json]:
        path = self.folder / "owners.json"
        return cast(dict[str, Json], json.loads(path.read_bytes())) if path.is_file() else {}


def scratch(stage: str, settings: Mapping[str, Json], inputs: Mapping[str, str]) -> Scratch:
    """The scratch of a stage with these settings, input digests and the code as it lies here."""
    key = record_digest({"settings": settings, "inputs": inputs, "code": _code()})
    return Scratch(folder=paths.SCRATCH / stage / key.short, output=paths.ARTIFACTS / stage)


def refuse_others(mine: Scratch) -> None:
    """Refuse to begin anew while an unfinished run of another recipe lies in the stage's scratch."""
    if mine.latest() is not None or mine.finished or not mine.folder.parent.is_dir():
        return
    for folder in sorted(mine.folder.parent.iterdir()):
        other = Scratch(folder=folder, output=mine.output)
        found = other.latest()
        if folder != mine.folder and found is not None:
            raise Refused(
                f"{folder} holds an unfinished run of another recipe at step {found.step}; this would begin anew.",
                remedy="Bring back its settings and code to go on, or remove that folder to begin anew on purpose.",
            )


def _code() -> str:
    """The digest of all code that a training stage can read, and of the lock."""
    files = sorted({path.as_posix() for pattern in CODE for path in Path().glob(pattern)})
    return str(record_digest([[path, str(sha256(Path(path).read_bytes()))] for path in files]))


def _steps(folder: Path) -> dict[int, Path]:
    """Complete states in a folder by step. A state that is not complete has another name."""
    if not folder.is_dir():
        return {}
    matches = {path: _STEP.fullmatch(path.name) for path in folder.iterdir()}
    return {int(match[1]): path for path, match in matches.items() if match}


def input_digests(domains: tuple[str, ...], parent: str | None) -> dict[str, str]:
    """Digests by name of what a training stage reads: the tables of its token caches, and its parent's root."""
    found = {name: str(sha256((paths.TOKENS / name / "tokens.json").read_bytes())) for name in domains}
    return found if parent is None else {**found, "parent": parent}
