"""The ladder's family on one to eight virtual devices, in a process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

# Sums over devices have another order; values are of the order of one.
BOUND = 5e-5


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    """What the script says of each number of devices."""
    here = Path(__file__).resolve().parents[1]
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "NPROC": "2",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8 --xla_backend_optimization_level=1",
        "PYTHONPATH": os.pathsep.join((str(here.parent), str(here))),
    }
    done = subprocess.run(
        [sys.executable, str(here / "support/grug_devices.py")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("devices", ["2", "4", "8"])
def test_many_devices_agree_with_one_within_a_bound(told: dict[str, Any], devices: str) -> None:
    alone, spread = told["1"], told[devices]
    assert spread["loss"] == pytest.approx(alone["loss"], abs=BOUND)
    assert spread["pending"] == pytest.approx(alone["pending"], abs=BOUND)
    assert spread["gradient"] == pytest.approx(alone["gradient"], rel=1e-3)
    assert spread["dropped"] == alone["dropped"] == 0


def test_every_device_holds_its_part_of_the_dense_matrices_and_of_the_experts(told: dict[str, Any]) -> None:
    assert {devices: told[devices]["parts"]["head"] for devices in "1248"} == {"1": 1, "2": 2, "4": 4, "8": 8}
    assert {devices: told[devices]["parts"]["experts"] for devices in "1248"} == {"1": 1, "2": 2, "4": 4, "8": 8}


def test_experts_that_lie_apart_are_moved_where_they_lie(told: dict[str, Any]) -> None:
    """The optimizer gives what it gives on one device, and no device ever holds another's experts."""
    found = told["orthogonalised"]
    assert not found["gathers"]
    assert found["distance"] < BOUND


@pytest.mark.parametrize("shards", ["2", "4", "8"])
def test_a_shard_drops_what_plain_counting_says(told: dict[str, Any], shards: str) -> None:
    """Levanter's expert-parallel experts against our own counting, in number and in what comes out."""
    found = told["crowded"][shards]
    assert found["dropped"] == found["counted"] > 0
    assert found["distance"] < BOUND
