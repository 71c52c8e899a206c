"""A small archive of its own: a git repository with seven stages, run in this process, recorded by the real recorder.

Everything in it is real but the host, whose name and clock a test chooses: git, files, run logs, records, tables. The
same repository also runs through ``dvc repro``. Use the fixture ``toy`` (nothing run yet) or ``sailed`` (all stages run
once, committed).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from fakes.workshop import FakeHost
from support.voyage import Killed, Voyage

from registry.adapters.attempts import RunFolder
from registry.adapters.checkpoints import read_leaves
from registry.adapters.git import GitRepository
from registry.adapters.hashing import Disk
from registry.adapters.observer import LocalObserver
from registry.adapters.openings import OpeningFolder
from registry.adapters.pipeline import DvcPipeline
from registry.adapters.records import FileRecordStore
from registry.adapters.tables import TableFolder
from registry.cli import wiring
from registry.core.canonical import Json
from registry.core.ledger import Ledger
from registry.errors import MalformedRecord
from registry.observing import Workshop
from registry.workflows.record import Recorded, Recorder

STAGES = ("chart", "plot/east", "plot/west", "note", "leg/1", "leg/2", "hull")
_RECORDED = "reckon record {0} --begin && python -m train.voyage {0}; reckon record {0} --status $?"
DVC_YAML = f"""\
stages:
  chart:
    cmd: {_RECORDED.format("chart")}
    deps: [train/voyage.py]
    params: [chart]
    outs: [artifacts/chart]
  plot:
    foreach: [east, west]
    do:
      cmd: {_RECORDED.format("plot/${item}")}
      deps: [train/voyage.py, "artifacts/chart/${{item}}/text.txt"]
      params: [plot]
      outs: ["artifacts/plot/${{item}}"]
  note:
    cmd: {_RECORDED.format("note")}
    deps: [train/voyage.py]
    params: [note]
    outs: [artifacts/note.json]
  leg:
    foreach: ${{legs}}
    do:
      cmd: {_RECORDED.format("leg/${key}")}
      deps: [train/voyage.py, artifacts/plot/east, artifacts/plot/west, "${{item.from}}"]
      params: [determinism, "legs.${{key}}"]
      outs: ["artifacts/leg/${{key}}"]
  hull:
    cmd: {_RECORDED.format("hull")}
    deps: [train/voyage.py, artifacts/leg/2]
    outs: [artifacts/hull]
"""
PARAMS = """\
chart: {lines: 20}
plot: {scale: 0.5}
note: {text: hold the course}
determinism: {nproc: 2}
legs:
  "1": {from: artifacts/note.json, last: 4, pull: 3}
  "2": {from: artifacts/leg/1/checkpoints/step-4, last: 6, pull: 5}
hypotheses:
  leg/1: {text: it arrives, loss: 1.5}
