"""The ladder's family in training on real text: balance by the bias, its place in the state, and what forgets it."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from levanter.trainer_state import TrainerState
from support import pocket

from train import fingerprint, tensorfile
from train.checkpoint import host_leaves, save_state
from train.engine import Batch, Engine
from train.grug.family import BIAS_NOTE
from train.plan import rung_plan
from train.step import GROUPS, Stepped

pytestmark = pytest.mark.slow

STEPS, KEPT = 24, 3


@dataclass(frozen=True)
class Course:
    """A rung of 24 steps: what each told, and the states before all, after three (a checkpoint too) and after all."""

    engine: Engine
    batches: list[Batch]
    told: list[Stepped]
    kept: Path
    first: TrainerState
    third: TrainerState
    last: TrainerState
    leaves: dict[str, np.ndarray]

    def facts(self, step: int) -> dict[str, float]:
        return {name: float(value) for name, value in self.told[step].facts.items()}


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Course]:
    root, before = tmp_path_factory.mktemp("course"), Path.cwd()
    os.chdir(root)
    try:
        params = copy.deepcopy(pocket.GRUG)
        params["family"]["tokens_per_active_parameter"] = "1"
        params["rungs"] = {"d32": {"hidden": 32, "layers": 2, "kv_heads": [2, 1], "batch_sequences": 16}}
        pocket.lay_data(root, params)
        engine = Engine(rung_plan("d32"), tokens=root / "artifacts/tokens")
    finally:
        os.chdir(before)
    with engine.mesh():
        batches, told, first = [], [], engine.fresh()
        state = third = copied(first)
        for step, batch in zip(range(1, STEPS + 1), engine.batches(0), strict=False):
            state, stepped = engine.step(state, batch.tokens)
            batches.append(batch)
            told.append(jax.device_get(stepped))
            if step == KEPT:
                save_state(state, root / "kept")
                third = copied(state)
        yield Course(engine, batches, told, root / "kept", first, third, state, dict(host_leaves(state)))


def copied(state: TrainerState) -> TrainerState:
    """The same state in arrays of its own; a step takes those that it is given."""
    return jax.tree.map(jnp.copy, state)


def with_bias(state: TrainerState, change: Any) -> TrainerState:
    """The state with ``change`` done to its routers' state."""
    where = lambda model: model.layers.stacked.moe.router_state  # noqa: E731
    return replace(state, model=eqx.tree_at(where, state.model, change(where(state.model))))


def test_the_loss_falls_and_the_facts_are_told(course: Course) -> None:
    assert float(course.told[-1].loss) < float(course.told[0].loss) - 0.2
    facts = course.facts(-1)
    groups = {name.removeprefix("parameter_norm/") for name in facts if name.startswith("parameter_norm/")}
    assert groups == {group for group, _ in GROUPS} | {"norms"}
    for layer in range(2):
        assert 1 <= facts[f"router/layer{layer}/load_max"] <= 4 / 2
        assert facts[f"router/layer{layer}/load_mean"] == pytest.approx(1)
        assert 0 < facts[f"router/layer{layer}/entropy"] <= np.log(4) + 1e-6
    assert facts["loss/cross_entropy"] + 1e-4 * facts["loss/logit_z"] == pytest.approx(float(course.told[-1].loss))
    assert facts["router_bias_norm/all"] > 0
    assert course.engine.family.notes == {"router_bias_norm": BIAS_NOTE}


def test_no_norm_of_parameters_or_gradients_has_the_bias_in_it(course: Course) -> None:
    """The new bias travels as a gradient; a step without any other gradient would still have one of zero."""
    first, last = course.facts(0), course.facts(-1)
    assert first["router_bias_norm/all"] == 0 < last["router_bias_norm/all"]
    router = np.linalg.norm(course.leaves["model/layers/stacked/moe/router"].astype(np.float64))
    assert last["parameter_norm/router"] == pytest.approx(router, rel=1e-5)


def test_the_bias_is_in_checkpoint_and_fingerprint_and_not_in_the_optimizer(course: Course) -> None:
    arrays = tensorfile.read_arrays(course.kept / "state.safetensors")
    assert {name for name in arrays if "router_state" in name} == {
        "model/layers/stacked/moe/router_state/bias",
        "model/layers/stacked/moe/router_state/pending",
    }
    name = "model/layers/stacked/moe/router_state/pending"
    assert np.abs(arrays[name]).max() > 0
    before = fingerprint.text(fingerprint.of_arrays(arrays))
    assert before == fingerprint.text(course.told[KEPT - 1].lanes)
    arrays[name] = np.nextafter(arrays[name], np.float32(1))
    assert fingerprint.text(fingerprint.of_arrays(arrays)) != before


def test_a_resume_that_forgets_the_pending_bias_is_another_run(course: Course) -> None:
    state = with_bias(copied(course.third), lambda one: replace_pending(one, one.bias))
    _, stepped = course.engine.step(state, course.batches[KEPT].tokens)
    assert fingerprint.text(stepped.lanes) != fingerprint.text(course.told[KEPT].lanes)


def replace_pending(state: Any, value: Any) -> Any:
    return eqx.tree_at(lambda one: one.pending, state, value)


def test_the_bias_balances_experts_on_real_text(course: Course) -> None:
    """The same steps, once as they are and once with the bias thrown away before each."""
    state, crowds = copied(course.first), []
    for batch in course.batches:
        state = with_bias(state, lambda one: jax.tree.map(jnp.zeros_like, one))
        state, stepped = course.engine.step(state, batch.tokens)
        crowds.append(jax.device_get(stepped.facts))
    late = range(STEPS // 2, STEPS)
    loads = [f"router/layer{layer}/load_max" for layer in range(2)]
    ours = np.mean([course.facts(step)[name] for step in late for name in loads])
    bare = np.mean([float(crowds[step][name]) for step in late for name in loads])
    assert ours < bare - 0.05
    dropped = "router/dropped_assignments"
    assert sum(course.facts(step)[dropped] for step in late) < sum(float(crowds[step][dropped]) for step in late)


def test_evaluation_applies_the_pending_bias_and_without_it_is_another_model(course: Course) -> None:
    engine, tokens = course.engine, course.batches[-1].tokens
    routed = eqx.filter_jit(lambda model: engine.family.loss(model, tokens))
    settled = replace(course.last, model=course.last.model.settled())
    stale = with_bias(course.last, lambda one: replace_pending(one, one.bias))
    losses = {
        name: routed(state.model) for name, state in (("pending", course.last), ("settled", settled), ("stale", stale))
    }
    assert float(losses["pending"][0]) == float(losses["settled"][0]) != float(losses["stale"][0])
    forgotten = with_bias(course.third, lambda one: jax.tree.map(jnp.zeros_like, one))
    crowd = {
        name: float(routed(one.model)[1]["router/dropped_assignments"])
        for name, one in (("with", course.third), ("without", forgotten))
    }
    assert crowd["with"] < crowd["without"]
