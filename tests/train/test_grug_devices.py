"""The ladder's family on one to eight virtual devices, in processes of their own."""

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


def told(root: Path, devices: int) -> dict[str, Any]:
    """What the script below says on so many devices."""
    here = Path(__file__).resolve().parents[1]
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "NPROC": "2",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices} --xla_backend_optimization_level=1",
        "PYTHONPATH": os.pathsep.join((str(root), str(here))),
    }
    script = here / "support/grug_devices.py"
    done = subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_one_to_eight_devices_agree_within_a_bound(root: Path) -> None:
    alone = told(root, 1)
    assert alone["dropped"] > 0
    for devices in (2, 4, 8):
        found = told(root, devices)
        for name in ("data", "expert"):
            spread = found[name]
            assert spread["loss"] == pytest.approx(alone["data"]["loss"], abs=BOUND), (devices, name)
            assert spread["pending"] == pytest.approx(alone["data"]["pending"], abs=BOUND), (devices, name)
            assert spread["gradient"] == pytest.approx(alone["data"]["gradient"], rel=1e-3), (devices, name)
        # Levanter's expert-parallel experts drop what plain counting says, of as many shards as devices.
        assert found["crowded"]["dropped"] == found["crowded"]["counted"] > 0
        assert found["crowded"]["distance"] < BOUND
