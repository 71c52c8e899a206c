"""Programs of real functions: a refactoring keeps the fingerprint, other rounding does not; what is lowered trains."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
import yaml
from support import pocket

from registry.core.programdiff import compare
from registry.core.writing import canonical_text, fingerprint, read_program

ROOT = Path(__file__).resolve().parents[2]
SHAPES = (jax.ShapeDtypeStruct((4, 8), jnp.float32), jax.ShapeDtypeStruct((8,), jnp.float32))


def mlir(step: Callable[..., Any]) -> str:
    module = jax.jit(step).trace(*SHAPES).lower(lowering_platforms=("cuda",)).compiler_ir("stablehlo")
    return module.operation.get_asm(enable_debug_info=True, print_generic_op_form=True)


def digest(step: Callable[..., Any]) -> str:
    return str(fingerprint(canonical_text(read_program(mlir(step)))))


def norm(values: Any, epsilon: float = 1e-5) -> Any:
    return values / jnp.sqrt(jnp.mean(values * values, axis=-1, keepdims=True) + epsilon)


def step(values: Any, weight: Any) -> Any:
    def body(carried: Any, row: Any) -> tuple[Any, Any]:
        return carried + row, jnp.sum(carried * row)

    return jax.lax.scan(body, weight, norm(values) * weight)


def renamed_and_jitted(rows: Any, gain: Any) -> Any:
    @jax.jit
    def normalised(x: Any) -> Any:
        square = x * x
        return x / jnp.sqrt(jnp.mean(square, axis=-1, keepdims=True) + 1e-5)

    def accumulate(total: Any, one: Any) -> tuple[Any, Any]:
        product = total * one
        return total + one, jnp.sum(product)

    scaled = normalised(rows) * gain
    return jax.lax.scan(accumulate, gain, scaled)


def another_epsilon(values: Any, weight: Any) -> Any:
    def body(carried: Any, row: Any) -> tuple[Any, Any]:
        return carried + row, jnp.sum(carried * row)

    return jax.lax.scan(body, weight, norm(values, 1e-6) * weight)


def another_order(values: Any, weight: Any) -> Any:
    def body(carried: Any, row: Any) -> tuple[Any, Any]:
        return row + carried, jnp.sum(carried * row)

    return jax.lax.scan(body, weight, norm(values) * weight)


def test_a_refactoring_is_the_same_program() -> None:
    assert digest(step) == digest(renamed_and_jitted)


def test_another_epsilon_is_another_program_and_is_named() -> None:
    diff = compare(read_program(mlir(step)), read_program(mlir(another_epsilon)))
    assert [line.operation.split(" ")[0] for line in diff.removed] == ["stablehlo.constant"]
    assert "9.99999974E-6" in diff.removed[0].operation
    assert "9.99999997E-7" in diff.added[0].operation


def test_another_order_of_a_sum_is_another_program_and_is_named() -> None:
    assert digest(step) != digest(another_order)
    diff = compare(read_program(mlir(step)), read_program(mlir(another_order)))
    assert diff.reordered
    assert [line.operation.split(" ")[0] for line in diff.removed] == ["stablehlo.add"]


LOWER_CONCRETELY = """
import sys
from train.determinism import Determinism
from train.plan import rung_plan
plan = rung_plan("d16")
Determinism.from_settings(plan.sections["determinism"]).apply()
import jax
from train.engine import Engine
from registry.core.writing import canonical_text, fingerprint, read_program
engine = Engine(plan)
with engine.mesh():
    state, batch = engine.fresh(), next(engine.batches(0))
    module = jax.jit(engine.step, donate_argnums=0).trace(state, batch.tokens).lower().compiler_ir("stablehlo")
    print(fingerprint(canonical_text(read_program(module.operation.get_asm(print_generic_op_form=True)))))
"""


@pytest.mark.slow
def test_what_is_lowered_from_shapes_is_what_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state that a stage begins with and its first batch, traced as they are, give the same program."""
    monkeypatch.chdir(tmp_path)
    pocket.lay_data(tmp_path, pocket.PARAMS)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    arguments = ["-m", "train.program", "d16", "--output", "program.mlir"]
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["state_bytes"] > 0
    lowered = fingerprint(canonical_text(read_program((tmp_path / "program.mlir").read_text())))
    done = subprocess.run(
        [sys.executable, "-c", LOWER_CONCRETELY], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(lowered)


def lowering(folder: Path, command: list[str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_published_rung_is_lowered_the_same_on_one_core(tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(pocket.PARAMS))
    found = []
    for number, prefix in enumerate(([], ["taskset", "-c", "0"])):
        output = tmp_path / f"{number}.mlir"
        command = [*prefix, sys.executable, "-m", "train.program", "d768", "--devices", "64", "--output", str(output)]
        done = lowering(tmp_path, command)
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert told["mesh"] == {"replica_dcn": 1, "data": 1, "expert": 64, "model": 1}
        # Counted from axes alone, and from the shardings that JAX makes of them.
        assert told["device_bytes"]["parameters"] + told["device_bytes"]["optimizer"] == told["state_bytes_per_device"]
        found.append(fingerprint(canonical_text(read_program(output.read_text()))))
    assert found[0] == found[1]


@pytest.mark.slow
def test_the_hero_on_its_published_devices_is_refused_where_a_device_cannot_hold_it(tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(pocket.PARAMS))
    arguments = ["-m", "train.program", "d6144", "--device-memory", "100", "--output", str(tmp_path / "none.mlir")]
    done = lowering(tmp_path, [sys.executable, *arguments])
    assert done.returncode == 2, done.stderr
    assert "A device would hold 117.3 GB" in done.stderr.splitlines()[-1]
    assert not (tmp_path / "none.mlir").exists()
