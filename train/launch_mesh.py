"""Layouts of a cluster's devices, and what of a published run is known before JAX is imported.

The mesh is replica_dcn (racks) × data × expert × model. Imports no JAX: what changes bits has to be set before that.
Refuses layouts that do not use every device, and runs that a mesh cannot divide or route.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from registry.core.canonical import Json
from registry.core.family import Family
from registry.core.ladder import Rung
from registry.errors import Refused

AXES: Final = ("replica_dcn", "data", "expert", "model")
RACK_DEVICES: Final = 64
_MODEL: Final = "Choose another axis 'model'."
DETERMINISM: Final[Mapping[str, Json]] = MappingProxyType(
    {
        "platform": "cuda",
        "devices": 1,
        "nproc": 2,
        "max_isa": "AVX2",
        "generator": "threefry2x32",
        "partitionable_generator": True,
        "matmul_precision": "default",
        "x64": False,
        "custom_softmax_gradient": True,
        "ragged_dot": "xla",
        "xla_flags": [],
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Sizes of the mesh's axes."""

    replica_dcn: int
    data: int
    expert: int
    model: int

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """In the order of ``AXES``."""
        return (self.replica_dcn, self.data, self.expert, self.model)

    @property
    def devices(self) -> int:
        """How many devices it uses."""
        return self.replica_dcn * self.data * self.expert * self.model

    @classmethod
    def of(cls, sizes: Mapping[str, int]) -> Layout:
        """From sizes by axis. Raises ``Refused`` for other axes and for sizes below one."""
        if set(sizes) != set(AXES) or min(sizes.values()) < 1:
            raise Refused(f"A mesh has the axes {', '.join(AXES)}, each at least one.", remedy="Give all four.")
        return cls(**sizes)

    def spreading(self, features: int, *axes: str) -> tuple[str, ...]:
        """Those of ``axes``, all or one of them, over most devices of which so many features can be spread evenly."""
        sizes = dict(zip(AXES, self.sizes, strict=True))
        wide = tuple(axis for axis in axes if sizes[axis] > 1)
        choices = [(), wide, *((axis,) for axis in wide)]
        even = [chosen for chosen in choices if features % math.prod(sizes[axis] for axis in chosen) == 0]
        return max(even, key=lambda chosen: math.prod(sizes[axis] for axis in chosen))

    def require_dividing(self, family: Family, rung: Rung) -> None:
        """Raise ``Refused`` unless sequences, experts, and what lies on ``model`` can be spread evenly, and routed."""
        over = self.replica_dcn * self.data * self.expert
        for many, what, ways, remedy in (
            (rung.batch_sequences, "sequences of a batch", over, "Choose a number of devices that divides the batch."),
            (family.routed_experts, "experts", self.expert, "Choose an axis 'expert' that divides them."),
            (rung.heads * family.head_dim, "features of all heads", self.model, _MODEL),
            (rung.expert_width, "features of an expert", self.model, _MODEL),
            (family.vocabulary, "tokens of the vocabulary", self.model, _MODEL),
        ):
            if many % ways:
                raise Refused(f"{many} {what} cannot be spread over {ways} devices.", remedy=remedy)
        self._require_numbered(family, rung)

    def _require_numbered(self, family: Family, rung: Rung) -> None:
        """Levanter's spread experts order their assignments by 32-bit numbers: place plus expert times places."""
        groups = self.replica_dcn * self.data
        assignments = rung.batch_sequences * family.context_tokens * family.experts_per_token // groups
        own = family.routed_experts // self.expert
        if self.expert > 1 and assignments * own >= 2**31:
            raise Refused(
                f"{assignments} assignments to {own} experts a device cannot be ordered by 32-bit numbers.",
                remedy=f"Spread the batch over more than {groups * self.expert} devices, by replica_dcn or data.",
            )


SINGLE: Final = Layout(replica_dcn=1, data=1, expert=1, model=1)


def published_layout(devices: int, *, rack_devices: int) -> Layout:
    """Racks of ``rack_devices`` that share their experts. Raises ``Refused`` for part of a rack among several."""
    racks, rest = divmod(devices, rack_devices)
    if rest and racks:
        raise Refused(f"{devices} devices are no whole number of racks of {rack_devices}.")
    return Layout(replica_dcn=max(racks, 1), data=1, expert=min(devices, rack_devices), model=1)
