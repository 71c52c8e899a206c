"""Ladder arithmetic on small shapes, against counts made another way, and its refusals."""

from __future__ import annotations

import dataclasses
from decimal import ROUND_UP, Context, Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.core import canonical, decimals
from registry.core.ladder import Shape, derive, global_layers
from registry.core.published import FAMILY
from registry.errors import Refused

POCKET = dataclasses.replace(
    FAMILY,
    name="pocket",
    vocabulary=1000,
    context_tokens=128,
    head_dim=16,
    routed_experts=8,
    experts_per_token=2,
    shared_experts=0,
    latent_width=None,
    sliding_window=None,
    global_every=None,
    tokens_per_active_parameter=Fraction(20),
    schedule=dataclasses.replace(FAMILY.schedule, block_sequences=64),
)
SMALL = Shape(hidden=64, layers=2, kv_heads=(2, 2), batch_sequences=16)


def leaf_sizes(*, experts: int) -> int:
    """Sizes of the weight matrices of two layers of width 64: attention, router, ``experts`` experts of width 32."""
    attention = 64 * 64 + 64 * 32 + 64 * 32 + 64 * 64
    return 2 * (attention + 64 * 8 + experts * 3 * 64 * 32)


def test_parameters_are_the_sizes_of_the_matrices() -> None:
    rung = derive(POCKET, SMALL)
    assert rung.active_parameters == leaf_sizes(experts=2)
    assert rung.total_parameters == leaf_sizes(experts=8) + 2 * 1000 * 64
    assert (rung.heads, rung.expert_width, rung.latent_width) == (4, 32, None)


def test_length_follows_from_active_parameters() -> None:
    rung = derive(POCKET, SMALL)
    assert rung.tokens_per_step == 16 * 128
    assert rung.steps == round(20 * rung.active_parameters / rung.tokens_per_step)
    assert rung.tokens == rung.steps * rung.tokens_per_step


def test_flops_without_a_window_are_six_per_parameter_and_attention() -> None:
    rung = derive(POCKET, SMALL)
    attention = 3 * 2 * 128 * (4 * 64 + 3 * 4)
    assert rung.flops == rung.tokens * (6 * (rung.active_parameters + 1000 * 64) + attention)


def test_a_window_longer_than_the_context_changes_no_flops() -> None:
    windowed = dataclasses.replace(POCKET, sliding_window=4096, global_every=2)
    assert derive(windowed, SMALL).flops == derive(POCKET, SMALL).flops


@pytest.mark.parametrize(("layers", "expected"), [(1, 1), (3, 1), (4, 1), (5, 2), (8, 2), (22, 6)])
def test_every_fourth_layer_and_the_last_are_global(layers: int, expected: int) -> None:
    assert global_layers(FAMILY, layers) == expected


@given(batch=st.sampled_from([1, 2, 3, 16, 48, 96, 100]), block=st.sampled_from([1, 16, 64, 96, 1000]))
def test_the_switch_is_the_last_common_boundary_before_eighty_percent(batch: int, block: int) -> None:
    family = dataclasses.replace(POCKET, schedule=dataclasses.replace(POCKET.schedule, block_sequences=block))
    shape = dataclasses.replace(SMALL, batch_sequences=batch)
    steps = max(1, round(20 * leaf_sizes(experts=2) / (batch * 128)))
    boundaries = [step for step in range(1, steps + 1) if 5 * step <= 4 * steps and step * batch % block == 0]
    if not boundaries:
        with pytest.raises(Refused, match="no mixture block"):
            derive(family, shape)
    else:
        assert derive(family, shape).phase_switch_step == boundaries[-1]


def test_rates_never_pass_their_bound() -> None:
    family = dataclasses.replace(POCKET, rates=dataclasses.replace(POCKET.rates, adam_coefficient=Fraction(10**6)))
    rung = derive(family, SMALL)
    assert rung.adam_lr == rung.muonh_lr == Decimal("0.05")


def test_rates_agree_with_floating_point() -> None:
    rung = derive(POCKET, SMALL)
    adam = 0.087571 * rung.tokens**-0.3461 * 64**-0.3448 * rung.tokens_per_step**0.5
    assert float(rung.adam_lr) == pytest.approx(min(adam, 0.05), rel=1e-9)
    assert float(rung.beta2) == pytest.approx(
        min(max(0.999 ** (rung.tokens_per_step / 131072), 0.95), 0.9999), rel=1e-9
    )
    assert float(rung.epsilon) == pytest.approx(9.676e-18 * rung.steps**0.5, rel=1e-9)


def test_a_rung_is_a_canonical_value() -> None:
    value = canonical.decode(canonical.encode(derive(FAMILY, Shape.from_settings(PUBLISHED_HERO)).to_json()))
    assert isinstance(value, dict)
    assert value["label"] == "535B-A23B"
    assert value["flops"] == "2696023010665861685968896"
    assert decimals.read(value["epsilon"]) == Decimal("6.044604248e-15")


PUBLISHED_HERO = {"hidden": 6144, "layers": 48, "kv_heads": [12, 6], "batch_sequences": 11264}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"hidden": 6145}, "heads of 128"),
        ({"kv_heads": [5, 6]}, "5 key-value heads"),
        ({"kv_heads": [12, 7]}, "7 key-value heads"),
        ({"kv_heads": 12}, "pair"),
        ({"kv_heads": [12]}, "pair"),
        ({"kv_heads": [0, 1]}, "kv_heads"),
        ({"layers": 0}, "layers"),
        ({"hidden": None}, "hidden"),
        ({"batch_sequences": "64"}, "batch_sequences"),
        ({"batch_sequences": 2**40}, "no mixture block"),
    ],
)
def test_impossible_shapes_are_refused_with_a_reason(change: dict[str, object], said: str) -> None:
    with pytest.raises(Refused, match=said) as refusal:
        derive(FAMILY, Shape.from_settings({**PUBLISHED_HERO, **change}))  # type: ignore[dict-item]
    assert refusal.value.remedy


def test_widths_that_do_not_come_out_whole_are_refused() -> None:
    thirds = dataclasses.replace(POCKET, expert_width=Fraction(1, 3))
    with pytest.raises(Refused, match="expert width would be 64/3"):
        derive(thirds, SMALL)
    with pytest.raises(Refused, match="latent width would be 64/5"):
        derive(dataclasses.replace(POCKET, latent_width=Fraction(1, 5)), SMALL)


def test_the_callers_decimal_context_changes_nothing() -> None:
    expected = derive(FAMILY, Shape.from_settings(PUBLISHED_HERO))
    with localcontext(Context(prec=3, rounding=ROUND_UP)):
        assert derive(FAMILY, Shape.from_settings(PUBLISHED_HERO)) == expected
