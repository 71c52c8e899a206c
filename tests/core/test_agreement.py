"""The settings of an export: whatever file says otherwise is named."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from registry.core.agreement import CONFIG, GENERATION, IDENTITY, TOKENIZER, Agreed
from registry.core.codec import Reader
from registry.errors import MalformedRecord

AGREED = Agreed(vocabulary=320, positions=16, rotary_base="10000", begin=0, end=1, pad=2)
IDS = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
NAMES = {"bos_token": "<|begin|>", "eos_token": "<|end|>", "pad_token": "<|pad|>"}

Documents = dict[str, dict[str, Any]]


def documents() -> Documents:
    decoder = {str(number): {"content": text} for number, text in enumerate(NAMES.values())}
    return {
        CONFIG: {**IDS, "vocab_size": 320, "max_position_embeddings": 16, "rope_theta": 10000.0},
        GENERATION: {**IDS, "max_length": 16},
        IDENTITY: {"vocabulary": 320, "special": {"bos_token": 0, "eos_token": 1, "pad_token": 2}},
        TOKENIZER: {**NAMES, "added_tokens_decoder": decoder},
    }


def test_files_that_agree_give_no_complaint() -> None:
    assert AGREED.disagreements(documents()) == ()
    stated = documents()
    stated[TOKENIZER]["model_max_length"] = 16
    stated[CONFIG] |= {"rope_theta": 10000, "rope_scaling": None}
    assert AGREED.disagreements(stated) == ()


@pytest.mark.parametrize(
    ("name", "change", "complaint"),
    [
        (CONFIG, lambda one: one.update(eos_token_id=2), "config.json says eos_token_id 2, but the model has 1."),
        (CONFIG, lambda one: one.pop("pad_token_id"), "config.json says pad_token_id None"),
        (CONFIG, lambda one: one.update(bos_token_id=False), "bos_token_id False"),
        (CONFIG, lambda one: one.update(eos_token_id=[1, 2]), "eos_token_id [1, 2]"),
        (CONFIG, lambda one: one.update(vocab_size=32000), "vocab_size 32000, but the model has 320"),
        (CONFIG, lambda one: one.update(max_position_embeddings=4096), "max_position_embeddings 4096"),
        (CONFIG, lambda one: one.update(rope_theta=1e6), "rope_theta 1000000.0"),
        (CONFIG, lambda one: one.update(rope_theta="much"), "rope_theta 'much'"),
        (CONFIG, lambda one: one.update(rope_theta=float("nan")), "rope_theta nan"),
        (CONFIG, lambda one: one.update(rope_scaling={"type": "yarn"}), "rope_scaling"),
        (GENERATION, lambda one: one.update(eos_token_id=0), "generation_config.json says eos_token_id 0"),
        (GENERATION, lambda one: one.update(max_length=20), "max_length 20, but the model has 16"),
        (IDENTITY, lambda one: one.update(vocabulary=321), "identity.json says vocabulary 321"),
        (IDENTITY, lambda one: one["special"].update(eos_token=2), "identity.json says eos_token 2"),
        (IDENTITY, lambda one: one.update(special="none"), "identity.json says bos_token None"),
        (TOKENIZER, lambda one: one.update(eos_token="<|pad|>"), "tokenizer_config.json says eos_token 2"),
        (TOKENIZER, lambda one: one.update(eos_token=["<|pad|>"]), "tokenizer_config.json says eos_token None"),
        (TOKENIZER, lambda one: one.update(added_tokens_decoder=[]), "tokenizer_config.json says bos_token None"),
        (TOKENIZER, lambda one: one.update(model_max_length=1024), "model_max_length 1024"),
    ],
)
def test_what_disagrees_is_named(name: str, change: Callable[[Any], object], complaint: str) -> None:
    altered = copy.deepcopy(documents())
    change(altered[name])
    found = AGREED.disagreements(altered)
    assert any(complaint in one for one in found)


def test_an_endless_number_is_no_id() -> None:
    altered = documents()
    altered[TOKENIZER]["added_tokens_decoder"]["9" * 5000] = {"content": "<|end|>"}
    assert AGREED.disagreements(altered) == ()


def test_it_comes_back_from_its_json() -> None:
    assert Agreed.read(Reader(AGREED.to_json(), "the settings")) == AGREED
    with pytest.raises(MalformedRecord, match="unknown fields"):
        Agreed.read(Reader({**AGREED.to_json(), "more": 1}, "the settings"))
