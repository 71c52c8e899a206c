"""The mixture of experts of a layer: router, latent width, routed experts, and the dense experts beside them.

Routed experts run through Levanter's ``moe_mlp``. On a mesh with an axis ``expert`` it spreads them, and drops what
exceeds a shard's capacity; elsewhere each expert has its own capacity. Either way the dropped assignments are counted.
"""

from __future__ import annotations

import equinox as eqx
import haliax as hax
import jax
import jax.numpy as jnp
from haliax import Axis, NamedArray
from jax.sharding import AbstractMesh, PartitionSpec, explicit_axes, get_abstract_mesh
from levanter.grug.grug_moe import moe_mlp

from train.grug.config import GrugConfig
from train.grug.layers import Norm, matrix
from train.grug.routing import RouterState, balancing_bias, carry, within_capacity

BATCH_AXES = ("replica_dcn", "data", "expert")


class Experts(eqx.Module):
    """SwiGLU experts: ``gate_up`` [experts, in, 2·width], the gate first, and ``down`` [experts, width, out]."""

    gate_up: NamedArray
    down: NamedArray

    @staticmethod
    def init(config: GrugConfig, width: Axis, *, key: jax.Array) -> Experts:
        """Fresh parameters of experts that read and write vectors of the size of ``width``.

        Their axis has a name of its own: one array has ``embed`` or ``expert``, which may lie on one axis of a mesh.
        """
        experts, inner = Axis("expert", config.routed_experts), Axis("mlp", config.expert_width)
        width = width.alias("width")
        gate, up, down = jax.random.split(key, 3)
        both = [matrix(one, (experts, width, inner), config.initializer_std).array for one in (gate, up)]
        return Experts(
            gate_up=hax.named(jnp.concatenate(both, axis=-1), (experts, width, Axis("mlp", 2 * inner.size))),
            down=matrix(down, (experts, inner, width), config.initializer_std),
        )


class SharedExperts(eqx.Module):
    """Dense SwiGLU experts that see every token. Stacked: [shared, in, width] and back."""

    gate: NamedArray
    up: NamedArray
    down: NamedArray

    @staticmethod
    def init(config: GrugConfig, *, key: jax.Array) -> SharedExperts:
        """Fresh parameters."""
        shared, inner, embed = Axis("shared", config.shared_experts), Axis("mlp", config.expert_width), config.Embed
        keys = jax.random.split(key, 3)
        return SharedExperts(
            gate=matrix(keys[0], (shared, embed, inner), config.initializer_std),
            up=matrix(keys[1], (shared, embed, inner), config.initializer_std),
            down=matrix(keys[2], (shared, inner, embed), config.initializer_std),
        )

    def __call__(self, values: jax.Array) -> jax.Array:
        """The sum of all of them over ``values`` [batch, position, feature]."""
        gated = jax.nn.silu(jnp.einsum("bpd,edm->bpem", values, self.gate.array))
        hidden = gated * jnp.einsum("bpd,edm->bpem", values, self.up.array)
        return jnp.einsum("bpem,emd->bpd", hidden, self.down.array)


class Latent(eqx.Module):
    """The way down to the width of the routed experts, with a norm there, and up again."""

    down: NamedArray
    norm: Norm
    up: NamedArray

    @staticmethod
    def init(config: GrugConfig, width: Axis, *, key: jax.Array) -> Latent:
        """Fresh parameters."""
        down, up = jax.random.split(key)
        return Latent(
            down=matrix(down, (config.Embed, width), config.initializer_std),
            norm=Norm.init(width, config),
            up=matrix(up, (width, config.Embed), config.initializer_std),
        )


class Routing(eqx.Module):
    """What a layer's router did. Loads are float32 [experts], shares of all assignments that add up to one."""

    loads: jax.Array
    dropped: jax.Array
    z_loss: jax.Array


