"""Making the tensors of an export again from a checkpoint, one at a time, with numpy and without JAX.

Elements are handled as bits, so a dtype that numpy lacks is no obstacle and nothing is rounded but by a stated cast.
Memory holds one exported tensor, whatever the size of the checkpoint. Refuses nothing that a valid map asks for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from registry.core.tensor_map import Part, Rule, TensorMap
from registry.core.tensor_operations import perform
from registry.core.tensors import Leaf, TensorSpec, leaf_of
from registry.ports import Tensors

_LARGEST_ITEM = 8


def mapped_leaves(tensor_map: TensorMap, checkpoint: Tensors) -> Iterator[Leaf]:
    """The leaf of every exported tensor, in the map's order, made from the bytes of ``checkpoint``.

    Raises ``DoesNotHold`` first when the checkpoint's model has other leaves than the map.
    """
    tensor_map.require_all_of(checkpoint.specs)
    leaves = tensor_map.by_name
    for rule in tensor_map.rules:
        yield leaf_of(rule.target, _made(rule, leaves, checkpoint))


def _made(rule: Rule, leaves: dict[str, TensorSpec], checkpoint: Tensors) -> bytes:
    import numpy as np

    parts = [_part(part, leaves[part.leaf], checkpoint) for part in rule.parts]
    made = parts[0] if rule.axis is None else np.concatenate(parts, axis=rule.axis)
    data: bytes = np.ascontiguousarray(made).tobytes()
    return data


def _part(part: Part, leaf: TensorSpec, checkpoint: Tensors) -> Any:
    import numpy as np

    spec, start = part.sliced(leaf), part.start_byte(leaf)
    bits = f"<u{spec.item_bytes}" if spec.item_bytes <= _LARGEST_ITEM else f"V{spec.item_bytes}"
    array = np.frombuffer(checkpoint.read(leaf, start, start + spec.size_bytes), dtype=bits).reshape(spec.shape)
    return perform(part.rest, array, spec.dtype, _cast)


def _cast(bits: Any, old: str, new: str) -> Any:
    """The bits of each element as another dtype, as IEEE 754 rounds."""
    if old == "bfloat16":
        return bits.astype("<u4") << 16
    if new == "bfloat16":
        return _rounded(bits)
    width = {"float16": "2", "float32": "4"}
    return bits.view(f"<f{width[old]}").astype(f"<f{width[new]}").view(f"<u{width[new]}")


def _rounded(bits: Any) -> Any:
    """The upper half of float32 words, rounded to the nearest, ties to even. A NaN stays one, quiet."""
    import numpy as np

    nan = (bits & 0x7FFFFFFF) > 0x7F800000
    odd = (bits >> 16) & 1
    upper = (bits.astype("<u8") + 0x7FFF + odd) >> 16
    return np.where(nan, (bits >> 16) | 0x40, upper).astype("<u2")
