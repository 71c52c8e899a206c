"""What training notices by itself: numbers that are none, and jumps of loss, gradient norm or dropped assignments.

Each becomes an ``incident`` event of the run log on the step at which it was seen; only numbers that are none end the
run. Incidents change nothing in the outputs.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Self

from registry.core.canonical import Json
from registry.core.runlog import Incident
from registry.errors import DoesNotHold
from train.settings import text, whole

DROPPED = "router/dropped_assignments"


class Diverged(DoesNotHold):
    """The loss or the gradient is not a finite number."""


@dataclass(slots=True, kw_only=True)
class Watch:
    """Thresholds, and the last losses and gradient norms.

    ``spike_nats``: rise of the loss above its recent median; ``norm_factor``: gradient norm over its recent median;
    ``dropped_share``: dropped over all assignments of a step; ``window``: how many steps are recent.
    """

    spike_nats: float
    norm_factor: float
    dropped_share: float
    window: int
    _losses: deque[float] = field(default_factory=deque)
    _norms: deque[float] = field(default_factory=deque)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Json]) -> Self:
        """Read the thresholds."""
        return cls(
            spike_nats=float(text(settings, "spike_nats")),
            norm_factor=float(text(settings, "norm_factor")),
            dropped_share=float(text(settings, "dropped_share")),
            window=whole(settings, "window", least=2),
        )

    def see(self, step: int, loss: float, norm: float, facts: Mapping[str, float]) -> Iterator[Incident]:
        """The incidents of a step, which joins the recent ones."""
        if not math.isfinite(loss) or not math.isfinite(norm):
            yield _incident("nan", step, f"The loss is {loss} and the gradient norm {norm}.")
            return
        full = len(self._losses) == self.window
        if full and loss - median(self._losses) > self.spike_nats:
            yield _incident("loss-spike", step, f"The loss rose to {loss:.4f} from {median(self._losses):.4f}.")
        if full and norm > self.norm_factor * median(self._norms):
            yield _incident("gradient-norm-jump", step, f"Its norm is {norm:.4f}, lately {median(self._norms):.4f}.")
        if facts.get(DROPPED, 0.0) > self.dropped_share:
            yield _incident("dropped-tokens", step, f"{facts[DROPPED]:.4f} of the assignments were dropped.")
        self._remember(loss, norm)

    def _remember(self, loss: float, norm: float) -> None:
        for recent, value in ((self._losses, loss), (self._norms, norm)):
            recent.append(value)
            if len(recent) > self.window:
                recent.popleft()


def require_finite(step: int, loss: float, norm: float) -> None:
    """Raises ``Diverged`` when a step gave numbers that are none."""
    if not math.isfinite(loss) or not math.isfinite(norm):
        raise Diverged(
            f"At step {step} the loss is {loss} and the gradient norm {norm}.",
            remedy="Resume from an earlier checkpoint with a lower rate, or look at that step's batch.",
        )


def _incident(kind: str, step: int, words: str) -> Incident:
    return Incident(incident=kind, first_step=step, last_step=step, text=words)
