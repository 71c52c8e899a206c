"""A training stage as its users run it: a process that is killed, starved, poisoned or moved to one core.

Real Levanter training in processes of their own, on a miniature of the pocket ladder. What one process compiled is kept
for the others, but for those that must compile to the same bits under other circumstances.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import pocket, programs
from support.wheelhouse import tree

from registry.adapters.attempts import RunFolder
from registry.core import runlog, transcript
from registry.core.runlog import Incident, RunLog

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, kw_only=True)
class Yard:
    """A folder in which ``train.rung d16`` can run, with these variables beside those of the tests."""

    root: Path
    variables: Mapping[str, str]

    @property
    def output(self) -> Path:
        return self.root / "artifacts/rung/d16"

    def begin(self, *prefix: str, **variables: str) -> subprocess.Popen[str]:
        command = [*prefix, sys.executable, "-m", "train.rung", "d16"]
        return subprocess.Popen(
            command, cwd=self.root, env=self.environment(**variables), stderr=subprocess.PIPE, text=True
        )

    def environment(self, **variables: str) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(ROOT), **self.variables, **variables}

    def run(self, *prefix: str, **variables: str) -> tuple[int, str]:
        process = self.begin(*prefix, **variables)
        _, told = process.communicate(timeout=300)
        return process.returncode, told

    def logs(self) -> Sequence[RunLog]:
        return RunFolder(self.root / "artifacts/runs").of_stage("rung/d16")


def params(**training: Any) -> dict[str, Any]:
    changed = {**pocket.GRUG["training"], "keep_every_steps": 16, "scratch_every_steps": 5, **training}
    family = {**pocket.GRUG["family"], "tokens_per_active_parameter": "1"}
    rungs = {"d16": {"hidden": 16, "layers": 2, "kv_heads": [2, 1], "batch_sequences": 8}}
    return {**pocket.GRUG, "training": changed, "family": family, "rungs": rungs}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root, before = tmp_path_factory.mktemp("yard"), Path.cwd()
    os.chdir(root)
    try:
        pocket.lay_data(root, params())
    finally:
        os.chdir(before)
    return root


def yard_at(root: Path, data: Path, *, compiles: bool = False, **training: Any) -> Yard:
    """A yard on these data. One that ``compiles`` takes no program that another process compiled."""
    (root / "artifacts").mkdir(parents=True)
    (root / "params.yaml").write_text(yaml.safe_dump(params(**training)))
    (root / "artifacts/tokens").symlink_to(data / "artifacts/tokens")
    return Yard(root=root, variables={} if compiles else programs.kept_in(data / "programs"))


@pytest.fixture(scope="module")
def unbroken(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, bytes]:
    """The outputs of a run that nobody disturbed."""
    yard = yard_at(tmp_path_factory.mktemp("unbroken") / "yard", data)
    status, told = yard.run()
    assert status == 0, told
    outputs = tree(yard.output)
    lines = transcript.parse(outputs["transcript.jsonl"]).lines
    assert len(lines) > 20
    [log] = yard.logs()
    assert log.finished is not None
    assert log.finished.step == lines[-1].step
    assert not (yard.root / "artifacts/scratch/rung/d16").exists(), "scratch is gone when the outputs are there"
    return outputs


def test_one_core_gives_the_same_bytes(unbroken: Mapping[str, bytes], data: Path, tmp_path: Path) -> None:
    yard = yard_at(tmp_path / "yard", data, compiles=True)
    status, told = yard.run("taskset", "-c", "0")
    assert status == 0, told
    assert tree(yard.output) == unbroken


def test_the_callers_environment_unpins_nothing(unbroken: Mapping[str, bytes], data: Path, tmp_path: Path) -> None:
    yard = yard_at(tmp_path / "yard", data, compiles=True)
    status, told = yard.run(NPROC="1", XLA_FLAGS="--xla_cpu_max_isa=SSE4_2")
    assert status == 0, told
    assert tree(yard.output) == unbroken


def test_a_killed_run_goes_on_and_ends_the_same(unbroken: Mapping[str, bytes], data: Path, tmp_path: Path) -> None:
    yard = yard_at(tmp_path / "yard", data)
    for steps in (7, 18):
        process = yard.begin()
        _wait_for(yard, steps)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert not yard.output.exists(), "nothing half-done under the final name"
        [scratch] = (yard.root / "artifacts/scratch/rung/d16").iterdir()
        told = transcript.parse((scratch / "work/transcript.jsonl").read_bytes()).last
        assert yard.logs()[-1].noted in (told, told - 1), "the kill may have come between the two"
    status, told = yard.run()
    assert status == 0, told
    assert tree(yard.output) == unbroken
    first, second, last = yard.logs()
    assert first.finished is None
    assert second.started.resumed is not None
    assert second.started.resumed["attempt"] == first.started.attempt
    assert last.started.resumed is not None
    assert last.started.resumed["attempt"] == second.started.attempt
    assert [one.incident for one in last.of(Incident)] == ["restart"]


def test_a_run_that_is_asked_to_stop_says_so(data: Path, tmp_path: Path) -> None:
    yard = yard_at(tmp_path / "yard", data)
    process = yard.begin()
    _wait_for(yard, 3)
    process.send_signal(signal.SIGTERM)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 3
    assert "SIGTERM" in told
    [log] = yard.logs()
    assert log.finished is not None
    assert log.finished.cause is not None
    assert "interruption" in [one.incident for one in log.of(Incident)]


def test_numbers_that_are_none_are_a_recorded_failure(data: Path, tmp_path: Path) -> None:
    """With the other family: norms and the ladder's optimizer keep this one's numbers finite at any rate."""
    yard = yard_at(tmp_path / "yard", data)
    training = {**pocket.PARAMS["training"], "rate_factor": "1e30", "clip_norm": "1e30"}
    family = {**pocket.PARAMS["family"], "tokens_per_active_parameter": "3"}
    settings = {**pocket.PARAMS, "training": training, "family": family}
    (yard.root / "params.yaml").write_text(yaml.safe_dump(settings))
    status, told = yard.run()
    assert status == 1, told
    [log] = yard.logs()
    assert log.finished is not None
    assert log.finished.cause is not None
    assert "nan" in [one.incident for one in log.of(Incident)]
    assert not yard.output.exists()


def test_a_full_disk_is_a_recorded_failure_and_costs_nothing(
    unbroken: Mapping[str, bytes], data: Path, tmp_path: Path
) -> None:
    yard = yard_at(tmp_path / "yard", data)
    process = subprocess.run(
        ["bash", "-c", f"ulimit -f 100; exec {sys.executable} -m train.rung d16"],
        cwd=yard.root,
        env=yard.environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert process.returncode in (3, -signal.SIGXFSZ, 128 + signal.SIGXFSZ), process.stderr
    assert not yard.output.exists()
    status, told = yard.run()
    assert status == 0, told
    assert tree(yard.output) == unbroken


def test_a_tracker_that_cannot_start_stops_nothing(unbroken: Mapping[str, bytes], data: Path, tmp_path: Path) -> None:
    yard = yard_at(tmp_path / "yard", data)
    status, told = yard.run(
        WANDB_MODE="online", WANDB_API_KEY="0" * 40, WANDB_BASE_URL="http://127.0.0.1:9", WANDB_INIT_TIMEOUT="5"
    )
    assert status == 0, told
    assert tree(yard.output) == unbroken
    [log] = yard.logs()
    states = {one.system: one.state for one in log.of(runlog.Tracker)}
    assert states["wandb"] is runlog.TrackerState.FAILED


def _wait_for(yard: Yard, steps: int) -> None:
    """Wait until some transcript tells ``steps`` steps."""
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        lines = [
            path.read_bytes().count(b"\n") for path in yard.root.glob("artifacts/scratch/rung/d16/*/*/transcript.jsonl")
        ]
        if any(count >= steps for count in lines):
            return
        time.sleep(0.02)
    raise AssertionError(f"No transcript came to {steps} steps.")
