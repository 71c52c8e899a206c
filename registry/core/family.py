"""A model family: everything of a rung that its shape does not say.

A family holds constants and laws; a shape (``registry.core.ladder``) picks one member. Every constant is exact: a
decimal is the number that its digits say, and a ratio is written ``"13/3"``. Refuses constants that no model can have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from fractions import Fraction
from typing import Self

from registry.core.canonical import Json
from registry.errors import Refused

_LARGEST_COUNT = 2**48
_LARGEST_POWER = 8
_LONGEST = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLaw:
    """Learning rates, epsilon and beta2 from tokens, width and tokens per step.

    ``adam = adam_coefficient · tokens^tokens_exponent · hidden^width_exponent · √tokens_per_step`` and
    ``muonh = muonh_ratio · adam``, each at most ``largest``; ``epsilon = epsilon_coefficient · √(tokens /
    tokens_per_step)``; ``beta2 = beta2_base^(tokens_per_step / beta2_reference_tokens)``, held within its two bounds.
    The form is that of the published ladder's heuristic.
    """

    adam_coefficient: Fraction
    tokens_exponent: Fraction
    width_exponent: Fraction
    muonh_ratio: Fraction
    largest: Fraction
    epsilon_coefficient: Fraction
    beta2_base: Fraction
    beta2_reference_tokens: int
    beta2_smallest: Fraction
    beta2_largest: Fraction

    @classmethod
    def from_settings(cls, settings: Mapping[str, Json]) -> Self:
        """Read every field from ``settings``. Raises ``Refused`` for a missing, unknown or malformed one."""
        values = _exactly(settings, {field.name for field in fields(cls)}, "rates")
        reference = count(values.pop("beta2_reference_tokens"), "rates.beta2_reference_tokens")
        exponents = {"tokens_exponent", "width_exponent"}
        numbers = {
            name: _exponent(value, f"rates.{name}") if name in exponents else _positive(value, f"rates.{name}")
            for name, value in values.items()
        }
        return cls(beta2_reference_tokens=reference, **numbers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Warm-up and decay as fractions of the run, and where the data switches to its second phase."""

    warmup_fraction: Fraction
    final_ratio: Fraction
    switch_fraction: Fraction
    block_sequences: int

    @classmethod
    def from_settings(cls, settings: Mapping[str, Json]) -> Self:
        """Read every field from ``settings``. Raises ``Refused`` for a missing, unknown or malformed one."""
        values = _exactly(settings, {field.name for field in fields(cls)}, "schedule")
        return cls(
            warmup_fraction=_share(values["warmup_fraction"], "schedule.warmup_fraction"),
            final_ratio=_share(values["final_ratio"], "schedule.final_ratio"),
            switch_fraction=_share(values["switch_fraction"], "schedule.switch_fraction"),
            block_sequences=count(values["block_sequences"], "schedule.block_sequences"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Constants of a mixture-of-experts family in which every layer is such a mixture.

    ``expert_width`` and ``latent_width`` are fractions of the model width. Without a latent width the experts read and
    write the model width. Without ``sliding_window`` every layer attends to the whole context; with it, every
    ``global_every``-th layer does, and the last one if ``last_layer_global``.
    """

    name: str
    vocabulary: int
    context_tokens: int
    head_dim: int
    routed_experts: int
    experts_per_token: int
    shared_experts: int
    expert_width: Fraction
    latent_width: Fraction | None
    sliding_window: int | None
    global_every: int | None
    last_layer_global: bool
    tokens_per_active_parameter: Fraction
    rates: RateLaw
    schedule: Schedule

    def __post_init__(self) -> None:
        if self.experts_per_token > self.routed_experts:
            raise Refused(
                f"Family {self.name!r} sends a token to {self.experts_per_token} of {self.routed_experts} experts.",
                remedy="Choose experts_per_token no larger than routed_experts.",
            )
        if (self.sliding_window is None) != (self.global_every is None):
            raise Refused(
                f"Family {self.name!r} names only one of sliding_window and global_every.",
                remedy="Give both, or neither for full attention in every layer.",
            )

    @classmethod
    def from_settings(cls, settings: Mapping[str, Json]) -> Self:
        """Read a family from plain settings, such as the ``family`` section of ``params.yaml``.

        Raises ``Refused`` for a missing, unknown or malformed field, and for constants that contradict each other.
        """
        values = _exactly(settings, {field.name for field in fields(cls)}, "family")
        counts = ("vocabulary", "context_tokens", "head_dim", "routed_experts", "experts_per_token")
        return cls(
            name=_text(values["name"], "name"),
            **{name: count(values[name], name) for name in counts},
            shared_experts=count(values["shared_experts"], "shared_experts", least=0),
            expert_width=_positive(values["expert_width"], "expert_width"),
            latent_width=None if values["latent_width"] is None else _positive(values["latent_width"], "latent_width"),
            sliding_window=_optional_count(values["sliding_window"], "sliding_window"),
            global_every=_optional_count(values["global_every"], "global_every"),
            last_layer_global=_flag(values["last_layer_global"], "last_layer_global"),
            tokens_per_active_parameter=_positive(values["tokens_per_active_parameter"], "tokens_per_active_parameter"),
            rates=RateLaw.from_settings(_section(values["rates"], "rates")),
            schedule=Schedule.from_settings(_section(values["schedule"], "schedule")),
        )


def count(value: object, name: str, *, least: int = 1) -> int:
    """A whole number of at least ``least``. Raises ``Refused`` otherwise."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _LARGEST_COUNT:
        raise Refused(f"{name} is {value!r}, not a whole number of at least {least}.", remedy=f"Correct {name}.")
    return value


def ratio(value: object, name: str) -> Fraction:
    """The number that an integer, a decimal or a ratio string spells. Raises ``Refused`` for anything else.

    A float stands for its shortest decimal: that is what the file said before a reader of YAML made it binary.
    """
    text = str(value)
    if isinstance(value, int | float | str) and not isinstance(value, bool) and len(text) <= _LONGEST:
        try:
            return Fraction(text) if "/" in text else _from_decimal(text)
        except (ValueError, ArithmeticError):
            pass
    raise Refused(f"{name} is {text[:_LONGEST]!r}, not a number.", remedy='Write a decimal or a ratio: 0.95, "13/3".')


def _from_decimal(text: str) -> Fraction:
    value = Decimal(text)
    if not value.is_finite() or abs(value.adjusted()) > 100:
        raise ValueError(text)
    return Fraction(value)


def _positive(value: object, name: str) -> Fraction:
    number = ratio(value, name)
    if number <= 0:
        raise Refused(f"{name} is {value!r}, not positive.", remedy=f"Correct {name}.")
    return number


def _exponent(value: object, name: str) -> Fraction:
    number = ratio(value, name)
    if abs(number) > _LARGEST_POWER:
        raise Refused(f"{name} is {value!r}: no law has such a power.", remedy=f"Correct {name}.")
    return number


def _share(value: object, name: str) -> Fraction:
    number = ratio(value, name)
    if not 0 <= number <= 1:
        raise Refused(f"{name} is {value!r}, not between 0 and 1.", remedy=f"Correct {name}.")
    return number


def _optional_count(value: object, name: str) -> int | None:
    return None if value is None else count(value, name)


def _flag(value: object, name: str) -> bool:
    if not isinstance(value, bool):
        raise Refused(f"{name} is {value!r}, neither true nor false.", remedy=f"Correct {name}.")
    return value


def _text(value: object, name: str) -> str:
    if not isinstance(value, str) or not value:
        raise Refused(f"{name} is {value!r}, not a name.", remedy=f"Correct {name}.")
    return value


def _section(value: object, name: str) -> Mapping[str, Json]:
    if not isinstance(value, Mapping):
        raise Refused(f"The family's {name} is not a section of settings.", remedy=f"Write {name} as a mapping.")
    return value


def _exactly(settings: Mapping[str, Json], names: set[str], section: str) -> dict[str, Json]:
    missing, unknown = sorted(names - set(settings)), sorted(set(settings) - names)
    if missing or unknown:
        raise Refused(
            f"The {section} settings lack {missing or 'nothing'} and have unknown {unknown or 'nothing'}.",
            remedy=f"Give exactly: {', '.join(sorted(names))}.",
        )
    return dict(settings)
