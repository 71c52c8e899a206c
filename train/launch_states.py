"""States and batches over several processes: placed from files, gathered to one host, kept by all.

Every process holds the devices of its own; an array's other parts are elsewhere. Refuses checkpoints whose leaves are
not those of the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import haliax as hax
import jax
import numpy as np
from haliax.partitioning import pspec_for_axis
from haliax.util import is_named_array
from jax.experimental import multihost_utils
from jax.sharding import NamedSharding, PartitionSpec
from levanter.checkpoint import save_checkpoint
from levanter.trainer_state import TrainerState

from registry.errors import DoesNotHold
from train import tensorfile
from train.caches import open_sequences
from train.checkpoint import STATE, named_leaves
from train.order import Sequences

if TYPE_CHECKING:
    from train.engine import Engine


def gathered(tree: Any) -> Any:
    """The same tree with whole arrays of the host, in every process."""
    return jax.tree.map(_whole, tree)


def placed(engine: Engine, folder: Path) -> TrainerState:
    """The state in a checkpoint's folder, every process holding its own part.

    Raises ``DoesNotHold`` for leaves that are missing, extra, or of another shape or dtype.
    """
    arrays = tensorfile.read_arrays(folder / STATE)
    wanted = named_leaves(engine.template)
    if arrays.keys() != wanted.keys():
        raise DoesNotHold(
            f"The checkpoint {folder} holds other tensors than the model.", remedy="Use the settings it was made with."
        )
    mesh, mapping = engine.trainer.device_mesh, engine.trainer.parameter_axis_mapping

    def one(name: str, leaf: Any) -> Any:
        spec = pspec_for_axis(leaf.axes, mapping) if is_named_array(leaf) else PartitionSpec()
        array = _placed(arrays[name], NamedSharding(mesh, spec))
        return hax.NamedArray(array, leaf.axes) if is_named_array(leaf) else array

    leaves, structure = jax.tree.flatten(engine.template.saveable_state, is_leaf=is_named_array)
    return jax.tree.unflatten(structure, [one(name, leaf) for name, leaf in zip(wanted, leaves, strict=True)])


def batches(engine: Engine, first: int, last: int) -> Iterator[tuple[hax.NamedArray, bytes, bytes]]:
    """Tokens on the devices, and the bytes of ids and of tokens that the order digest is chained over."""
    axes = (hax.Axis("batch", engine.plan.rung.batch_sequences), engine.family.Pos)
    sharding = NamedSharding(engine.trainer.device_mesh, pspec_for_axis(axes, engine.trainer.compute_axis_mapping))
    for tokens, ids in _host_batches(engine, first, last):
        placed_tokens = hax.NamedArray(_placed(tokens, sharding), axes)
        yield (
            placed_tokens,
            np.ascontiguousarray(ids, dtype="<u4").tobytes(),
            np.ascontiguousarray(tokens, dtype="<i4").tobytes(),
        )


def _host_batches(engine: Engine, first: int, last: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Tokens and ids of whole batches, the same in every process."""
    length, order = engine.plan.family.context_tokens, engine.order
    opened = {
        name: Sequences(open_sequences(engine.tokens / name, "train", length), number)
        for number, name in enumerate(order.components)
    }
    mixture = order.mixture(opened)
    for step in range(first, last):
        rows = order.rows(mixture, step)
        yield np.stack([row["tokens"] for row in rows]), np.stack([row["id"] for row in rows])


def save_sharded(state: TrainerState, step: int, folder: Path) -> None:
    """Levanter's own checkpoint, to which every process writes its shards."""
    save_checkpoint(state.saveable_state, step, str(folder))
    multihost_utils.sync_global_devices(f"saved step {step}")


def bits(value: Any) -> int:
    """The bits of a 32-bit float."""
    return int(np.asarray(value, np.float32).view(np.uint32))


def _whole(leaf: Any) -> Any:
    if not isinstance(leaf, jax.Array) or leaf.is_fully_addressable:
        return np.asarray(leaf)
    return np.asarray(multihost_utils.process_allgather(leaf, tiled=True))


def _placed(array: np.ndarray, sharding: NamedSharding) -> jax.Array:
    return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])
