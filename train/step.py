"""The compiled step of training: loss, gradients, update, facts and fingerprint in one program.

Levanter's ``Trainer`` gives mesh, precision and state; the step is ours, because the transcript needs the gradient norm
and the fingerprint, and the router's facts must leave the program as values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import haliax as hax
import jax
import jax.numpy as jnp
from haliax.partitioning import named_jit
from haliax.util import is_named_array
from levanter.trainer import Trainer
from levanter.trainer_state import TrainerState
from levanter.utils.jax_utils import leaf_key_paths

from train.checkpoint import named_leaves
from train.fingerprint import fingerprint
from train.model import Facts, Family

GROUPS = (
    ("embedding", "embeddings"),
    ("head", "lm_head"),
    ("attention", "self_attn"),
    ("router", "gate"),
    ("experts", "experts"),
    ("shared", "shared_mlp"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepped:
    """What a step gives beside the new state: 32-bit loss and gradient norm, two fingerprint lanes, facts by metric."""

    loss: jax.Array
    gradient_norm: jax.Array
    lanes: jax.Array
    facts: Facts


jax.tree_util.register_dataclass(Stepped, data_fields=["loss", "gradient_norm", "lanes", "facts"], meta_fields=[])

Step = Callable[[TrainerState, hax.NamedArray], tuple[TrainerState, Stepped]]


def compiled_step(trainer: Trainer, family: Family) -> Step:
    """The jitted step. It takes the state (donated) and tokens of axes (batch, position)."""

    def loss_of(model: Any, tokens: hax.NamedArray) -> tuple[jax.Array, Facts]:
        with hax.axis_mapping(trainer.compute_axis_mapping):
            return family.loss(trainer.mp.cast_to_compute(model), tokens)

    def step(state: TrainerState, tokens: hax.NamedArray) -> tuple[TrainerState, Stepped]:
        key, following = jax.random.split(state.training_key)
        del key  # no dropout: the key of a step is drawn, as Levanter draws it, and not used
        (loss, facts), gradients = eqx.filter_value_and_grad(loss_of, has_aux=True)(state.model, tokens)
        new, _ = state.take_step(gradients, loss=loss, key=following)
        new = hax.shard(new, trainer.parameter_axis_mapping)
        squares = _squares(gradients)
        norms = {**_norms("gradient_norm", squares), **_norms("parameter_norm", _squares(new.model))}
        stepped = Stepped(
            loss=loss.astype(jnp.float32),
            gradient_norm=jnp.sqrt(_total(squares.values())),
            lanes=fingerprint(named_leaves(new)),
            facts={**facts, **norms, "optimizer/learning_rate": state.opt_state.hyperparams["learning_rate"]},
        )
        return new, stepped

    mapping = trainer.parameter_axis_mapping
    return named_jit(step, axis_resources=mapping, out_axis_resources=mapping, donate_args=(True, False))


def group_of(name: str) -> str:
    """The group of parameters that a leaf belongs to."""
    parts = name.split(".")
    return next((group for group, part in GROUPS if part in parts), "norms")


def _squares(tree: Any) -> dict[str, jax.Array]:
    """Sums of squares of the leaves in float32, by name."""
    names = jax.tree.leaves(leaf_key_paths(tree, is_leaf=is_named_array))
    leaves = jax.tree.leaves(tree, is_leaf=is_named_array)
    arrays = [leaf.array if is_named_array(leaf) else leaf for leaf in leaves]
    return {
        name: jnp.sum(jnp.square(array.astype(jnp.float32)))
        for name, array in zip(names, arrays, strict=True)
        if eqx.is_inexact_array(array)
    }


def _norms(prefix: str, squares: Mapping[str, jax.Array]) -> Facts:
    groups = sorted({group_of(name) for name in squares})
    members = {group: [value for name, value in squares.items() if group_of(name) == group] for group in groups}
    return {f"{prefix}/{group}": jnp.sqrt(_total(values)) for group, values in members.items()}


def _total(values: Iterable[jax.Array]) -> jax.Array:
    return sum(values, start=jnp.zeros((), jnp.float32))
