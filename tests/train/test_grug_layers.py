"""What the layers of the ladder's family compute, against plain numpy and against what they may see."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any

import equinox as eqx
import haliax as hax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from levanter.optim.muonh import scale_with_muonh
from support import attention_reference, pocket

from registry.core.family import Family
from registry.core.ladder import Shape, derive
from train.grug.config import GrugConfig
from train.grug.family import Grug, grug
from train.grug.layers import Attention, Convolution
from train.grug.mixture import Experts, dispatched
from train.grug.model import GrugLMHeadModel
from train.grug.optimizer import LadderConfig, orthogonal
from train.grug.routing import balancing_bias, upper_quantile, within_capacity

pytestmark = pytest.mark.slow

CONSTANTS = Family.from_settings(pocket.GRUG["family"])
POSITIONS = pocket.POSITIONS


def member(layers: int = 2, **changes: Any) -> Grug:
    constants = replace(CONSTANTS, **changes)
    shape = Shape(hidden=32, layers=layers, kv_heads=(2, 1), batch_sequences=16)
    return grug(constants, derive(constants, shape), pocket.GRUG["model"], end=1)


def noisy(family: Grug, seed: int = 3) -> GrugLMHeadModel:
    """A model in which gates and convolutions do something too."""
    model = built(family, seed)
    leaves, structure = jax.tree.flatten(model)
    noise = np.random.default_rng(seed)
    moved = [leaf + 0.1 * noise.normal(size=leaf.shape).astype(np.float32) for leaf in leaves]
    return jax.tree.unflatten(structure, moved)


@cache
def built(family: Grug, seed: int = 0) -> GrugLMHeadModel:
    return eqx.filter_jit(family.build)(jax.random.PRNGKey(seed))


@eqx.filter_jit
def logits(family: Grug, model: GrugLMHeadModel, rows: jax.Array) -> jax.Array:
    tokens = hax.named(rows, (hax.Axis("batch", len(rows)), family.Pos))
    begins = (hax.roll(tokens, 1, family.Pos) == family.end).at[family.Pos, 0].set(False)
    found, _ = model.routed(tokens, hax.cumsum(begins.astype(jnp.int32), family.Pos))
    return found.array @ model.get_lm_head().array


def rows(count: int = 1, seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).integers(3, pocket.VOCABULARY, (count, POSITIONS)).astype(np.int32)


def touched(family: Grug, model: GrugLMHeadModel, tokens: np.ndarray, at: int) -> np.ndarray:
    """Positions whose logits another token at ``at`` changes."""
    other = tokens.copy()
    other[0, at] = 3 + (other[0, at] - 2) % (pocket.VOCABULARY - 3)
    before, after = (np.asarray(logits(family, model, jnp.asarray(one))) for one in (tokens, other))
    return np.flatnonzero(np.abs(before - after).max(axis=(0, 2)) > 1e-5)


def test_no_position_sees_a_later_one() -> None:
    family = member()
    found = touched(family, noisy(family), rows(), 6)
    assert found.min() == 6
    assert found.max() == POSITIONS - 1


def test_a_local_layer_sees_its_window_and_nothing_older() -> None:
    family = member(layers=1, last_layer_global=False, sliding_window=4)
    assert touched(family, built(family), rows(), 6).tolist() == [6, 7, 8, 9]


def test_no_document_sees_the_one_before() -> None:
    family, tokens = member(), rows()
    tokens[0, 8] = family.end
    assert touched(family, noisy(family), tokens, 6).tolist() == [6, 7, 8]


@pytest.mark.parametrize("everywhere", [False, True])
def test_attention_is_what_plain_numpy_computes(everywhere: bool) -> None:
    config = replace(member().config, convolution_sites=())
    layer = Attention.init(config, key=jax.random.PRNGKey(0))
    layer = eqx.tree_at(
        lambda one: one.head_gate, layer, hax.random.normal(jax.random.PRNGKey(1), layer.head_gate.axes)
    )
    values = np.random.default_rng(2).normal(size=(POSITIONS, config.hidden)).astype(np.float32)
    distance = np.arange(POSITIONS)[:, None] - np.arange(POSITIONS)
    mask = (distance >= 0) & (everywhere | (distance < config.sliding_window))
    segments = jnp.zeros((1, POSITIONS), jnp.int32)
    found = layer(jnp.asarray(values[None]), jnp.asarray(mask[None]), segments, jnp.asarray(everywhere))
    names = ("query", "key", "value", "output", "head_gate")
    weights = {name: np.asarray(getattr(layer, name).array, np.float64) for name in names}
    if everywhere:
        weights |= {name: weights[name][:, : config.head_dim] for name in ("key", "value")}
    wanted = attention_reference.attention(
        weights,
        values.astype(np.float64),
        head_dim=config.head_dim,
        kv_heads=config.kv_heads[everywhere],
        window=None if everywhere else config.sliding_window,
    )
    np.testing.assert_allclose(found[0], wanted, atol=2e-5)


def test_the_gates_of_heads_are_one_at_first() -> None:
    config = member().config
    layer = Attention.init(config, key=jax.random.PRNGKey(0))
    assert not layer.head_gate.array.any()
    halved = eqx.tree_at(lambda one: one.output, layer, layer.output * 0.5)
    shut = eqx.tree_at(lambda one: one.head_gate, layer, layer.head_gate - 100.0)
    values = jnp.abs(jax.random.normal(jax.random.PRNGKey(1), (1, POSITIONS, config.hidden)))
    mask = jnp.tril(jnp.ones((1, POSITIONS, POSITIONS), bool))
    one, half, none = (
        layer(values, mask, jnp.zeros((1, POSITIONS), jnp.int32), jnp.asarray(True)) for layer in (layer, halved, shut)
    )
    np.testing.assert_allclose(one / 2, half, rtol=1e-6)
    assert float(jnp.abs(none).max()) < 1e-6 < float(jnp.abs(one).max())


def test_a_convolution_starts_as_none_and_stays_in_its_document() -> None:
    config = member().config
    axis = hax.Axis("features", 3)
    fresh = Convolution.init(axis, config)
    values = np.random.default_rng(0).normal(size=(1, POSITIONS, 3)).astype(np.float32)
    segments = (np.arange(POSITIONS) >= 5).astype(np.int32)[None]
    np.testing.assert_array_equal(fresh(jnp.asarray(values), jnp.asarray(segments)), values)
    taps = np.random.default_rng(1).normal(size=(config.convolution_kernel, 3)).astype(np.float32)
    used = eqx.tree_at(lambda one: one.taps, fresh, hax.named(jnp.asarray(taps), fresh.taps.axes))
    wanted = np.zeros_like(values)
    for at in range(POSITIONS):
        for lag in range(config.convolution_kernel):
            if at - lag >= 0 and segments[0, at] == segments[0, at - lag]:
                wanted[0, at] += taps[lag] * values[0, at - lag]
    np.testing.assert_allclose(used(jnp.asarray(values), jnp.asarray(segments)), wanted, atol=1e-6)


@pytest.mark.parametrize("count", [1.0, 7.5, 40.0])
def test_the_quantile_is_the_value_that_so_many_exceed(count: float) -> None:
    margins = np.random.default_rng(0).normal(size=(97, 5)).astype(np.float32)
    found = np.asarray(upper_quantile(jnp.asarray(margins), count))
    wanted = -np.sort(-margins, axis=0)[math.floor(count)]
    assert ((margins > found).sum(0) <= count).all()
    np.testing.assert_allclose(found, wanted, atol=2e-6)


def test_the_bias_balances_the_tokens_that_it_was_made_from() -> None:
    """At a fixed threshold of each token, exactly; its mean of zero moves all experts alike."""
    values = np.random.default_rng(0).normal(size=(512, 8)) + np.linspace(-2, 2, 8)
    scores = jnp.asarray(values, jnp.float32)
    best, _ = jax.lax.top_k(scores, 3)
    bias = np.asarray(balancing_bias(scores, best[:, -1:], 2))
    assert abs(bias.mean()) < 1e-6
    before, after = (
        np.bincount(np.argsort(-one, axis=1)[:, :2].ravel(), minlength=8) for one in (values, values + bias)
    )
    assert after.max() < 0.6 * before.max()


def _kept(selected: np.ndarray, experts: int, factor: float, shards: int) -> np.ndarray:
    """Assignments that stay, one after the other: expert by expert of a shard, token by token, while there is room."""
    members = experts // shards
    capacity = max(members, math.ceil(factor * selected.size / shards))
    kept = np.zeros(selected.size, bool)
    flat = selected.ravel()
    for shard in range(shards):
        room = capacity
        for expert in range(shard * members, (shard + 1) * members):
            for at in np.flatnonzero(flat == expert)[:room]:
                kept[at] = True
            room -= int(kept[flat == expert].sum())
    return kept.reshape(selected.shape)


@pytest.mark.parametrize("shards", [2, 4, 8])
def test_what_exceeds_a_capacity_is_dropped_as_plain_counting_says(shards: int) -> None:
    crowd = np.random.default_rng(1).zipf(1.5, (64, 2)) % 8
    selected = crowd.astype(np.int32)
    found = within_capacity(jnp.asarray(selected), 8, 1.15, shards)
    wanted = _kept(selected, 8, 1.15, shards)
    assert wanted.sum() < selected.size
    np.testing.assert_array_equal(found, wanted)


def test_a_dropped_assignment_adds_nothing_and_is_counted() -> None:
    noise = np.random.default_rng(0)
    expert, width = hax.Axis("expert", 4), hax.Axis("latent", 16)
    experts = Experts(
        gate_up=hax.named(noise.normal(size=(4, 16, 48)).astype(np.float32), (expert, width, hax.Axis("mlp", 48))),
        down=hax.named(noise.normal(size=(4, 24, 16)).astype(np.float32), (expert, hax.Axis("mlp", 24), width)),
    )
    values = jnp.asarray(noise.normal(size=(64, 16)), jnp.float32)
    selected = np.random.default_rng(1).integers(0, 4, (64, 2)) // 2 * 2
    selected = np.stack([selected[:, 0], selected[:, 0] + 1], axis=1).astype(np.int32) % 4
    weights = np.random.default_rng(2).uniform(size=(64, 2)).astype(np.float32)
    kept = _kept(selected, 4, 0.5, 4)
    output, dropped = dispatched(experts, values, jnp.asarray(selected), jnp.asarray(weights), 0.5)
    gate_up, down = np.asarray(experts.gate_up.array), np.asarray(experts.down.array)
    wanted = np.zeros((64, 16))
    for token, choice in zip(*np.nonzero(kept), strict=True):
        gate, up = np.split(np.asarray(values[token]) @ gate_up[selected[token, choice]], 2)
        hidden = gate / (1 + np.exp(-gate)) * up
        wanted[token] += weights[token, choice] * (hidden @ down[selected[token, choice]])
    assert int(dropped) == (~kept).sum() > 0
    np.testing.assert_allclose(output, wanted, rtol=1e-4, atol=1e-3)


def test_gradients_are_those_of_finite_differences() -> None:
    """Along the gradient of each group of leaves; routing is held by a capacity that drops nothing."""
    settings = {**pocket.GRUG["model"], "capacity_factor": "8"}
    family = member()
    family = replace(family, config=replace(family.config, capacity_factor=float(settings["capacity_factor"])))
    model = noisy(family)
    tokens = hax.named(jnp.asarray(rows(2)), (hax.Axis("batch", 2), family.Pos))
    value = eqx.filter_jit(lambda one: family.loss(one, tokens)[0])
    gradient = eqx.filter_jit(eqx.filter_grad(lambda one: family.loss(one, tokens)[0]))(model)
    leaves, structure = jax.tree.flatten(model)
    ways = jax.tree.leaves(gradient)
    names = [str(path) for path, _ in jax.tree_util.tree_leaves_with_path(model)]
    for number, (name, way) in enumerate(zip(names, ways, strict=True)):
        norm = float(jnp.linalg.norm(way))
        if "router_state" in name or "router" in name or norm < 1e-3:
            continue
        shift = 2e-3 / norm * way
        sides = [
            float(
                value(
                    jax.tree.unflatten(
                        structure, [*leaves[:number], leaves[number] + sign * shift, *leaves[number + 1 :]]
                    )
                )
            )
            for sign in (1, -1)
        ]
        assert (sides[0] - sides[1]) / 4e-3 == pytest.approx(norm, rel=0.05, abs=2e-3), name


def test_muonh_is_levanters_on_a_matrix_and_on_every_matrix_of_a_stack() -> None:
    key = jax.random.split(jax.random.PRNGKey(0), 2)
    matrix, way = (jax.random.normal(one, (1, 2, 8, 12)) for one in key)
    mine = orthogonal(LadderConfig(max_grad_norm=None), 0.02)
    found, _ = jax.jit(mine.update)(way, mine.init(matrix), matrix)
    theirs = scale_with_muonh(learning_rate=0.02)
    axes = (hax.Axis("in", 8), hax.Axis("out", 12))
    for at in np.ndindex(1, 2):
        layer, gradient = (
            hax.nn.Linear(hax.named(one[at], axes), None, In=axes[0], Out=axes[1]) for one in (matrix, way)
        )
        wanted, _ = jax.jit(theirs.update)(gradient, theirs.init(layer), layer)
        np.testing.assert_allclose(found[at], wanted.weight.array, atol=2e-6)
        moved = matrix[at] + found[at]
        assert float(jnp.linalg.norm(moved)) == pytest.approx(float(jnp.linalg.norm(matrix[at])), rel=1e-5)


def test_layers_hold_the_larger_number_of_key_value_heads() -> None:
    config: GrugConfig = member().config
    assert (config.stored_kv_heads, config.kv_heads) == (2, (2, 1))
