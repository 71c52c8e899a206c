"""What training notices by itself: spikes, jumps, drops, and numbers that are none."""

from __future__ import annotations

import math

import pytest

from registry.core.incidents import Kind
from train.incidents import BIAS, DROPPED, Diverged, Watch, require_finite

KIND = "router-bias-jump"
SETTINGS = {"spike_nats": "1", "norm_factor": "10", "bias_factor": "2", "dropped_share": "0.2", "window": 5}


def seen(losses: list[float], norms: list[float] | None = None, dropped: float = 0.0) -> list[tuple[str, int]]:
    watch = Watch.from_settings(SETTINGS)
    found: list[tuple[str, int]] = []
    for step, loss in enumerate(losses, start=1):
        norm = norms[step - 1] if norms else 1.0
        found.extend((one.incident, one.first_step) for one in watch.see(step, loss, norm, {DROPPED: dropped}))
    return found


def test_a_calm_run_without_router_biases_has_no_incidents() -> None:
    assert seen([8 - 0.1 * step for step in range(50)]) == []


def test_a_loss_above_its_recent_median_is_a_spike() -> None:
    assert seen([3.0] * 6 + [4.5, 3.0]) == [("loss-spike", 7)]


def test_early_steps_have_nothing_to_be_compared_with() -> None:
    assert seen([3.0, 9.0, 3.0]) == []


def test_a_gradient_norm_that_jumps_is_told() -> None:
    assert seen([3.0] * 8, [1.0] * 6 + [11.0, 1.0]) == [("gradient-norm-jump", 7)]


def biased(*layers: list[float]) -> list[tuple[int, str]]:
    """The jumps of router biases, with their words, in a run that is calm otherwise."""
    watch, found = Watch.from_settings(SETTINGS), []
    for step, norms in enumerate(zip(*layers, strict=True), start=1):
        facts = {f"{BIAS}{layer}": norm for layer, norm in enumerate(norms)}
        found += [(one.first_step, one.text) for one in watch.see(step, 3.0, 1.0, facts) if one.incident == KIND]
    return found


def test_a_router_bias_that_jumps_is_told_once_with_its_layer_and_what_it_was() -> None:
    calm, jumping = [0.5] * 12, [1.0] * 6 + [3.0] * 6
    [(step, words)] = biased(calm, jumping)
    assert step == 7
    assert "router biases of layer 1 is 3.0000, in the last 5 steps at most 1.0000; 1 of 2" in words
    assert "not a trained weight" in words


def test_a_bias_that_grows_by_and_by_does_not_jump() -> None:
    assert biased([0.1 * 1.5**step for step in range(20)]) == []


def test_a_bias_that_is_no_number_is_told() -> None:
    assert [step for step, _ in biased([1.0] * 6 + [math.nan] * 9)] == [7]


def test_what_goes_on_is_told_once_and_what_comes_back_again() -> None:
    assert seen([3.0] * 9, dropped=0.3) == [("dropped-tokens", 1)]
    assert seen([3.0] * 6 + [9.0, 9.0] + [3.0] * 6 + [9.0]) == [("loss-spike", 7), ("loss-spike", 15)]


def test_training_tells_only_known_kinds() -> None:
    told = {kind for kind, _ in seen([3.0] * 6 + [9.0, math.nan], [1.0] * 6 + [99.0, 1.0], dropped=0.3)}
    assert len(told) == 4
    assert told | {KIND} <= set(Kind)


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_none_is_an_incident_and_ends_the_run(loss: float) -> None:
    assert seen([3.0, loss]) == [("nan", 2)]
    with pytest.raises(Diverged, match="step 2"):
        require_finite(2, loss, 1.0)
    with pytest.raises(Diverged, match="step 2"):
        require_finite(2, 1.0, loss)
    require_finite(2, 1.0, 1.0)
