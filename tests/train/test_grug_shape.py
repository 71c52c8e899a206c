"""The published shapes as models: parameters counted in leaves, the optimizer's groups, shapes that are refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from registry.core import published
from registry.core.family import Family
from registry.core.ladder import Rung, Shape, derive
from registry.errors import Refused
from train.grug.config import PUBLISHED
from train.grug.counting import counted
from train.grug.family import Grug, config_of, grug
from train.grug.optimizer import group

pytestmark = pytest.mark.slow

SMALL = {
    "embeddings.norm.norm.weight",
    "embeddings.norm.down",
    "embeddings.norm.up",
    "layers.stacked.attention_norm.norm.weight",
    "layers.stacked.attention_norm.down",
    "layers.stacked.attention_norm.up",
    "layers.stacked.self_attn.head_gate",
    "layers.stacked.self_attn.key_convolution.taps",
    "layers.stacked.self_attn.value_convolution.taps",
    "layers.stacked.attention_convolution.taps",
    "layers.stacked.mixture_norm.norm.weight",
    "layers.stacked.mixture_norm.down",
    "layers.stacked.mixture_norm.up",
    "layers.stacked.moe.router_state.bias",
    "layers.stacked.moe.router_state.pending",
    "layers.stacked.moe.latent.norm.weight",
    "layers.stacked.mixture_convolution.taps",
    "norm.norm.weight",
    "norm.down",
    "norm.up",
}


def rung(name: str = "d768", constants: Family = published.FAMILY, **changes: Any) -> Rung:
    return derive(constants, replace(published.SHAPES[name], **changes))


def member(name: str) -> Grug:
    return grug(published.FAMILY, rung(name), PUBLISHED, end=1)


@pytest.mark.parametrize("name", published.SHAPES)
def test_the_leaves_add_up_to_the_published_figures(name: str) -> None:
    found, derived = counted(member(name)), rung(name)
    assert (found.total, found.active) == (derived.total_parameters, derived.active_parameters)
    assert published.agrees(derived, "total_parameters", published.FIGURES[name]["total_parameters"])
    assert published.agrees(derived, "active_parameters", published.FIGURES[name]["active_parameters"])
    assert set(found.small) == SMALL
    assert sum(found.small.values()) < found.total / 100


def test_every_fourth_layer_and_the_last_are_global() -> None:
    assert member("d768").config.global_layers.nonzero()[0].tolist() == [3, 7]
    assert member("d2048").config.global_layers.nonzero()[0].tolist() == [3, 7, 11, 15, 19, 21]


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("lm_head.weight", "adamh"),
        ("embeddings.weight", "adam"),
        ("embeddings.norm.down", "adam"),
        ("norm.norm.weight", "adam"),
        ("layers.stacked.self_attn.query", "muonh"),
        ("layers.stacked.self_attn.value", "muonh"),
        ("layers.stacked.self_attn.output", "muonh"),
        ("layers.stacked.self_attn.head_gate", "adam"),
        ("layers.stacked.self_attn.key_convolution.taps", "adam"),
        ("layers.stacked.attention_norm.up", "adam"),
        ("layers.stacked.moe.router", "adam"),
        ("layers.stacked.moe.latent.down", "muonh"),
        ("layers.stacked.moe.latent.norm.weight", "adam"),
        ("layers.stacked.moe.experts.gate_up", "muonh"),
        ("layers.stacked.moe.shared_mlp.down", "muonh"),
        ("layers.stacked.mixture_convolution.taps", "adam"),
    ],
)
def test_each_leaf_has_the_published_optimizer(path: str, wanted: str) -> None:
    assert group(path.split(".")) == wanted


@pytest.mark.parametrize(
    ("constants", "settings", "complaint"),
    [
        (replace(published.FAMILY, sliding_window=None, global_every=None), {}, "have a window"),
        (replace(published.FAMILY, head_dim=6), {}, "no pairs to rotate"),
        (replace(published.FAMILY, experts_per_token=384), {}, "first expert left out"),
        (published.FAMILY, {"convolution_sites": ["query"]}, "Convolutions stand at"),
        (published.FAMILY, {"gated_norm_rank": 0}, "gated_norm_rank"),
        (published.FAMILY, {"qk_multiplier": 1.3}, "must be a string"),
    ],
)
def test_what_the_family_cannot_be_is_refused(constants: Family, settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(Refused, match=complaint):
        config_of(constants, rung(constants=constants, hidden=768), {**PUBLISHED, **settings})


def test_any_other_shape_works() -> None:
    shape = Shape(hidden=1280, layers=5, kv_heads=(5, 2), batch_sequences=3072)
    found = grug(published.FAMILY, derive(published.FAMILY, shape), PUBLISHED, end=1)
    assert counted(found).total == derive(published.FAMILY, shape).total_parameters