class Mixture(eqx.Module):
    """Router, routed experts and shared experts of one layer."""

    router: NamedArray
    router_state: RouterState
    latent: Latent | None
    experts: Experts
    shared_mlp: SharedExperts | None
    config: GrugConfig = eqx.field(static=True)

    @staticmethod
    def init(config: GrugConfig, *, key: jax.Array) -> Mixture:
        """Fresh parameters and no bias."""
        router, latent, experts, shared = jax.random.split(key, 4)
        axis = Axis("router", config.routed_experts)
        width = config.Embed if config.latent_width is None else Axis("latent", config.latent_width)
        return Mixture(
            router=matrix(router, (config.Embed, axis), config.initializer_std),
            router_state=RouterState.init(axis),
            latent=None if config.latent_width is None else Latent.init(config, width, key=latent),
            experts=Experts.init(config, width, key=experts),
            shared_mlp=SharedExperts.init(config, key=shared) if config.shared_experts else None,
            config=config,
        )

    def __call__(self, values: jax.Array) -> tuple[jax.Array, Routing]:
        """The mixture's output for ``values`` [batch, position, feature], and what the router did."""
        flat = values.reshape(-1, values.shape[-1])
        logits = flat.astype(jnp.float32) @ self.router.array.astype(jnp.float32)
        selected, weights, threshold = self._selected(logits)
        mixed, dropped = self._routed(flat, selected, weights.astype(values.dtype))
        mixed = carry(self.router_state, balancing_bias(logits, threshold, selected.shape[1]), mixed)
        mixed = mixed.reshape(values.shape)
        chosen = selected[..., None] == jnp.arange(self.config.routed_experts)
        routing = Routing(
            loads=jnp.sum(chosen, axis=(0, 1), dtype=jnp.int32).astype(jnp.float32) / selected.size,
            dropped=dropped.astype(jnp.float32) / selected.size,
            z_loss=jnp.mean(jnp.square(jax.nn.logsumexp(logits, axis=-1))),
        )
        return mixed if self.shared_mlp is None else mixed + self.shared_mlp(values), routing

    def _selected(self, logits: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Experts and weights [tokens, choices], and the biased logit of the first expert left out [tokens, 1].

        The pending bias chooses; the weights are sigmoids of the logits without it, rescaled to a fixed sum.
        """
        bias = self.router_state.pending.array
        best, experts = jax.lax.top_k(jax.lax.stop_gradient(logits + bias), self.config.experts_per_token + 1)
        selected = experts[:, :-1]
        sigmoids = jax.nn.sigmoid(jnp.take_along_axis(logits, selected, axis=-1))
        weights = sigmoids * (self.config.combine_sum / jnp.sum(sigmoids, axis=-1, keepdims=True))
        return selected, weights, best[:, -1:]

    def _routed(self, flat: jax.Array, selected: jax.Array, weights: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The routed experts' output [tokens, feature] and the number of dropped assignments."""
        latent = self.latent
        entering = flat if latent is None else latent.norm(flat @ latent.down.array)
        leaving, dropped = dispatched(self.experts, entering, selected, weights, self.config.capacity_factor)
        return (leaving if latent is None else leaving @ latent.up.array), dropped


def dispatched(
    experts: Experts, values: jax.Array, selected: jax.Array, weights: jax.Array, capacity_factor: float
) -> tuple[jax.Array, jax.Array]:
    """``values`` [tokens, width] through their experts, weighted and added up; and how many were dropped."""
    mesh = get_abstract_mesh()
    count = experts.gate_up.array.shape[0]
    shards = 1 if mesh.empty else mesh.shape.get("expert", 1)
    spread, here = shards > 1, 0
    if not spread:
        kept = within_capacity(selected, count, capacity_factor, count)
        # An expert of -1 has no place in any shard; its row is multiplied with a weight of zero.
        here = jnp.sum(~kept, dtype=jnp.int32)
        selected, weights = jnp.where(kept, selected, -1), jnp.where(kept, weights, 0)

    def run(*arrays: jax.Array) -> tuple[jax.Array, jax.Array]:
        place = get_abstract_mesh() if _divided(mesh) else AbstractMesh((), ())
        # A shard can have no more than all assignments; Levanter's function does not look.
        most = min(capacity_factor, float(shards))
        result: tuple[jax.Array, jax.Array] = moe_mlp(
            *arrays, implementation="ring", mesh=place, capacity_factor=most, report_capacity_overflow=True
        )
        return result

    arrays = (values, selected, weights, experts.gate_up.array, experts.down.array)
    if not _divided(mesh):
        output, there = run(*arrays)
        return output, here + there
    rows = PartitionSpec(tuple(axis for axis in BATCH_AXES if axis in mesh.shape))
    matrices = PartitionSpec("expert") if spread else PartitionSpec()
    output, there = explicit_axes(run, in_sharding=(rows, rows, rows, matrices, matrices))(*arrays)
    return output, here + there


def _divided(mesh: AbstractMesh) -> bool:
    """Whether there is more than one device to think of."""
    return not mesh.empty and mesh.size > 1
