"""The ladder's optimizer, of Levanter's parts: MuonH for matrices, AdamH for the head, Adam for the rest.

MuonH moves each matrix along its orthogonalised momentum and keeps its norm; a stack (layers, experts) is as many
matrices as it holds. Embedding, router, gates, norms and convolutions are under Adam, where a segment may decay some.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import jax
import jax.numpy as jnp
import optax
from haliax.util import is_named_array
from jax.sharding import get_abstract_mesh
from levanter.optim import MuonHConfig
from levanter.optim.adamh import scale_by_adamh
from levanter.optim.config import OptimizerConfig
from levanter.optim.util import NEWTON_SCHULZ_COEFFICIENTS
from levanter.utils.jax_utils import leaf_key_paths

# Modules whose arrays are matrices; everything else but the head is Adam's.
MATRICES: Final = frozenset({"query", "key", "value", "output", "latent", "experts", "shared_mlp"})
_LEAST: Final = 1e-10


@OptimizerConfig.register_subclass("reckon_ladder")
@dataclass(frozen=True)
class LadderConfig(MuonHConfig):
    """Rates, momenta and schedule as in Levanter's ``MuonHConfig``.

    Adam decays leaves that have a part of their path in ``decayed``, by ``weight_decay`` times its rate.
    """

    decayed: tuple[str, ...] = ()

    def build(self, num_train_steps: int) -> optax.GradientTransformation:
        """The transformation for a run of so many steps."""
        rates = {
            "learning_rate": self.lr_scheduler(num_train_steps),
            "adam_lr": self.lr_scheduler(num_train_steps, override_lr=self.adam_lr),
        }

        def parts(learning_rate: Any, adam_lr: Any) -> optax.GradientTransformation:
            decay = optax.add_decayed_weights(self.weight_decay, self._is_decayed) if self.weight_decay else None
            groups = {
                "muonh": self._clipped(orthogonal(self, learning_rate)),
                "adamh": self._clipped(scale_by_adamh(self.beta1, self.beta2, self.epsilon, learning_rate)),
                "adam": self._clipped(
                    optax.scale_by_adam(self.beta1, self.beta2, self.epsilon), decay, optax.scale(-adam_lr)
                ),
            }
            return optax.multi_transform(groups, self.create_mask)

        built: optax.GradientTransformation = optax.inject_hyperparams(parts)(**rates)
        return built

    def create_mask(self, params: Any) -> Any:
        """The group of every leaf: ``muonh``, ``adamh`` or ``adam``."""
        return _by_path(params, group)

    def _is_decayed(self, params: Any) -> Any:
        return _by_path(params, lambda parts: bool(set(parts) & set(self.decayed)))

    def _clipped(self, *parts: optax.GradientTransformation | None) -> optax.GradientTransformation:
        clip = optax.clip_by_global_norm(self.max_grad_norm) if self.max_grad_norm else None
        return optax.chain(*(part for part in (clip, *parts) if part is not None))


def group(path: Sequence[str]) -> str:
    """The group of the leaf at a path such as ``layers, stacked, moe, experts, down``."""
    if path[0] == "lm_head":
        return "adamh"
    matrix = bool(MATRICES & set(path)) and not {"norm", "taps"} & set(path)
    return "muonh" if matrix else "adam"


def orthogonal(config: MuonHConfig, learning_rate: Any) -> optax.GradientTransformation:
    """MuonH on arrays whose last two axes are a matrix each."""

    def start(parameters: Any) -> optax.TraceState:
        return optax.TraceState(trace=jax.tree.map(jnp.zeros_like, parameters))

    def update(gradients: Any, state: optax.TraceState, parameters: Any = None) -> tuple[Any, optax.TraceState]:
        momentum = config.momentum
        trace = jax.tree.map(lambda before, new: momentum * before + new, state.trace, gradients)
        ahead = jax.tree.map(lambda now, new: momentum * now + new, trace, gradients) if config.nesterov else trace
        moved = jax.tree.map(lambda matrix, way: _moved(config, matrix, way, learning_rate), parameters, ahead)
        return moved, optax.TraceState(trace=trace)

    return optax.GradientTransformation(start, update)


def _moved(config: MuonHConfig, stack: jax.Array, way: jax.Array, learning_rate: Any) -> jax.Array:
    """What to add to each matrix of a stack: a step of the rate times its norm, back to its norm.

    On several devices the axes of the stack stay apart: merged into one, no device could keep to its own experts.
    """

    def one(matrix: jax.Array, way: jax.Array) -> jax.Array:
        flat, norm = orthogonalised(config, way), jnp.linalg.norm(matrix)
        new = matrix - learning_rate * flat * norm / jnp.maximum(jnp.linalg.norm(flat), _LEAST)
        return new * (norm / jnp.maximum(jnp.linalg.norm(new), _LEAST)) - matrix

    mesh = get_abstract_mesh()
    if mesh.empty or mesh.size == 1:
        matrices = [array.reshape(-1, *stack.shape[-2:]) for array in (stack, way)]
        return jax.vmap(one)(*matrices).reshape(stack.shape)
    every = one
    for _ in stack.shape[:-2]:
        every = jax.vmap(every)
    return every(stack, way)


def orthogonalised(config: MuonHConfig, matrix: jax.Array) -> jax.Array:
    """The nearest matrix with equal singular values, about, by Newton-Schulz steps with Levanter's coefficients.

    Levanter's function unrolls the steps, which multiplies what is compiled for every shape by their number.
    """
    table = NEWTON_SCHULZ_COEFFICIENTS[config.coefficient_type]
    coefficients = jnp.asarray([table[step % len(table)] for step in range(config.backend_steps)], matrix.dtype)
    wide = matrix.shape[0] <= matrix.shape[1]
    start = matrix if wide else matrix.T

    def step(found: jax.Array, abc: jax.Array) -> tuple[jax.Array, None]:
        square = found @ found.T
        return abc[0] * found + (abc[1] * square + abc[2] * square @ square) @ found, None

    found, _ = jax.lax.scan(step, start / (jnp.linalg.norm(start) + config.muon_epsilon), coefficients)
    return found if wide else found.T


def _by_path(params: Any, choose: Callable[[Sequence[str]], Any]) -> Any:
    """A tree with what ``choose`` says of its path in the place of every named array."""
    names = leaf_key_paths(params, is_leaf=is_named_array)
    return jax.tree.map(lambda _, name: choose(name.split(".")), params, names, is_leaf=is_named_array)
