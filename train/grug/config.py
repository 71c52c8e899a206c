"""The configuration of one member of the family, registered with Levanter as ``reckon_grug``.

``config_of`` makes it from a rung that :mod:`registry.core.ladder` derived and the section ``model`` of the settings;
``PUBLISHED`` is that section as the public ladder has it. Refuses shapes that the family cannot have, with the reason.
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
from registry.core.family import Family
from registry.core.ladder import Rung
from registry.errors import Refused
from train.settings import text, texts, whole

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


@LmConfig.register_subclass(MODEL_TYPE)
@dataclass(frozen=True, kw_only=True)
class GrugConfig(LmConfig[Any]):
    """Everything that fixes the model but its vocabulary. Widths are numbers of features, ``kv_heads`` (local, global).

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
    def model_type(self) -> type[Any]:
        """The class of the model."""
        from train.grug.model import GrugLMHeadModel

        return GrugLMHeadModel

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


def config_of(constants: Family, rung: Rung, settings: Mapping[str, Json]) -> GrugConfig:
    """The configuration of ``rung``. ``settings`` is a section ``model`` such as ``PUBLISHED``.

    Raises ``Refused`` for a family without a window, and for what :class:`GrugConfig` refuses.
    """
    if constants.sliding_window is None or constants.global_every is None:
        raise Refused(
            "Local layers of the family grug have a window, but the section family names none.",
            remedy="Give sliding_window and global_every, or set model.family to mixtral.",
        )
    return GrugConfig(
        max_seq_len=constants.context_tokens,
        hidden=rung.hidden,
        layers=rung.layers,
        heads=rung.heads,
        head_dim=constants.head_dim,
        kv_heads=rung.kv_heads,
        routed_experts=constants.routed_experts,
        experts_per_token=constants.experts_per_token,
        shared_experts=constants.shared_experts,
        expert_width=rung.expert_width,
        latent_width=rung.latent_width,
        sliding_window=constants.sliding_window,
        global_every=constants.global_every,
        last_layer_global=constants.last_layer_global,
        norm_epsilon=float(text(settings, "norm_epsilon")),
        rotary_base=float(whole(settings, "rotary_base", least=1)),
        qk_multiplier=float(text(settings, "qk_multiplier")),
        gated_norm_rank=whole(settings, "gated_norm_rank", least=1),
        convolution_kernel=whole(settings, "convolution_kernel", least=1),
        convolution_sites=tuple(texts(settings, "convolution_sites")),
        combine_sum=float(text(settings, "combine_sum")),
        capacity_factor=float(text(settings, "capacity_factor")),
        initializer_std=float(text(settings, "initializer_std")),
        gradient_checkpointing=bool(settings.get("gradient_checkpointing", False)),
    )
