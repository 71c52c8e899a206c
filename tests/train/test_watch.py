"""What training notices by itself: spikes, jumps, drops, and numbers that are none."""

from __future__ import annotations

import math

import pytest

from train.incidents import DROPPED, Diverged, Watch, require_finite

SETTINGS = {"spike_nats": "1", "norm_factor": "10", "dropped_share": "0.2", "window": 5}


def seen(losses: list[float], norms: list[float] | None = None, dropped: float = 0.0) -> list[tuple[str, int]]:
    watch = Watch.from_settings(SETTINGS)
    found: list[tuple[str, int]] = []
    for step, loss in enumerate(losses, start=1):
        norm = norms[step - 1] if norms else 1.0
        found.extend((one.incident, one.first_step) for one in watch.see(step, loss, norm, {DROPPED: dropped}))
    return found


def test_a_calm_run_has_no_incidents() -> None:
    assert seen([8 - 0.1 * step for step in range(50)]) == []


def test_a_loss_above_its_recent_median_is_a_spike() -> None:
    assert seen([3.0] * 6 + [4.5, 3.0]) == [("loss-spike", 7)]


def test_early_steps_have_nothing_to_be_compared_with() -> None:
    assert seen([3.0, 9.0, 3.0]) == []


def test_a_gradient_norm_that_jumps_is_told() -> None:
    assert seen([3.0] * 8, [1.0] * 6 + [11.0, 1.0]) == [("gradient-norm-jump", 7)]


def test_dropped_assignments_over_the_share_are_told_at_every_step() -> None:
    assert seen([3.0] * 2, dropped=0.3) == [("dropped-tokens", 1), ("dropped-tokens", 2)]


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_none_is_an_incident_and_ends_the_run(loss: float) -> None:
    assert seen([3.0, loss]) == [("nan", 2)]
    with pytest.raises(Diverged, match="step 2"):
        require_finite(2, loss, 1.0)
    with pytest.raises(Diverged, match="step 2"):
        require_finite(2, 1.0, loss)
    require_finite(2, 1.0, 1.0)