"""


@dataclass(kw_only=True)
class Toy:
    """The repository at ``root``. ``host`` is who the next stage runs on."""

    root: Path
    host: FakeHost = field(default_factory=FakeHost)
    sailed: int = 0

    def write(self, path: str, data: str | bytes) -> None:
        """Put a file into the working tree."""
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_bytes(data.encode() if isinstance(data, str) else data)

    def replace(self, path: str, old: str, new: str) -> None:
        """Edit a text file."""
        text = (self.root / path).read_text()
        assert old in text
        self.write(path, text.replace(old, new))

    def flip(self, path: str, at: int = -1) -> None:
        """Flip the lowest bit of one byte of a file."""
        data = bytearray((self.root / path).read_bytes())
        data[at] ^= 1
        (self.root / path).write_bytes(data)

    def git(self, *arguments: str) -> str:
        """Run git here."""
        done = subprocess.run(["git", *arguments], cwd=self.root, check=True, capture_output=True, text=True)
        return done.stdout

    def commit(self, message: str = "As it is") -> None:
        """Commit everything that git does not ignore."""
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)

    @property
    def recorder(self) -> Recorder:
        return Recorder(
            workshop=self.workshop,
            records=self.records,
            tables=self.tables,
            attempts=RunFolder(self.root / "artifacts/runs"),
            openings=OpeningFolder(self.root / "artifacts/runs"),
        )

    @property
    def workshop(self) -> Workshop:
        return Workshop(
            pipeline=DvcPipeline(self.root),
            repository=GitRepository(self.root),
            disk=Disk(self.root),
            observer=observer(self.root),
            host=self.host,
        )

    @property
    def records(self) -> FileRecordStore:
        return FileRecordStore(self.root / "manifests")

    @property
    def tables(self) -> TableFolder:
        return TableFolder(self.root / "manifests")

    @property
    def ledger(self) -> Ledger:
        return wiring.ledger(self.root)

    def run(self, stage: str, *, stop_after: int | None = None, failing: bool = False) -> Recorded:
        """Run and record a stage, as DVC would. A stage that is killed or fails is recorded when it runs again."""
        self.recorder.begin(stage, wiring.hypothesis(self.root, stage))
        self.attempt(stage, stop_after=stop_after, failing=failing)
        return self.recorder.record(stage, 0, self.ledger)

    def attempt(self, stage: str, *, stop_after: int | None = None, failing: bool = False) -> Voyage:
        """Run a stage without recording it. Raises ``Killed`` and ``RuntimeError`` as the stage does."""
        self.sailed += 1
        voyage = Voyage(
            root=self.root,
            stage=stage,
            attempt=f"20261130t120000z-{self.sailed:08x}",
            host=self.host.name,
            numerics=dict(self.host.numerics()),
            time=[self.host.now(), self.host.now()],
            stop_after=stop_after,
            failing=failing,
        )
        voyage.sail()
        return voyage

    def interrupt(self, stage: str, stop_after: int) -> None:
        """Begin a stage, and kill it after so many steps."""
        self.recorder.begin(stage, None)
        try:
            self.attempt(stage, stop_after=stop_after)
        except Killed:
            return
        raise AssertionError(f"{stage} ended before it could be killed")

    def run_all(self) -> None:
        """Run and record every stage in order."""
        for stage in STAGES:
            self.run(stage)


def build(root: Path) -> Toy:
    """A committed toy archive in the empty folder ``root``, nothing run."""
    root.mkdir(parents=True, exist_ok=True)
    toy = Toy(root=root)
    here = Path(__file__).parent
    toy.write("dvc.yaml", DVC_YAML)
    toy.write("params.yaml", PARAMS)
    toy.write("requirements.lock", "sextant==1.0\n")
    toy.write(".gitignore", "/artifacts\n")
    toy.write(".dvc/config", "[core]\n    analytics = false\n")
    toy.write(".dvc/.gitignore", "/config.local\n/tmp\n/cache\n")
    toy.write("train/__init__.py", '"""The stages of a toy."""\n')
    toy.write("train/voyage.py", (here / "voyage.py").read_bytes())
    toy.git("init", "-q", "-b", "main", "--template=")
    toy.commit("Begin")
    return toy


def observer(root: Path) -> LocalObserver:
    """Tensors as the real observer reads them; contents of the toy's own kind."""
    return LocalObserver(root, read_leaves=read_leaves, observe=_contents)


def _contents(stage: str, path: Path) -> dict[str, Json]:
    """The number of lines of text; raises ``MalformedRecord`` for text that is not ASCII."""
    files = [path] if path.is_file() else sorted(path.rglob("*.txt")) + sorted(path.rglob("*.jsonl"))
    try:
        return {"lines": sum(file.read_bytes().decode("ascii").count("\n") for file in files)}
    except UnicodeDecodeError as error:
        raise MalformedRecord(f"{stage} holds text that is not ASCII.") from error


def copy(toy: Toy, root: Path) -> Toy:
    """The same archive in another folder, with the same past."""
    shutil.copytree(toy.root, root, copy_function=shutil.copy2)
    return Toy(root=root, host=FakeHost(ticks=toy.host.ticks), sailed=toy.sailed)


def dvc(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the real DVC in a toy archive."""
    return subprocess.run(["dvc", *arguments], cwd=root, capture_output=True, text=True, check=False, env=os.environ)
