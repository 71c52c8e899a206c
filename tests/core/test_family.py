"""Families from settings: exact constants, and refusals that name the field."""

from __future__ import annotations

import copy
from fractions import Fraction
from typing import Any

import pytest

from registry.core.family import Family, count, ratio
from registry.errors import Refused

SETTINGS: dict[str, Any] = {
    "name": "pocket",
    "vocabulary": 2048,
    "context_tokens": 128,
    "head_dim": 16,
    "routed_experts": 8,
    "experts_per_token": 2,
    "shared_experts": 0,
    "expert_width": "1/2",
    "latent_width": None,
    "sliding_window": None,
    "global_every": None,
    "last_layer_global": False,
    "tokens_per_active_parameter": 20,
    "rates": {
        "adam_coefficient": 0.087571,
        "tokens_exponent": "-0.3461",
        "width_exponent": -0.3448,
        "muonh_ratio": "13/3",
        "largest": 0.05,
        "epsilon_coefficient": "9.676e-18",
        "beta2_base": 0.999,
        "beta2_reference_tokens": 131072,
        "beta2_smallest": 0.95,
        "beta2_largest": 0.9999,
    },
    "schedule": {"warmup_fraction": 0.01, "final_ratio": 0.05, "switch_fraction": 0.8, "block_sequences": 64},
}


def changed(**values: object) -> dict[str, Any]:
    """The settings with some fields changed, ``section__field`` for nested ones."""
    settings = copy.deepcopy(SETTINGS)
    for name, value in values.items():
        *sections, field = name.split("__")
        target = settings
        for section in sections:
            target = target[section]
        target[field] = value
    return settings


def test_constants_are_exact() -> None:
    family = Family.from_settings(SETTINGS)
    assert family.expert_width == Fraction(1, 2)
    assert family.rates.adam_coefficient == Fraction(87571, 1000000)
    assert family.rates.muonh_ratio == Fraction(13, 3)
    assert family.schedule.switch_fraction == Fraction(4, 5)


def test_a_float_and_its_decimal_string_are_one_constant() -> None:
    spelled = changed(rates__beta2_base="0.999", schedule__warmup_fraction="0.01")
    assert Family.from_settings(spelled) == Family.from_settings(SETTINGS)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"vocabulary": 0}, "vocabulary"),
        ({"vocabulary": True}, "vocabulary"),
        ({"vocabulary": 2048.0}, "vocabulary"),
        ({"name": ""}, "name"),
        ({"head_dim": 2**60}, "head_dim"),
        ({"expert_width": "half"}, "expert_width"),
        ({"expert_width": "1/0"}, "expert_width"),
        ({"expert_width": -1}, "expert_width"),
        ({"latent_width": "1e9999999"}, "latent_width"),
        ({"experts_per_token": 9}, "9 of 8 experts"),
        ({"sliding_window": 64}, "only one of"),
        ({"last_layer_global": "yes"}, "last_layer_global"),
        ({"tokens_per_active_parameter": 0}, "tokens_per_active_parameter"),
        ({"rates": 3}, "rates"),
        ({"rates__tokens_exponent": "-99"}, "tokens_exponent"),
        ({"rates__beta2_base": "0"}, "beta2_base"),
        ({"rates__largest": float("nan")}, "largest"),
        ({"schedule__switch_fraction": "1.5"}, "switch_fraction"),
        ({"schedule__block_sequences": None}, "block_sequences"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_impossible_constants_are_refused_by_name(change: dict[str, object], said: str) -> None:
    with pytest.raises(Refused, match=said) as refusal:
        Family.from_settings(changed(**change))
    assert refusal.value.remedy


def test_a_missing_field_is_named() -> None:
    settings = changed()
    del settings["rates"]["largest"]
    with pytest.raises(Refused, match="largest"):
        Family.from_settings(settings)


def test_numbers_have_bounds() -> None:
    assert count(0, "n", least=0) == 0
    assert ratio("9.676e-18", "n") == Fraction(9676, 10**21)
    with pytest.raises(Refused):
        ratio("9" * 65, "n")
