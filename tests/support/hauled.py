"""A small archive whose stages run as processes, so that they can be made again: a rope, and a haul in two segments."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import yaml

from registry.cli import wiring
from registry.core.ledger import Ledger

STAGES = ("rope", "haul/1", "haul/2")
_RECORDED = "reckon record {0} --begin && python -m train.windlass {0}; reckon record {0} --status $?"
PARAMS = {
    "rope": {"fathoms": 7},
    "determinism": {"nproc": 2},
    "hauls": {
        "1": {"parent": None, "after": "artifacts/rope/rope.txt", "last": 9, "pace": 0},
        "2": {"parent": "haul/1@step-9", "after": "artifacts/haul/1", "last": 14, "pace": 0},
    },
    "hypotheses": {"haul/2": {"hypothesis": "it comes up"}},
}
DVC = {
    "stages": {
        "rope": {
            "cmd": _RECORDED.format("rope"),
            "deps": ["train/windlass.py"],
            "params": ["rope"],
            "outs": ["artifacts/rope"],
        },
        "haul": {
            "foreach": "${hauls}",
            "do": {
                "cmd": _RECORDED.format("haul/${key}"),
                "deps": ["train/windlass.py", "artifacts/rope", "${item.after}"],
                "params": ["determinism", "hauls.${key}"],
                "outs": ["artifacts/haul/${key}"],
            },
        },
    }
}


@dataclass(kw_only=True)
class Hauled:
    """The archive at ``root``."""

    root: Path

    def write(self, path: str, data: str | bytes) -> None:
        """Put a file into the working tree."""
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_bytes(data.encode() if isinstance(data, str) else data)

    def edit(self, old: str, new: str) -> None:
        """Edit the stage program."""
        text = (self.root / "train/windlass.py").read_text()
        assert old in text
        self.write("train/windlass.py", text.replace(old, new))

    def git(self, *arguments: str) -> str:
        """Run git here."""
        done = subprocess.run(["git", *arguments], cwd=self.root, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(self, message: str = "As it is") -> str:
        """Commit everything that git does not ignore; the commit's id."""
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    def set(self, **hauls: int) -> None:
        """Set the pace (milliseconds a step) of both segments."""
        params = yaml.safe_load((self.root / "params.yaml").read_text())
        for item in params["hauls"].values():
            item.update(hauls)
        self.write("params.yaml", yaml.safe_dump(params, sort_keys=False))

    def run(self, stage: str) -> None:
        """Run and record a stage, as DVC would."""
        recorder = wiring.recorder(self.root)
        recorder.begin(stage, wiring.hypothesis(self.root, stage))
        subprocess.run([sys.executable, "-m", "train.windlass", stage], cwd=self.root, check=True)
        recorder.record(stage, 0, self.ledger)

    @property
    def ledger(self) -> Ledger:
        return wiring.ledger(self.root)

    def marks(self) -> list[dict]:
        """The marks of all re-derivations, oldest first."""
        told = sorted(self.ledger.executions.values(), key=lambda one: one.started)
        return [{"outcome": one.outcome.value, **one.extra["rederives"]} for one in told if "rederives" in one.extra]

    def untouched(self) -> tuple[str, list[str]]:
        """What must not change: the index and the checkout outside of ``manifests/``; git's worktrees."""
        status = self.git("status", "--porcelain", "--", ".", ":(exclude)manifests")
        return status, self.git("worktree", "list").splitlines()[1:]


def build(root: Path) -> Hauled:
    """The archive, every stage run once and committed."""
    root.mkdir(parents=True, exist_ok=True)
    archive = Hauled(root=root)
    archive.write("dvc.yaml", yaml.safe_dump(DVC, sort_keys=False))
    archive.write("params.yaml", yaml.safe_dump(PARAMS, sort_keys=False))
    archive.write("requirements.lock", "windlass==1.0\n")
    archive.write(".gitignore", "/artifacts\n__pycache__\n")
    archive.write("train/__init__.py", '"""Stages."""\n')
    archive.write("train/windlass.py", (Path(__file__).parent / "windlass.py").read_bytes())
    archive.git("init", "-q", "-b", "main", "--template=")
    archive.commit("Begin")
    for stage in STAGES:
        archive.run(stage)
    archive.commit("Hauled")
    return archive


def copy(archive: Hauled, root: Path) -> Hauled:
    """The same archive in another folder."""
    shutil.copytree(archive.root, root, symlinks=True)
    return Hauled(root=root)
