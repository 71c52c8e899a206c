"""What recording costs: a recorded stage beside the bare one, and an idle ``dvc repro`` beside an unrecorded one.

The stage writes 64 MiB and nothing else, which makes recording look as dear as it can.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness import REPOSITORY, Comparison, Place, Program

SIZE_BYTES = 64 * 2**20
STAGES = 10
_STAGE = f"""
import pathlib, sys
from train.stage import run

def make(settings):
    folder = pathlib.Path("artifacts", sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "bytes").write_bytes(bytes({SIZE_BYTES}))

run(sys.argv[1], make, settings="note")
"""
_PLAIN = "python make.py {name}"
_RECORDED = "reckon record {name} --begin && python make.py {name}; reckon record {name} --status $?"


def comparisons(place: Place) -> Iterator[Comparison]:
    """The cost of one stage, then of a pipeline that is up to date."""
    recorded, plain = _archive(place.fresh("recorded"), _RECORDED), _archive(place.fresh("plain"), _PLAIN)
    yield Comparison(
        title="one stage that writes 64 MiB, recorded (MLflow included)",
        size_bytes=SIZE_BYTES,
        ours=_shell("recorded stage", _RECORDED.format(name="note0"), recorded),
        others=[_shell("bare stage", _PLAIN.format(name="note0"), plain)],
    )
    for folder in (recorded, plain):
        subprocess.run(["dvc", "repro", "--quiet"], cwd=folder, env=_environment(), check=True)
    yield Comparison(
        title=f"dvc repro of {STAGES} stages that are up to date",
        size_bytes=STAGES * SIZE_BYTES,
        ours=_shell("with recording", "dvc repro --quiet", recorded),
        others=[_shell("without recording", "dvc repro --quiet", plain)],
        aims={"without recording": 1 / 1.2},
    )


def _archive(folder: Path, command: str) -> Path:
    """A repository with a pipeline of ``STAGES`` equal stages."""
    lines = ["stages:"]
    for number in range(STAGES):
        name = f"note{number}"
        lines += [f"  {name}:", f"    cmd: {command.format(name=name)}", "    deps: [make.py]", "    params: [note]"]
        lines += [f"    outs: [artifacts/{name}]"]
    (folder / "dvc.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "params.yaml").write_text("note: {text: cost}\n", encoding="utf-8")
    (folder / "make.py").write_text(_STAGE, encoding="utf-8")
    (folder / "requirements.lock").write_text("", encoding="utf-8")
    (folder / ".gitignore").write_text("/artifacts\n", encoding="utf-8")
    identity = ("-c", "user.name=Bench", "-c", "user.email=bench@example.org")
    for words in (("init", "-q"), ("add", "-A"), (*identity, "commit", "-qm", "Begin")):
        subprocess.run(["git", *words], cwd=folder, check=True)
    subprocess.run(["dvc", "init", "-q"], cwd=folder, env=_environment(), check=True)
    return folder


def _shell(name: str, line: str, folder: Path) -> Program:
    return Program(name=name, argv=["bash", "-c", line], folder=folder, environment=_environment())


def _environment() -> dict[str, str]:
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": programs, "PYTHONPATH": str(REPOSITORY), "DVC_NO_ANALYTICS": "true"}
