"""What fixes one member of the family but its vocabulary, and the section ``model`` as the public ladder has it.

:mod:`train.grug.model` registers it with Levanter as ``reckon_grug``. Refuses shapes that the family cannot have, with
the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from haliax import Axis
from levanter.models.lm_model import LmConfig

from registry.core.canonical import Json
from registry.errors import Refused

MODEL_TYPE: Final = "reckon_grug"
CONVOLUTION_SITES: Final = ("key", "value", "attention", "mixture")

PUBLISHED: Final[Mapping[str, Json]] = MappingProxyType(
    {
        "family": "grug",
        "norm_epsilon": "1e-5",
        "rotary_base": 10000,
        "qk_multiplier": "1.3",
        "gated_norm_rank": 128,
        "convolution_kernel": 4,
        "convolution_sites": list(CONVOLUTION_SITES),
        "combine_sum": "2.5",
        "capacity_factor": "1.15",
        "initializer_std": "0.02",
        "logit_z_loss": "1e-4",
        "gradient_checkpointing": True,
    }
)


@dataclass(frozen=True, kw_only=True)
class GrugConfig(LmConfig[Any]):
    """The fields of Levanter's configuration. Widths are numbers of features, ``kv_heads`` (local, global).

    Layers hold as many key-value heads as the larger of the two numbers; a layer of the other kind uses the first ones.
    """

    hidden: int
    layers: int
    heads: int
    head_dim: int
    kv_heads: tuple[int, int]
    routed_experts: int
    experts_per_token: int
    shared_experts: int
    expert_width: int
    latent_width: int | None
    sliding_window: int
    global_every: int
    last_layer_global: bool
    norm_epsilon: float
    rotary_base: float
    qk_multiplier: float
    gated_norm_rank: int
    convolution_kernel: int
    convolution_sites: tuple[str, ...]
    combine_sum: float
    capacity_factor: float
    initializer_std: float
    gradient_checkpointing: bool

    def __post_init__(self) -> None:
        for holds, complaint, remedy in self._rules():
            if not holds:
                raise Refused(complaint, remedy=remedy)

    @property
    def Embed(self) -> Axis:  # noqa: N802
        """The axis of the model's width."""
        return Axis("embed", self.hidden)

    @property
    def Layers(self) -> Axis:  # noqa: N802
        """The axis of layers."""
        return Axis("layers", self.layers)

    @property
    def stored_kv_heads(self) -> int:
        """Key-value heads that every layer has parameters for."""
        return max(self.kv_heads)

    @property
    def global_layers(self) -> np.ndarray:
        """For each layer whether it attends to the whole context, without rotary embedding: bool [layers]."""
        numbers = np.arange(1, self.layers + 1)
        strided = numbers % self.global_every == 0
        return np.asarray(strided | (self.last_layer_global & (numbers == self.layers)))

    def _rules(self) -> list[tuple[bool, str, str]]:
        shared = [self.heads % kv_heads == 0 for kv_heads in self.kv_heads]
        sites = set(self.convolution_sites) <= set(CONVOLUTION_SITES)
        sizes = (self.sliding_window, self.global_every, self.gated_norm_rank, self.convolution_kernel)
        return [
            (all(shared), f"{self.heads} heads cannot share {self.kv_heads} key-value heads.", "Choose divisors."),
            (
                self.head_dim % 4 == 0,
                f"Half of a head of {self.head_dim} has no pairs to rotate.",
                "Choose a head_dim that 4 divides.",
            ),
            (
                self.experts_per_token < self.routed_experts,
                f"The router balances by the first expert left out; a token goes to all {self.routed_experts}.",
                "Choose experts_per_token smaller than routed_experts.",
            ),
            (sites, f"Convolutions stand at {', '.join(CONVOLUTION_SITES)} only.", "Correct convolution_sites."),
            (min(sizes) >= 1, "Window, stride, rank and kernel are at least one.", "Correct family and model."),
            (self.capacity_factor > 0, "A capacity factor is positive.", "Correct model.capacity_factor."),
        ]
