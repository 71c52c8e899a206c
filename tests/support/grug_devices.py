"""Run by a test in a process with eight virtual devices: one batch through a small model on one, two, four and eight.

Parameters lie as on a cluster: widths over all devices; four and eight devices spread the experts too. ``crowded``
sends a crowd to few experts, past their capacity. ``orthogonalised`` is one update of a stack of experts by MuonH.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import equinox as eqx
import haliax as hax
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from levanter.optim import MuonHConfig
from support import pocket

from registry.core.family import Family
from registry.core.ladder import Shape, derive
from train.grug.family import Grug, grug
from train.grug.mixture import Experts, dispatched
from train.grug.optimizer import orthogonal
from train.grug.routing import within_capacity
from train.launch_layout import mesh_config
from train.launch_mesh import AXES, Layout

CONSTANTS = Family.from_settings({**pocket.GRUG["family"], "routed_experts": 8})
RUNG = derive(CONSTANTS, Shape(hidden=16, layers=2, kv_heads=(2, 1), batch_sequences=16))


def member(capacity: float) -> Grug:
    found = grug(CONSTANTS, RUNG, pocket.GRUG["model"], end=1)
    return replace(found, config=replace(found.config, capacity_factor=capacity))


def stepped(place: Mesh, family: Grug, model: Any) -> dict[str, Any]:
    """Loss, squares of the gradient and the bias for the next step."""
    rows = np.random.default_rng(0).integers(0, pocket.VOCABULARY, (16, pocket.POSITIONS)).astype(np.int32)

    def both(model: Any, tokens: hax.NamedArray) -> Any:
        (loss, facts), gradient = eqx.filter_value_and_grad(family.loss, has_aux=True)(model, tokens)
        state = gradient.layers.stacked.moe.router_state
        rest = eqx.tree_at(lambda one: one.layers.stacked.moe.router_state, gradient, None)
        squares = sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(rest))
        return loss, squares, state.pending.array, facts["router/dropped_assignments"]

    layout = Layout.of(dict(place.shape))
    with jax.set_mesh(place):
        model = hax.shard(model, mesh_config(layout, RUNG).resolved_param_mapping)
        held = {"head": model.lm_head.weight, "experts": model.layers.stacked.moe.experts.down}
        spread = NamedSharding(place, PartitionSpec(("replica_dcn", "data", "expert")))
        tokens = hax.named(jax.device_put(rows, spread), (hax.Axis("batch", 16), family.Pos))
        loss, squares, pending, dropped = eqx.filter_jit(both)(model, tokens)
    return {
        "parts": {name: leaf.array.size // leaf.array.addressable_shards[0].data.size for name, leaf in held.items()},
        "loss": float(loss),
        "gradient": float(squares),
        "pending": np.asarray(pending).ravel().tolist(),
        "dropped": float(dropped),
    }


def crowded(place: Mesh, shards: int) -> dict[str, Any]:
    """Assignments past the capacity of the shards, by the mesh and by our own counting on one device."""
    config = replace(member(1.15).config, latent_width=None)
    experts = Experts.init(config, config.Embed, key=jax.random.PRNGKey(1))
    values = jax.random.normal(jax.random.PRNGKey(2), (64, config.hidden))
    selected = jnp.asarray(np.random.default_rng(1).zipf(1.5, (64, 2)) % 8, jnp.int32)
    weights = jax.random.uniform(jax.random.PRNGKey(3), (64, 2))
    kept = within_capacity(selected, 8, 1.15, shards)
    with jax.set_mesh(place):
        output, dropped = jax.jit(dispatched, static_argnums=4)(experts, values, selected, weights, 1.15)
    with jax.set_mesh(mesh(1, 1)):
        wanted, _ = jax.jit(dispatched, static_argnums=4)(experts, values, selected, jnp.where(kept, weights, 0), 64.0)
    return {
        "dropped": int(dropped),
        "counted": int((~kept).sum()),
        "distance": float(np.abs(np.asarray(output) - np.asarray(wanted)).max()),
    }


def orthogonalised(place: Mesh) -> dict[str, Any]:
    """An update of experts that lie apart: how far it is from that on one device, and whether any were gathered."""
    transformation = orthogonal(MuonHConfig(), 0.1)
    noise = np.random.default_rng(3)
    stack, way = (noise.normal(size=(2, 8, 16, 24)).astype(np.float32) for _ in range(2))

    def moved(stack: jax.Array, way: jax.Array) -> jax.Array:
        found: jax.Array = transformation.update(way, transformation.init(stack), stack)[0]
        return found

    wanted = jax.jit(moved)(stack, way)
    with jax.set_mesh(place):
        apart = NamedSharding(place, PartitionSpec(None, "expert"))
        arrays = [jax.device_put(one, apart) for one in (stack, way)]
        run = jax.jit(moved, out_shardings=apart).lower(*arrays).compile()
        found = run(*arrays)
    return {
        "distance": float(np.abs(np.asarray(found) - np.asarray(wanted)).max()),
        "gathers": "all-gather" in run.as_text(),
    }


def mesh(data: int, expert: int) -> Mesh:
    return Mesh(np.asarray(jax.devices()[: data * expert]).reshape(1, data, expert, 1), AXES)


def main() -> None:
    shapes = {1: (1, 1), 2: (2, 1), 4: (2, 2), 8: (2, 4)}
    family = member(8.0)
    model = eqx.filter_jit(family.build)(jax.random.PRNGKey(0))
    facts: dict[str, Any] = {str(count): stepped(mesh(*shape), family, model) for count, shape in shapes.items()}
    facts["crowded"] = {str(shards): crowded(mesh(1, shards), shards) for shards in (2, 4, 8)}
    facts["orthogonalised"] = orthogonalised(mesh(2, 4))
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
