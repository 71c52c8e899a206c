"""Settings that change bits are complete, carried by the environment, and made before JAX or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
from support import pocket

from registry.errors import Refused
from train.determinism import Determinism

SETTINGS: dict[str, Any] = pocket.PARAMS["determinism"]


def test_every_setting_reaches_jax_through_the_environment() -> None:
    variables = Determinism.from_settings(SETTINGS).environment()
    assert variables["NPROC"] == "2"
    assert variables["JAX_DEFAULT_PRNG_IMPL"] == "threefry2x32"
    assert "--xla_cpu_max_isa=AVX2" in variables["XLA_FLAGS"].split()
    assert "--xla_force_host_platform_device_count=1" in variables["XLA_FLAGS"].split()
    changed: dict[str, Any] = {
        "devices": 2,
        "nproc": 3,
        "max_isa": "AVX",
        "generator": "rbg",
        "partitionable_generator": False,
        "matmul_precision": "high",
        "x64": True,
        "custom_softmax_gradient": False,
        "ragged_dot": "triton",
        "xla_flags": [],
        "platform": "cuda",
    }
    assert changed.keys() == SETTINGS.keys()
    for name, value in changed.items():
        other = Determinism.from_settings({**SETTINGS, name: value}).environment()
        assert other != variables, f"{name} changes nothing"


@pytest.mark.parametrize(
    "change",
    [
        {"nproc": 0},
        {"nproc": True},
        {"nproc": "2"},
        {"platform": "abacus"},
        {"x64": 1},
        {"max_isa": "AVX2 --xla_dump_to=x"},
        {"max_isa": ""},
        {"xla_flags": "--one"},
        {"xla_flags": ["--one --two"]},
        {"more": 1},
    ],
)
def test_settings_of_another_kind_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(Refused, match="determinism"):
        Determinism.from_settings({**SETTINGS, **change})


def test_a_missing_setting_is_refused() -> None:
    with pytest.raises(Refused, match="nproc"):
        Determinism.from_settings({name: value for name, value in SETTINGS.items() if name != "nproc"})


def test_it_is_too_late_when_jax_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", sys)
    before = dict(os.environ)
    with pytest.raises(Refused, match="JAX was imported"):
        Determinism.from_settings(SETTINGS).apply()
    assert dict(os.environ) == before


def test_what_was_set_is_told_with_the_libraries_behind_it() -> None:
    script = (
        "import json, os, sys; from train.determinism import Determinism;"
        "told = Determinism.from_settings(json.loads(sys.argv[1])).apply();"
        "print(json.dumps([told, os.environ['NPROC'], 'jax' in sys.modules]))"
    )
    import json

    done = subprocess.run(
        [sys.executable, "-c", script, json.dumps(SETTINGS)],
        env={**os.environ, "NPROC": "7", "XLA_FLAGS": "--caller"},
        check=True,
        capture_output=True,
        text=True,
    )
    told, nproc, imported = json.loads(done.stdout)
    assert nproc == "2", "the caller's value is replaced"
    assert not imported
    assert {name: told[name] for name in SETTINGS} == SETTINGS
    assert told["jax"]
    assert told["machine"]
    assert "--caller" not in told["XLA_FLAGS"]
