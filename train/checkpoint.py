"""Training states as named leaves, and as checkpoints: a folder with ``state.safetensors`` and ``checkpoint.json``.

The names are Levanter's own leaf paths, so that the tensor root of a checkpoint equals that of Levanter's OCDBT save of
the same state. A folder appears whole or not at all. Refuses to restore from missing, extra or misshaped leaves, and to
write over a checkpoint.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import haliax as hax
import jax
import numpy as np
from haliax.partitioning import ResourceMapping
from haliax.util import is_named_array
from levanter.trainer_state import TrainerState
from levanter.utils.jax_utils import leaf_key_paths

from registry.core.canonical import Json
from registry.core.digests import Digest
from registry.errors import DoesNotHold, Refused
from train import tensorfile
from train.files import write_json

STATE: Final = "state.safetensors"
FACTS: Final = "checkpoint.json"


def named_leaves(state: TrainerState) -> dict[str, Any]:
    """The arrays of a state that a checkpoint holds, by Levanter's leaf path (``model/…``, ``opt_state/…``,
    ``step``)."""
    saved = state.saveable_state
    names = jax.tree.leaves(leaf_key_paths(saved, is_leaf=is_named_array))
    found = jax.tree.leaves(saved, is_leaf=is_named_array)
    return {
        name.replace(".", "/"): leaf.array if is_named_array(leaf) else leaf
        for name, leaf in zip(names, found, strict=True)
    }


def host_leaves(state: TrainerState) -> dict[str, np.ndarray]:
    """The same leaves on the host."""
    return {name: np.asarray(leaf) for name, leaf in jax.device_get(named_leaves(state)).items()}


def save_state(state: TrainerState, folder: Path, facts: Mapping[str, Json] | None = None) -> None:
    """Write ``state`` as the checkpoint ``folder``. ``facts`` go into ``checkpoint.json``.

    Raises ``Refused`` when the folder exists, ``DoesNotHold`` when the disk gives back other bytes than it was given.
    """
    if folder.exists():
        raise Refused(f"The checkpoint {folder.name} exists already.", remedy="A checkpoint is never written over.")
    arrays = host_leaves(state)
    aside = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    tensorfile.write_arrays(aside / STATE, arrays)
    told: dict[str, Json] = {
        "kind": "checkpoint",
        "schema": 1,
        "completed_steps": int(arrays["step"]),
        "tensors": len(arrays),
    }
    write_json(aside / FACTS, {**told, **(facts or {})})
    sync_folder(aside)
    aside.rename(folder)
    sync_folder(folder.parent)


def restore_state(folder: Path, template: TrainerState, mapping: ResourceMapping) -> TrainerState:
    """The state in the checkpoint ``folder``, in the form of ``template`` (arrays or shapes), sharded by ``mapping``.

    Raises ``DoesNotHold`` naming the leaves that are missing, extra, or of another dtype or shape.
    """
    arrays = tensorfile.read_arrays(folder / STATE)
    wanted = named_leaves(template)
    _require_same(arrays, wanted)
    saved = template.saveable_state
    leaves, structure = jax.tree.flatten(saved, is_leaf=is_named_array)
    restored = [
        hax.NamedArray(jax.numpy.asarray(arrays[name]), leaf.axes) if is_named_array(leaf) else arrays[name]
        for name, leaf in zip(wanted, leaves, strict=True)
    ]
    filled = jax.tree.unflatten(structure, [_on_device(leaf) for leaf in restored])
    return hax.shard(filled, mapping)


def checkpoint_root(folder: Path) -> Digest:
    """The tensor root of a checkpoint, from its bytes."""
    return tensorfile.root(folder / STATE)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _on_device(leaf: Any) -> Any:
    return leaf if is_named_array(leaf) else jax.numpy.asarray(leaf)


def _require_same(arrays: Mapping[str, np.ndarray], wanted: Mapping[str, Any]) -> None:
    missing, extra = sorted(wanted.keys() - arrays.keys()), sorted(arrays.keys() - wanted.keys())
    if missing or extra:
        raise DoesNotHold(
            f"The checkpoint lacks {', '.join(missing) or 'nothing'} and has {', '.join(extra) or 'nothing'} too much.",
            remedy="It is of another model or optimizer: use the settings that it was written with.",
        )
    for name, leaf in wanted.items():
        found = arrays[name]
        if found.shape != tuple(leaf.shape) or found.dtype != leaf.dtype:
            raise DoesNotHold(
                f"The leaf {name} is {found.dtype}{list(found.shape)} in the checkpoint, but {leaf.dtype}"
                f"{list(leaf.shape)} in the model.",
                remedy="It is of another model: use the settings that it was written with.",
            )
