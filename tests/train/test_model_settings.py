"""Model and optimizer follow from settings and the ladder's arithmetic; what they cannot be is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from levanter.optim import AdamConfig, MuonHConfig
from support import pocket

from registry.core.family import Family
from registry.core.ladder import Rung, Shape, derive
from registry.errors import Refused
from train.model import Mixtral, family
from train.optimizer import optimizer

pytestmark = pytest.mark.slow

CONSTANTS = Family.from_settings(pocket.PARAMS["family"])
TRAINING: dict[str, Any] = pocket.PARAMS["training"]
MODEL: dict[str, Any] = pocket.PARAMS["model"]


def rung(constants: Family = CONSTANTS, **changes: Any) -> Rung:
    shape = {"hidden": 16, "layers": 2, "kv_heads": [1, 1], "batch_sequences": 8, **changes}
    return derive(constants, Shape.from_settings(shape))


def test_the_model_has_the_shape_of_its_rung() -> None:
    found = family(CONSTANTS, rung(), MODEL, end=1)
    assert isinstance(found, Mixtral)
    config = found.config
    assert (config.hidden_dim, config.num_layers, config.num_heads, config.num_kv_heads) == (16, 2, 2, 1)
    assert (config.intermediate_dim, config.n_routed_experts, config.num_experts_per_tok) == (8, 4, 2)
    assert (found.Vocab.size, found.Pos.size, found.end) == (pocket.VOCABULARY, pocket.POSITIONS, 1)
    assert config.rzl_coef == 1e-3


@pytest.mark.parametrize(
    ("constants", "shape", "settings"),
    [
        (CONSTANTS, {}, {"family": "abacus"}),
        (replace(CONSTANTS, sliding_window=8, global_every=2), {}, {}),
        (CONSTANTS, {"kv_heads": [2, 1]}, {}),
        (CONSTANTS, {}, {"logit_z_loss": 1e-4}),
    ],
)
def test_a_model_that_the_family_cannot_be_is_refused(
    constants: Family, shape: dict[str, Any], settings: dict[str, Any]
) -> None:
    with pytest.raises(Refused):
        family(constants, rung(constants, **shape), {**MODEL, **settings}, end=1)


def test_rates_come_from_the_ladder_and_a_factor() -> None:
    one = rung()
    adam = optimizer(TRAINING, one, CONSTANTS.schedule)
    assert isinstance(adam, AdamConfig)
    assert (adam.learning_rate, adam.beta2, adam.epsilon) == (float(one.adam_lr), float(one.beta2), float(one.epsilon))
    assert (adam.lr_schedule, adam.min_lr_ratio, adam.weight_decay) == ("linear", 0.05, 0)
    halved = optimizer({**TRAINING, "rate_factor": "0.5"}, one, CONSTANTS.schedule)
    assert halved.learning_rate == adam.learning_rate / 2
    muon = optimizer({**TRAINING, "optimizer": "muonH"}, one, CONSTANTS.schedule)
    assert isinstance(muon, MuonHConfig)
    assert (muon.learning_rate, muon.adam_lr) == (float(one.muonh_lr), float(one.adam_lr))


@pytest.mark.parametrize("steps", [0, 1, 2, 40])
def test_warm_up_is_a_number_of_steps_never_a_fraction(steps: int) -> None:
    """Levanter takes 1 for the whole run: a warm-up of one step is then none."""
    one = replace(rung(), warmup_steps=steps, steps=200)
    schedule = optimizer(TRAINING, one, CONSTANTS.schedule).lr_scheduler(one.steps)
    peak = max(range(one.steps), key=lambda step: float(schedule(step)))
    assert peak == (steps if steps > 1 else 0)


@pytest.mark.parametrize(
    "change",
    [{"optimizer": "abacus"}, {"optimizer": "muonH", "weight_decay": "0.1"}, {"rate_factor": 1}, {"decayed": "gate"}],
)
def test_an_optimizer_that_cannot_be_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(Refused):
        optimizer({**TRAINING, **change}, rung(), CONSTANTS.schedule)
