"""Ladder arithmetic: a shape of a family fixes a rung, its size, its length and its rates.

Counts are exact integers. Rates are decimals of ``RATE_DIGITS`` significant digits computed without floats, so that a
recipe can hold them as strings that every host writes alike. Refuses shapes that no model can have, and runs too short
to switch their data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction
from math import lcm
from typing import Self

from registry.core import decimals
from registry.core.canonical import Json
from registry.core.family import Family, count
from registry.errors import Refused

RATE_DIGITS = 10
MATRICES_PER_EXPERT = 3  # gate, up, down
_THOUSAND = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What is chosen for a rung: width, layers, key-value heads of local and global layers, sequences per step."""

    hidden: int
    layers: int
    kv_heads: tuple[int, int]
    batch_sequences: int

    @classmethod
    def from_settings(cls, settings: Mapping[str, Json]) -> Self:
        """Read ``hidden``, ``layers``, ``kv_heads`` (``[local, global]``) and ``batch_sequences``; ignore other keys.

        Raises ``Refused`` for a missing or malformed one.
        """
        pair = settings.get("kv_heads")
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise Refused(f"kv_heads is {pair!r}, not a pair.", remedy="Write it as [local, global].")
        return cls(
            hidden=count(settings.get("hidden"), "hidden"),
            layers=count(settings.get("layers"), "layers"),
            kv_heads=(count(pair[0], "kv_heads[0]"), count(pair[1], "kv_heads[1]")),
            batch_sequences=count(settings.get("batch_sequences"), "batch_sequences"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """One member of a family, everything derived. Steps, tokens and FLOPs are of the whole run."""

    family: str
    hidden: int
    layers: int
    heads: int
    kv_heads: tuple[int, int]
    expert_width: int
    latent_width: int | None
    batch_sequences: int
    active_parameters: int
    total_parameters: int
    tokens_per_step: int
    steps: int
    flops: int
    adam_lr: Decimal
    muonh_lr: Decimal
    beta2: Decimal
    epsilon: Decimal
    warmup_steps: int
    phase_switch_step: int

    @property
    def tokens(self) -> int:
        """Tokens of the whole run."""
        return self.steps * self.tokens_per_step

    @property
    def label(self) -> str:
        """Total and active parameters in words, such as ``1.6B-A61M``."""
        total = _short(self.total_parameters, one_decimal_below=100)
        return f"{total}-A{_short(self.active_parameters, one_decimal_below=10)}"

    def to_json(self) -> dict[str, Json]:
        """The rung as a canonical value: decimals and FLOPs as strings, the rest as integers."""
        stored = {field.name: _plain(field.name, getattr(self, field.name)) for field in fields(self)}
        return {**stored, "label": self.label, "tokens": self.tokens}


def derive(family: Family, shape: Shape) -> Rung:
    """Derive the rung of ``family`` with ``shape``.

    Raises ``Refused`` when heads, key-value heads or expert widths do not come out whole, or when no mixture block ends
    before the run's switch to the second data phase.
    """
    heads = _heads(family, shape)
    width = _whole(family.expert_width * shape.hidden, "The expert width")
    latent = None if family.latent_width is None else _whole(family.latent_width * shape.hidden, "The latent width")
    active, total = _parameters(family, shape, latent)
    tokens_per_step = shape.batch_sequences * family.context_tokens
    steps = max(1, round(family.tokens_per_active_parameter * active / tokens_per_step))
    adam, muonh = _learning_rates(family, shape.hidden, steps, tokens_per_step)
    return Rung(
        family=family.name,
        hidden=shape.hidden,
        layers=shape.layers,
        heads=heads,
        kv_heads=shape.kv_heads,
        expert_width=width,
        latent_width=latent,
        batch_sequences=shape.batch_sequences,
        active_parameters=active,
        total_parameters=total,
        tokens_per_step=tokens_per_step,
        steps=steps,
        flops=steps * tokens_per_step * _flops_per_token(family, shape, latent),
        adam_lr=adam,
        muonh_lr=muonh,
        beta2=_beta2(family, tokens_per_step),
        epsilon=_epsilon(family, steps),
        warmup_steps=int(family.schedule.warmup_fraction * steps),
        phase_switch_step=_phase_switch_step(family, shape, steps),
    )


def global_layers(family: Family, layers: int) -> int:
    """How many of ``layers`` attend to the whole context."""
    if family.sliding_window is None or family.global_every is None:
        return layers
    strided, rest = divmod(layers, family.global_every)
    return strided + (1 if rest and family.last_layer_global else 0)


def _heads(family: Family, shape: Shape) -> int:
    heads, rest = divmod(shape.hidden, family.head_dim)
    if rest:
        raise Refused(
            f"A width of {shape.hidden} does not divide into heads of {family.head_dim}.",
            remedy=f"Choose a multiple of {family.head_dim}.",
        )
    for kv_heads in shape.kv_heads:
        if heads % kv_heads:
            raise Refused(
                f"{heads} attention heads cannot share {kv_heads} key-value heads evenly.",
                remedy=f"Choose key-value heads that divide {heads}.",
            )
    return heads


def _whole(value: Fraction, what: str) -> int:
    if value.denominator != 1 or value < 1:
        raise Refused(f"{what} would be {value}, not a whole number.", remedy="Choose another width.")
    return value.numerator


def _parameters(family: Family, shape: Shape, latent: int | None) -> tuple[int, int]:
    """Active and total parameters. Norms, gates and convolutions are left out, and of the active ones the embeddings.

    Key and value projections count with the larger of the two numbers of heads, as the published figures do.
    """
    attention = 2 * shape.hidden * shape.hidden + 2 * shape.hidden * max(shape.kv_heads) * family.head_dim
    common, expert = _mixture_parameters(family, shape.hidden, latent)
    active = shape.layers * (attention + common + family.experts_per_token * expert)
    idle = shape.layers * (family.routed_experts - family.experts_per_token) * expert
    return active, active + idle + 2 * family.vocabulary * shape.hidden


def _mixture_parameters(family: Family, hidden: int, latent: int | None) -> tuple[int, int]:
    """Parameters of one layer's mixture outside of its routed experts, and of one routed expert."""
    width = int(family.expert_width * hidden)
    router = hidden * family.routed_experts
    projections = 0 if latent is None else 2 * hidden * latent
    shared = family.shared_experts * MATRICES_PER_EXPERT * hidden * width
    return router + projections + shared, MATRICES_PER_EXPERT * width * (latent or hidden)


def _flops_per_token(family: Family, shape: Shape, latent: int | None) -> int:
    """FLOPs of one token, forward and backward (three times forward).

    Form of the published estimate (Levanter's ``lm_flops_per_token`` and the launcher's correction for latent experts):
    two per multiplied parameter; per attended position four per head dimension and three per head for scores, mask and
    mix, with no half for causality and no more than the window in local layers; the head, but not the embedding. The
    last layer counts as the global layer that it is; the published form leaves it out, which its figures do not show.
    """
    heads = shape.hidden // family.head_dim
    everywhere = global_layers(family, shape.layers)
    local = shape.layers - everywhere
    common, expert = _mixture_parameters(family, shape.hidden, latent)
    mixture = shape.layers * (common + family.experts_per_token * expert)
    query_and_output = shape.layers * 2 * shape.hidden * shape.hidden
    kv_layers = local * shape.kv_heads[0] + everywhere * shape.kv_heads[1]
    multiplied = mixture + query_and_output + 2 * shape.hidden * kv_layers * family.head_dim
    window = min(family.sliding_window or family.context_tokens, family.context_tokens)
    attended = local * window + everywhere * family.context_tokens
    attention = attended * heads * (4 * family.head_dim + 3)
    return 3 * (2 * (multiplied + family.vocabulary * shape.hidden) + attention)


def _learning_rates(family: Family, hidden: int, steps: int, tokens_per_step: int) -> tuple[Decimal, Decimal]:
    rates = family.rates
    adam = decimals.multiply(
        decimals.divide(rates.adam_coefficient),
        decimals.power(steps * tokens_per_step, decimals.divide(rates.tokens_exponent)),
        decimals.power(hidden, decimals.divide(rates.width_exponent)),
        Decimal(tokens_per_step).sqrt(decimals.CONTEXT),
    )
    largest = decimals.divide(rates.largest)
    capped = min(adam, largest)
    muonh = min(decimals.multiply(capped, decimals.divide(rates.muonh_ratio)), largest)
    return decimals.round_digits(capped, RATE_DIGITS), decimals.round_digits(muonh, RATE_DIGITS)


def _beta2(family: Family, tokens_per_step: int) -> Decimal:
    rates = family.rates
    exponent = decimals.divide(Fraction(tokens_per_step, rates.beta2_reference_tokens))
    free = decimals.power(decimals.divide(rates.beta2_base), exponent)
    bounded = min(max(free, decimals.divide(rates.beta2_smallest)), decimals.divide(rates.beta2_largest))
    return decimals.round_digits(bounded, RATE_DIGITS)


def _epsilon(family: Family, steps: int) -> Decimal:
    """Tokens over tokens per step is the number of steps."""
    root = Decimal(steps).sqrt(decimals.CONTEXT)
    return decimals.round_digits(
        decimals.multiply(decimals.divide(family.rates.epsilon_coefficient), root), RATE_DIGITS
    )


def _phase_switch_step(family: Family, shape: Shape, steps: int) -> int:
    """The last step up to the switch fraction at which a mixture block ends exactly: block and step boundaries meet."""
    stride = lcm(shape.batch_sequences, family.schedule.block_sequences) // shape.batch_sequences
    switch = int(family.schedule.switch_fraction * steps) // stride * stride
    if switch == 0:
        raise Refused(
            f"A run of {steps} steps of {shape.batch_sequences} sequences ends no mixture block of "
            f"{family.schedule.block_sequences} sequences before its data should switch.",
            remedy="Choose a smaller batch or a smaller block.",
        )
    return switch


def _short(value: int, *, one_decimal_below: int) -> str:
    """``value`` as ``1.6B``, ``481M`` or ``62K``; billions and thousands show one decimal below the bound."""
    unit, scale = next((unit, scale) for unit, scale in _UNITS if value >= scale or scale == 1)
    scaled = decimals.divide(Fraction(value, scale))
    quantum = Decimal("0.1") if scaled < one_decimal_below and scale > 1 else Decimal(1)
    return f"{scaled.quantize(quantum, rounding=ROUND_HALF_EVEN)}{unit}"


_UNITS = (("B", _THOUSAND**3), ("M", _THOUSAND**2), ("K", _THOUSAND), ("", 1))


def _plain(name: str, value: object) -> Json:
    if isinstance(value, Decimal) or name == "flops":
        return decimals.write(value) if isinstance(value, Decimal) else str(value)
    if isinstance(value, tuple):
        return list(value)
    if value is None or isinstance(value, int | str):
        return value
    raise AssertionError(f"{name} has no plain form")
