"""What one device of a mesh holds of a training state, from shapes and axes alone: no device and no array is needed.

Parameters, optimizer, gradients (as the parameters) and the copy of the parameters that the model works with, where its
precision is another one. Activations, and what the compiler keeps beside, are not counted. Refuses a mesh whose devices
cannot hold that in a stated memory.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from haliax.util import is_named_array
from levanter.trainer_state import TrainerState

from registry.errors import Refused

Spread = Mapping[str, str | Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceBytes:
    """Bytes of one device. ``optimizer`` has the step and the random key too: with ``parameters`` it is the state."""

    parameters: int
    optimizer: int
    gradients: int
    working_copy: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.parameters + self.optimizer + self.gradients + self.working_copy

    def require_within(self, gigabytes: int) -> None:
        """Raise ``Refused`` when it exceeds a memory of so many times 10**9 bytes."""
        if self.total > gigabytes * 10**9:
            held = ", ".join(f"{name.replace('_', ' ')} {size / 1e9:.1f}" for name, size in self.to_json().items())
            raise Refused(
                f"A device would hold {self.total / 1e9:.1f} GB ({held}), and has {gigabytes} GB.",
                remedy="Spread the run over more devices, by the axes 'expert' and 'data'.",
            )

    def to_json(self) -> dict[str, int]:
        """By name."""
        return dataclasses.asdict(self)


def device_bytes(template: TrainerState, spread: Spread, sizes: Mapping[str, int], working: Any) -> DeviceBytes:
    """What one device holds of states like ``template``, whose leaves are shapes.

    ``spread`` has the mesh's axes of each named axis, ``sizes`` their sizes; ``working`` is the dtype that the model
    works in. An axis that its devices do not divide is rounded up.
    """
    model = jax.tree.leaves(template.model, is_leaf=is_named_array)
    state = jax.tree.leaves(template, is_leaf=is_named_array)
    trained = [leaf for leaf in model if np.issubdtype(_array(leaf).dtype, np.floating)]
    parameters = sum(_bytes(leaf, spread, sizes) for leaf in model)
    copied = [leaf for leaf in trained if _array(leaf).dtype != working]
    return DeviceBytes(
        parameters=parameters,
        optimizer=sum(_bytes(leaf, spread, sizes) for leaf in state) - parameters,
        gradients=sum(_bytes(leaf, spread, sizes) for leaf in trained),
        working_copy=sum(_numbers(leaf, spread, sizes) for leaf in copied) * np.dtype(working).itemsize,
    )


def _array(leaf: Any) -> Any:
    return leaf.array if is_named_array(leaf) else leaf


def _bytes(leaf: Any, spread: Spread, sizes: Mapping[str, int]) -> int:
    return _numbers(leaf, spread, sizes) * int(_array(leaf).dtype.itemsize)


def _numbers(leaf: Any, spread: Spread, sizes: Mapping[str, int]) -> int:
    """Numbers of a leaf that one device holds. What has no named axes lies whole on every device."""
    if not is_named_array(leaf):
        return math.prod(leaf.shape)
    return math.prod(-(-axis.size // _ways(spread.get(axis.name, ()), sizes)) for axis in leaf.axes)


def _ways(axes: str | Sequence[str], sizes: Mapping[str, int]) -> int:
    return math.prod(sizes[axis] for axis in ((axes,) if isinstance(axes, str) else axes))
