"""The compiled step of training: loss, gradients, update, facts and fingerprint in one program.

Levanter's ``Trainer`` gives mesh, precision and state; the step is ours, because the transcript needs the gradient norm
and the fingerprint, and the router's facts must leave the program as values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import haliax as hax
import jax
import jax.numpy as jnp
from haliax.util import is_named_array
from jax import lax
from levanter.trainer import Trainer
from levanter.trainer_state import TrainerState
from levanter.utils.jax_utils import leaf_key_paths

from train.checkpoint import named_leaves
from train.family import Facts, Family
from train.fingerprint import fingerprint

GROUPS = (
    ("convolutions", "taps"),
    ("latent", "latent"),
    ("embedding", "embeddings"),
    ("head", "lm_head"),
    ("attention", "self_attn"),
    ("experts", "experts"),
    ("shared", "shared_mlp"),
    ("router", "router"),
    ("router", "gate"),
)
# What a model carries along but does not train: neither it nor its new value, which travels as its gradient, has a norm
# among the parameters'.
STATE = "router_state"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepped:
    """What a step gives beside the new state: 32-bit loss and gradient norm, two fingerprint lanes, facts by metric."""

    loss: jax.Array
    gradient_norm: jax.Array
    lanes: jax.Array
    facts: Facts


jax.tree_util.register_dataclass(Stepped, data_fields=["loss", "gradient_norm", "lanes", "facts"], meta_fields=[])

Step = Callable[[TrainerState, hax.NamedArray], tuple[TrainerState, Stepped]]


def compiled_step(trainer: Trainer, family: Family, template: TrainerState) -> Step:
    """The jitted step of states like ``template``. It takes the state (donated) and tokens of axes (batch, position).

    The program takes and gives the state's arrays alone: what else a state holds would cost more to look at, at every
    step, than a small model costs to train.
    """
    structure = jax.tree.structure(template)

    def loss_of(model: Any, tokens: hax.NamedArray) -> tuple[jax.Array, Facts]:
        with hax.axis_mapping(trainer.compute_axis_mapping):
            return family.loss(trainer.mp.cast_to_compute(model), tokens)

    def step(arrays: list[jax.Array], tokens: hax.NamedArray) -> tuple[list[jax.Array], Stepped]:
        state: TrainerState = jax.tree.unflatten(structure, arrays)
        _, following = jax.random.split(state.training_key)  # Levanter's first one is for dropout: there is none here
        (loss, facts), gradients = eqx.filter_value_and_grad(loss_of, has_aux=True)(state.model, tokens)
        new, _ = state.take_step(gradients, loss=loss, key=following)
        new = hax.shard(new, trainer.parameter_axis_mapping)
        return jax.tree.leaves(new), _told(loss, facts, gradients, new)

    jitted = jax.jit(step, donate_argnums=0)

    def call(state: TrainerState, tokens: hax.NamedArray) -> tuple[TrainerState, Stepped]:
        arrays, stepped = jitted(jax.tree.leaves(state), tokens)
        return jax.tree.unflatten(structure, arrays), stepped

    return call


def _told(loss: jax.Array, facts: Facts, gradients: Any, new: TrainerState) -> Stepped:
    of_gradients, of_parameters = _squares(gradients, new.model)
    facts = facts | _norms("gradient_norm", of_gradients) | _norms("parameter_norm", of_parameters)
    return Stepped(
        loss=loss.astype(jnp.float32),
        gradient_norm=jnp.sqrt(_total(of_gradients.values())),
        lanes=fingerprint(named_leaves(new)),
        facts=facts | {"optimizer/learning_rate": new.opt_state.hyperparams["learning_rate"]},
    )


def group_of(name: str) -> str:
    """The group of parameters that a leaf belongs to."""
    parts = name.split(".")
    return next((group for group, part in GROUPS if part in parts), "norms")


def _squares(gradients: Any, model: Any) -> tuple[Facts, Facts]:
    """Sums of squares in float32 by leaf, of gradients and of parameters: one pass over both for each leaf."""
    of_gradients: Facts = {}
    of_parameters: Facts = {}
    parameters = dict(_named(model))
    for name, gradient in _named(gradients):
        squares = [jnp.square(array.astype(jnp.float32)) for array in (gradient, parameters[name])]
        zeros = [jnp.float32(0)] * len(squares)
        of_gradients[name], of_parameters[name] = lax.reduce(squares, zeros, _added, tuple(range(gradient.ndim)))
    return of_gradients, of_parameters


def _named(tree: Any) -> Iterator[tuple[str, jax.Array]]:
    """The trained arrays of a tree with their names."""
    names = jax.tree.leaves(leaf_key_paths(tree, is_leaf=is_named_array))
    leaves = jax.tree.leaves(tree, is_leaf=is_named_array)
    for name, leaf in zip(names, leaves, strict=True):
        array = leaf.array if is_named_array(leaf) else leaf
        if eqx.is_inexact_array(array) and STATE not in name.split("."):
            yield name, array


def _added(left: Sequence[jax.Array], right: Sequence[jax.Array]) -> list[jax.Array]:
    return [one + other for one, other in zip(left, right, strict=True)]


def _norms(prefix: str, squares: Mapping[str, jax.Array]) -> Facts:
    groups = sorted({group_of(name) for name in squares})
    members = {group: [value for name, value in squares.items() if group_of(name) == group] for group in groups}
    return {f"{prefix}/{group}": jnp.sqrt(_total(values)) for group, values in members.items()}


def _total(values: Iterable[jax.Array]) -> jax.Array:
    return sum(values, start=jnp.zeros((), jnp.float32))
