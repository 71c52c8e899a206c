"""The published ladder: its family, its five shapes, and the figures that its makers printed.

The figures are strings at the precision of their source, so that a derived value can be compared digit by digit. They
are data to check against, never inputs of the arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import Final

from registry.core.family import Family, RateLaw, Schedule
from registry.core.ladder import Rung, Shape

SOURCES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "launcher": "marin-community/marin experiments/grug/moe_hero_ep/launch_scaling_ladder.py "
        "@ 0b22469a71b1ae2311e91a2aa4351a26ebafb138",
        "shapes": "marin-community/marin experiments/grug/moe_hero_ep/small_scale_abl_launch.py "
        "@ 00d08ae32ae9702e4ac78d6fcd1b1e02b7c7f924",
        "switches": "marin-community/marin docs/reports/hero-mixture-log.md @ 41f25e9b529b962f64afa98f68fefabf6003c0ff",
        "hero": "marin-community/marin issue 8435",
    }
)

FAMILY: Final = Family(
    name="marin",
    vocabulary=128256,
    context_tokens=4096,
    head_dim=128,
    routed_experts=384,
    experts_per_token=8,
    shared_experts=2,
    expert_width=Fraction(1, 2),
    latent_width=Fraction(1, 2),
    sliding_window=2048,
    global_every=4,
    last_layer_global=True,
    tokens_per_active_parameter=Fraction(791),
    rates=RateLaw(
        adam_coefficient=Fraction("0.087571"),
        tokens_exponent=Fraction("-0.3461"),
        width_exponent=Fraction("-0.3448"),
        muonh_ratio=Fraction(13, 3),
        largest=Fraction("0.05"),
        epsilon_coefficient=Fraction("9.676e-18"),
        beta2_base=Fraction("0.999"),
        beta2_reference_tokens=131072,
        beta2_smallest=Fraction("0.95"),
        beta2_largest=Fraction("0.9999"),
    ),
    schedule=Schedule(
        warmup_fraction=Fraction(1, 100),
        final_ratio=Fraction("0.05"),
        switch_fraction=Fraction(4, 5),
        block_sequences=49152,
    ),
)

SHAPES: Final[Mapping[str, Shape]] = MappingProxyType(
    {
        "d768": Shape(hidden=768, layers=8, kv_heads=(1, 1), batch_sequences=1024),
        "d1024": Shape(hidden=1024, layers=12, kv_heads=(2, 1), batch_sequences=2048),
        "d1536": Shape(hidden=1536, layers=16, kv_heads=(3, 1), batch_sequences=6144),
        "d2048": Shape(hidden=2048, layers=22, kv_heads=(4, 2), batch_sequences=11264),
        "d6144": Shape(hidden=6144, layers=48, kv_heads=(12, 6), batch_sequences=11264),
    }
)

# Racks that the published runs used, each of sixty-four devices.
RACKS: Final[Mapping[str, int]] = MappingProxyType({"d768": 1, "d1024": 2, "d1536": 6, "d2048": 11, "d6144": 11})

COLUMNS: Final = (
    "label",
    "heads",
    "active_parameters",
    "total_parameters",
    "steps",
    "tokens",
    "flops",
    "muonh_lr",
    "adam_lr",
    "beta2",
    "epsilon",
    "phase_switch_step",
)

_TABLE: Final = {
    "d768": "1.6B-A61M 6 60.56e6 1.588e9 11420 47.9e9 5.5e19 0.01582 0.003651 0.9685 1.03e-15 9120",
    "d1024": "4.0B-A162M 8 162.00e6 3.973e9 15276 128.1e9 2.7e20 0.01441 0.003326 0.95 1.20e-15 12216",
    "d1536": "11.5B-A481M 12 481.30e6 11.520e9 15128 380.7e9 1.8e21 0.01489 0.003436 0.95 1.19e-15 12096",
    "d2048": "27.7B-A1.2B 16 1170.74e6 27.718e9 20072 926.1e9 9.2e21 0.01342 0.003097 0.95 1.37e-15 16032",
    "d6144": "535B-A23B 48 22762.49e6 535.305e9 390251 18.005e12 2.7e24 0.00329 0.000759 0.95 6.04e-15 312192",
}

FIGURES: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {name: MappingProxyType(dict(zip(COLUMNS, row.split(), strict=True))) for name, row in _TABLE.items()}
)


def agrees(rung: Rung, column: str, published: str) -> bool:
    """Whether the derived figure, rounded to the last digit that was published, is the published one."""
    derived = getattr(rung, column)
    if isinstance(derived, str):
        return derived == published
    claimed = Decimal(published)
    quantum = Decimal(1).scaleb(int(claimed.as_tuple().exponent))
    rounded = Decimal(derived).quantize(quantum, context=Context(prec=50, rounding=ROUND_HALF_EVEN))
    return rounded == claimed
