"""The hero in two segments, as processes: sealed before it starts, proven before it goes on, one run in the end."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from support import pocket, programs
from support.recorded import put, record
from support.wheelhouse import tree

from registry.core import runlog, transcript
from registry.core.runlog import RunLog
from train import tensorfile

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
CUT = 12


@dataclass(frozen=True, kw_only=True)
class Sea:
    """A folder in which the hero's segments run."""

    root: Path

    def begin(self, number: str) -> subprocess.Popen[str]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **programs.kept_in(self.root / "programs")}
        command = [sys.executable, "-m", "train.segment", number]
        return subprocess.Popen(command, cwd=self.root, env=environment, stderr=subprocess.PIPE, text=True)

    def run(self, number: str) -> tuple[int, str]:
        process = self.begin(number)
        _, told = process.communicate(timeout=300)
        return process.returncode, told

    def last_log(self, number: str) -> RunLog:
        path = max((self.root / f"artifacts/runs/hero/{number}").glob("*/run.jsonl"))
        return runlog.parse(path.read_bytes())

    def json(self, path: str) -> Any:
        return json.loads((self.root / path).read_bytes())

    def lines(self, number: str) -> transcript.Transcript:
        return transcript.parse((self.root / f"artifacts/hero/{number}/transcript.jsonl").read_bytes())


def params() -> dict[str, Any]:
    segments = {
        "1": {"parent": None, "last_step": CUT, "reason": "launch", "changes": {}},
        "2": {
            "parent": f"hero/1@step-{CUT}",
            "last_step": "end",
            "reason": "weight decay on the router",
            "changes": {"training": {"weight_decay": "0.1", "decayed": ["router", "head_gate"]}},
        },
    }
    training = {**pocket.GRUG["training"], "keep_every_steps": 10, "scratch_every_steps": 4}
    family = {**pocket.GRUG["family"], "tokens_per_active_parameter": "0.25"}
    hero = {"hidden": 32, "layers": 2, "kv_heads": [2, 1], "batch_sequences": 8}
    return {**pocket.GRUG, "segments": segments, "training": training, "family": family, "hero": hero}


@pytest.fixture(scope="module")
def sea(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sea]:
    root, before = tmp_path_factory.mktemp("sea"), Path.cwd()
    os.chdir(root)
    try:
        pocket.lay_data(root, params())
        yield Sea(root=root)
    finally:
        os.chdir(before)


@pytest.fixture(scope="module")
def refused_unsealed(sea: Sea) -> tuple[int, str, RunLog]:
    """What came of starting without a sealed forecast."""
    status, told = sea.run("1")
    return status, told, sea.last_log("1")


@pytest.fixture(scope="module")
def launched(sea: Sea, refused_unsealed: tuple[int, str, RunLog]) -> Sea:
    """The first segment, trained under a sealed forecast and not yet recorded."""
    assert refused_unsealed
    data = next((ROOT / "tests/golden/forecasts").glob("*.json")).read_bytes()
    (sea.root / "artifacts/forecast").mkdir()
    (sea.root / "artifacts/forecast/forecast.json").write_bytes(data)
    put("forecasts", data)
    status, told = sea.run("1")
    assert status == 0, told
    return sea


@pytest.fixture(scope="module")
def refused_unrecorded(launched: Sea) -> tuple[int, str]:
    """What came of going on from a parent that nobody recorded."""
    return launched.run("2")


@pytest.fixture(scope="module")
def arrived(launched: Sea, refused_unrecorded: tuple[int, str]) -> Sea:
    """Both segments, the second one killed on its way."""
    assert refused_unrecorded
    record("20261130t100000z-00000001", "2026-11-30T10:00:00.000000Z")
    process = launched.begin("2")
    _wait_for(launched, CUT + 6)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    status, told = launched.run("2")
    assert status == 0, told
    return launched


def test_no_forecast_no_launch(refused_unsealed: tuple[int, str, RunLog]) -> None:
    status, told, log = refused_unsealed
    assert status == 2
    assert "forecast" in told
    assert log.finished is not None
    assert log.finished.cause is not None
    assert "forecast" in str(log.finished.cause["message"])


def test_a_trained_segment_is_not_begun_anew(launched: Sea) -> None:
    before = tree(launched.root / "artifacts/hero/1")
    status, told = launched.run("1")
    assert (status, "trained segment already" in told) == (2, True)
    assert tree(launched.root / "artifacts/hero/1") == before


