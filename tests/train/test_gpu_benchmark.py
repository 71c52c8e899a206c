"""The script for a borrowed GPU, rehearsed without one: what it runs, and what it makes of the figures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from registry.core.transcript import Line, bits, line

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks/programs_on_gpu.sh"
# Stand-ins: a plan, and a worker whose bits differ only without deterministic kernels.
RECKON = """#!/bin/bash
mkdir -p "${!#}"
printf '{\\n "platform": "cpu"\\n}\\n' > "${!#}/plan.json"
echo "$*" >> "$FIXTURES/calls"
"""
PYTHON = """#!/bin/bash
case "$1 $2" in
  "-c "*) test "$JAX_PLATFORMS" = cpu ;;
  "-m train.launch_worker")
    cp -r "$FIXTURES/$(test -z "$RECKON_XLA_FLAGS" && grep -o plain-1 <<< "$3" || echo same)" "$5"
    echo "$(grep -o '"c[a-z]*"' "$3") $RECKON_XLA_FLAGS" >> "$FIXTURES/calls" ;;
  *) exec "$REAL" "$@" ;;
esac
"""


def _fixtures(folder: Path) -> None:
    for name, shift in (("same", 0), ("plain-1", 1)):
        made = [
            Line(step=step, loss=bits(4.0) + shift, gradient_norm=bits(1.0), order="a" * 64, state="b" * 16)
            for step in (1, 2)
        ]
        (folder / name).mkdir()
        (folder / name / "transcript.jsonl").write_bytes(b"".join(map(line, made)))
        (folder / name / "result.json").write_text(json.dumps({"root": name}))
    for name, text in (("reckon", RECKON), ("python", PYTHON)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)


def _run(folder: Path, out: Path, platform: str) -> subprocess.CompletedProcess[str]:
    root = SCRIPT.parents[1]
    environment = {
        **os.environ,
        "PATH": f"{folder}:{os.environ['PATH']}",
        "PYTHONPATH": str(root),
        "FIXTURES": str(folder),
        "REAL": sys.executable,
        "PLATFORM": platform,
        "STEPS": "2",
    }
    command = ["bash", SCRIPT, out]
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)


def test_it_is_sound_shell() -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("shellcheck"), SCRIPT], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_a_rehearsal_runs_every_window_and_grades_them(tmp_path: Path) -> None:
    _fixtures(tmp_path)
    done = _run(tmp_path, tmp_path / "out", "cpu")
    assert done.returncode == 0, done.stderr
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls[0].startswith("plan d32 --target local --window 0:2 ")
    exact = '"cpu" --xla_gpu_deterministic_ops=true'
    assert calls[1::2] == ['"cpu" ', '"cpu" ', exact, '"cpu" ', exact]
    told = json.loads((tmp_path / "out/grades.json").read_text())
    assert told == json.loads(done.stdout.partition("\n")[2])
    assert told["device"] == "cpu: a rehearsal, no GPU"
    assert told["plain-1 against plain-2"]["tier"] == "T3"
    assert told["deterministic-1 against deterministic-2"]["tier"] == "T1"
    assert told["deterministic-1 against cpu"]["tier"] == "T1"


def test_without_a_device_or_with_an_old_folder_nothing_is_written(tmp_path: Path) -> None:
    _fixtures(tmp_path)
    done = _run(tmp_path, tmp_path / "out", "cuda")
    assert done.returncode == 2
    assert "PLATFORM=cpu to rehearse" in done.stderr
    assert not (tmp_path / "out").exists()
    (tmp_path / "out").mkdir()
    assert "name a new folder" in _run(tmp_path, tmp_path / "out", "cpu").stderr
