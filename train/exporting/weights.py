"""Weights of an export: made by the map, written as deterministic safetensors files of bounded size, read back.

A leaf is a view into the checkpoint's file, so that memory holds one file of the export and never the checkpoint.
Refuses a tensor that is larger than a file may be, and files that do not give back the tensors that were put in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import ml_dtypes
import numpy as np
import safetensors

from registry.core.canonical import Json
from registry.core.digests import Digest
from registry.core.safetensors import PREFIX_BYTES, header_bytes, parse_header
from registry.core.tensor_map import Part, Rule, TensorMap
from registry.core.tensor_operations import perform
from registry.core.tensors import Leaf, TensorSpec, leaf_of, tensor_root
from registry.errors import DoesNotHold, Refused
from train import tensorfile
from train.files import write_json, write_whole

INDEX: Final = "model.safetensors.index.json"
# transformers reads no file without this key; with a second one the bytes would depend on the order of a hash table.
METADATA: Final = {"format": "pt"}


def leaf_views(path: Path) -> dict[str, np.ndarray]:
    """The tensors of a safetensors file by name, each a read-only view into the file."""
    size = path.stat().st_size
    data = np.memmap(path, dtype=np.uint8, mode="r")
    length = header_bytes(data[:PREFIX_BYTES].tobytes(), size)
    header = parse_header(data[PREFIX_BYTES : PREFIX_BYTES + length].tobytes(), size)
    return {
        one.spec.name: data[one.start_byte : one.stop_byte].view(_numpy(one.spec.dtype)).reshape(one.spec.shape)
        for one in header.tensors
    }


def leaf_specs(views: Mapping[str, np.ndarray]) -> tuple[TensorSpec, ...]:
    """Name, dtype and shape of each view, sorted by name."""
    found = (TensorSpec(name=name, dtype=view.dtype.name, shape=view.shape) for name, view in views.items())
    return tuple(sorted(found))


def write_weights(folder: Path, tensor_map: TensorMap, leaves: Mapping[str, np.ndarray], most: int) -> tuple[str, ...]:
    """Write the map's tensors, made from ``leaves``, to ``folder``; ``most`` bounds the tensors' bytes in one file.

    Returns the names of the files. Several have an index beside them. Raises ``Refused`` for a tensor over ``most``.
    """
    groups = list(_groups(tensor_map.rules, most))
    names = _names(len(groups))
    for name, group in zip(names, groups, strict=True):
        _write_file(folder / name, group, leaves)
    if len(groups) > 1:
        held = {rule.target.name: name for name, group in zip(names, groups, strict=True) for rule in group}
        total = sum(rule.target.size_bytes for rule in tensor_map.rules)
        weight_map: dict[str, Json] = dict(held)
        write_json(folder / INDEX, {"metadata": {"total_size": total}, "weight_map": weight_map})
    return names


def weights_root(folder: Path, names: Sequence[str]) -> Digest:
    """The tensor root of the weights in ``folder``, from their bytes."""
    return tensor_root(leaf for name in names for leaf in tensorfile.leaves(folder / name))


def _groups(rules: Sequence[Rule], most: int) -> Iterator[list[Rule]]:
    """Rules in their order, as many in a group as fit."""
    group: list[Rule] = []
    for rule in rules:
        if rule.target.size_bytes > most:
            raise Refused(
                f"The tensor {rule.target.name} has {rule.target.size_bytes} bytes, over {most} for a file.",
                remedy="Raise export.shard_bytes in params.yaml.",
            )
        if sum(one.target.size_bytes for one in group) + rule.target.size_bytes > most:
            yield group
            group = []
        group.append(rule)
    yield group


def _names(count: int) -> tuple[str, ...]:
    """File names as transformers looks for them."""
    if count == 1:
        return ("model.safetensors",)
    return tuple(f"model-{number:05d}-of-{count:05d}.safetensors" for number in range(1, count + 1))


def _write_file(path: Path, rules: Sequence[Rule], leaves: Mapping[str, np.ndarray]) -> None:
    made = {rule.target.name: _made(rule, leaves) for rule in rules}
    told: list[Leaf] = [leaf_of(rule.target, made[rule.target.name]) for rule in rules]
    entries = {
        rule.target.name: {
            "dtype": rule.target.dtype,
            "shape": list(rule.target.shape),
            "data": made[rule.target.name],
        }
        for rule in rules
    }
    write_whole(path, safetensors.serialize(entries, METADATA))
    if sorted(tensorfile.leaves(path)) != sorted(told):
        raise DoesNotHold(
            f"{path.name} does not read back as it was written.", remedy="Check the disk, then try again."
        )


def _made(rule: Rule, leaves: Mapping[str, np.ndarray]) -> bytes:
    """The C-order little-endian bytes of an exported tensor."""
    parts = [_part(part, leaves[part.leaf]) for part in rule.parts]
    made = parts[0] if rule.axis is None else np.concatenate(parts, axis=rule.axis)
    return np.ascontiguousarray(made).tobytes()


def _part(part: Part, leaf: np.ndarray) -> np.ndarray:
    array: np.ndarray = perform(part.operations, leaf, leaf.dtype.name, lambda one, _, dtype: one.astype(_numpy(dtype)))
    return array


def _numpy(dtype: str) -> np.dtype:
    """numpy's dtype of that name, with those that ``ml_dtypes`` adds."""
    return np.dtype(getattr(ml_dtypes, dtype, dtype))