def test_an_unrecorded_parent_is_refused(refused_unrecorded: tuple[int, str]) -> None:
    status, told = refused_unrecorded
    assert (status, "No complete execution of hero/1" in told) == (2, True)


def test_the_two_segments_are_one_run(arrived: Sea) -> None:
    first, second = arrived.lines("1"), arrived.lines("2")
    run = transcript.merge([first, second])
    steps = arrived.json("artifacts/hero/2/summary.json")["rung"]["steps"]
    assert (run.first, run.last, first.last) == (1, steps, CUT)
    orders = [arrived.json(f"artifacts/hero/{number}/order.json") for number in "12"]
    chains = [one.pop("chain") for one in orders]
    assert orders[0] == orders[1], "one order over both segments"
    assert chains[1] == {"after_step": CUT, "previous": first.lines[-1].order}
    state = tensorfile.read_arrays(arrived.root / f"artifacts/hero/2/checkpoints/step-{steps}/state.safetensors")
    assert int(state["step"]) == steps


def test_the_schedule_goes_on_over_the_cut(arrived: Sea) -> None:
    rates: dict[int, float] = {}
    for number in "12":
        table = pq.read_table(arrived.root / f"artifacts/hero/{number}/history.parquet").to_pylist()
        rates |= {row["step"]: row["value"] for row in table if row["metric"] == "optimizer/learning_rate"}
    steps = sorted(rates)
    assert steps == list(range(1, len(steps) + 1))
    falling = [rates[step] for step in steps[3:]]
    slopes = [before - after for before, after in itertools.pairwise(falling)]
    assert max(slopes) < 1.01 * min(slopes), "one straight line, without a second warm-up"


def test_the_parent_and_the_interruption_are_told(arrived: Sea) -> None:
    log = arrived.last_log("2")
    root = tensorfile.root(arrived.root / f"artifacts/hero/1/checkpoints/step-{CUT}/state.safetensors")
    assert log.started.parent == {"name": "hero/1", "step": CUT, "root": str(root)}
    assert log.started.resumed is not None
    assert int(str(log.started.resumed["step"])) >= CUT
    assert "restart" in [one.incident for one in log.of(runlog.Incident)]
    assert arrived.json("artifacts/hero/2/summary.json")["reason"] == "weight decay on the router"


def test_a_segment_that_nobody_killed_ends_the_same(arrived: Sea) -> None:
    before = tree(arrived.root / "artifacts/hero/2")
    shutil.rmtree(arrived.root / "artifacts/hero/2")
    status, told = arrived.run("2")
    assert status == 0, told
    assert tree(arrived.root / "artifacts/hero/2") == before


@pytest.mark.parametrize("number", ["1", "2"])
def test_an_altered_parent_starts_nothing(arrived: Sea, number: str) -> None:
    harmed = arrived.root / f"artifacts/hero/1/checkpoints/step-{CUT}/state.safetensors"
    data, before = harmed.read_bytes(), tree(arrived.root / "artifacts/hero/2")
    try:
        if number == "1":
            harmed.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        else:
            harmed.unlink()
        status, told = arrived.run("2")
        assert status in (1, 2), told
        log = arrived.last_log("2")
        assert log.started.parent is None
        assert log.finished is not None
        assert log.finished.cause is not None
        assert tree(arrived.root / "artifacts/hero/2") == before
    finally:
        harmed.write_bytes(data)


def test_a_segment_whose_parent_was_taken_from_the_settings_is_refused(arrived: Sea) -> None:
    settings = params()
    settings["segments"]["2"]["parent"] = None
    kept = (arrived.root / "params.yaml").read_bytes()
    try:
        (arrived.root / "params.yaml").write_text(yaml.safe_dump(settings))
        status, told = arrived.run("2")
        assert (status, "has no parent" in told) == (2, True)
    finally:
        (arrived.root / "params.yaml").write_bytes(kept)


def _wait_for(sea: Sea, step: int) -> None:
    """Wait until the second segment's transcript comes to ``step``."""
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        for path in sea.root.glob("artifacts/scratch/hero/2/*/*/transcript.jsonl"):
            if f'"step":{step}}}'.encode() in path.read_bytes():
                return
        time.sleep(0.02)
    raise AssertionError(f"The second segment never came to step {step}.")
