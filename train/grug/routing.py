"""Where tokens go: the balancing bias as state, the quantile that it comes from, and the limit of an expert's load.

The bias is no parameter. It is carried in the channel of the gradient (``OverwriteWithGradient``, which Levanter's step
writes over the state instead of adding it), so every optimizer leaves it alone and every checkpoint holds it. The state
has two biases: ``bias``, which the last step routed with, and ``pending``, which that step's tokens ask for. Whoever
routes, in training, evaluation or a published model, uses ``pending``.
"""

from __future__ import annotations

import math

import haliax as hax
import jax
import jax.numpy as jnp
from haliax import Axis, NamedArray
from haliax.quantization import OverwriteWithGradient
from jax import lax

BISECTIONS = 24


class RouterState(OverwriteWithGradient):
    """Biases of the experts: float32 [experts] each, with a mean of zero."""

    bias: NamedArray
    pending: NamedArray

    @staticmethod
    def init(experts: Axis) -> RouterState:
        """No bias before the first step."""
        return RouterState(bias=hax.zeros(experts), pending=hax.zeros(experts))

    def settled(self) -> RouterState:
        """The same with the pending bias in force: what a published model holds."""
        return RouterState(bias=self.pending, pending=self.pending)


@jax.custom_vjp
def _carried(state: tuple[jax.Array, jax.Array], following: tuple[jax.Array, jax.Array], value: jax.Array) -> jax.Array:
    del state, following
    return value


def _carried_forward(
    state: tuple[jax.Array, jax.Array], following: tuple[jax.Array, jax.Array], value: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    del state
    return value, following


def _carried_backward(
    following: tuple[jax.Array, jax.Array], cotangent: jax.Array
) -> tuple[tuple[jax.Array, jax.Array], tuple[jax.Array, jax.Array], jax.Array]:
    return following, jax.tree.map(jnp.zeros_like, following), cotangent


_carried.defvjp(_carried_forward, _carried_backward)


def carry(state: RouterState, following: jax.Array, value: jax.Array) -> jax.Array:
    """``value``, with the state after this step as the gradient of ``state``.

    The bias in force becomes ``pending``, which routed this step, and ``following`` becomes pending.
    """
    before = (state.bias.array, state.pending.array)
    after = (lax.stop_gradient(state.pending.array), lax.stop_gradient(following))
    return _carried(before, after, value)


def balancing_bias(logits: jax.Array, threshold: jax.Array, experts_per_token: int) -> jax.Array:
    """The bias under which each expert would have had its even share of these tokens.

    ``logits`` are float [tokens, experts], ``threshold`` [tokens, 1] the biased logit of the first expert that a token
    left out. An expert with the bias ``-q`` takes the tokens whose margin over the threshold exceeds ``q``; the even
    share is reached at its quantile. Returns float32 [experts] with a mean of zero: a common shift chooses nothing.
    """
    tokens, experts = logits.shape
    margins = lax.stop_gradient(logits - threshold).astype(jnp.float32)
    bias = -upper_quantile(margins, tokens * experts_per_token / experts)
    return bias - jnp.mean(bias)


def upper_quantile(margins: jax.Array, count: float) -> jax.Array:
    """For each column of ``margins`` [rows, columns] the value that at most ``count`` rows exceed: float32 [columns].

    Found by bisection over counts, exact to the range of the margins divided by 2**24. Counts are integers, so no
    sharding of the rows changes it.
    """
    columns = margins.shape[1]
    low = jnp.broadcast_to(jnp.min(margins), (columns,))
    high = jnp.broadcast_to(jnp.max(margins), (columns,))

    def halve(_: int, bounds: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = bounds
        middle = low + (high - low) / 2
        above = jnp.sum(margins > middle, axis=0, dtype=jnp.int32) > count
        return jnp.where(above, middle, low), jnp.where(above, high, middle)

    return lax.fori_loop(0, BISECTIONS, halve, (low, high))[1]


def within_capacity(selected: jax.Array, experts: int, capacity_factor: float, shards: int) -> jax.Array:
    """Which assignments are kept: bool of the shape of ``selected`` [tokens, choices].

    The rule of Levanter's expert-parallel ``moe_mlp``: the experts of a shard share ``capacity_factor`` times an even
    load, and give it to the lowest expert first and within an expert to the earliest token. With as many shards as
    experts each has its own limit.
    """
    assignments, members = selected.size, experts // shards
    capacity = max(members, math.ceil(capacity_factor * assignments / shards))
    chosen = selected.reshape(-1, 1) == jnp.arange(experts, dtype=selected.dtype)
    ranks = jnp.cumsum(chosen, axis=0, dtype=jnp.int32)
    counts = ranks[-1].reshape(shards, members)
    before = jnp.cumsum(counts, axis=1) - counts
    accepted = jnp.clip(capacity - before, 0, counts).reshape(-1)
    kept = jnp.any(chosen & (ranks <= accepted), axis=1)
    return kept.reshape(selected.shape)
