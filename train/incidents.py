"""What training notices by itself: numbers that are none, jumps of loss, gradient norm or router bias, and drops.

Each becomes an ``incident`` event of the run log on the step at which it began; what goes on is not told again before
it was away for a while. Only numbers that are none end the run. Incidents change nothing in the outputs.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Self, TypeAlias

from registry.core.canonical import Json
from registry.core.runlog import Incident
from registry.errors import DoesNotHold
from train.settings import text, whole

DROPPED = "router/dropped_assignments"
BIAS = "router_bias_norm/layer"

_Seen: TypeAlias = tuple[str, str]


class Diverged(DoesNotHold):
    """The loss or the gradient is not a finite number."""


@dataclass(slots=True, kw_only=True)
class Watch:
    """Thresholds, and what the last steps were like.

    ``spike_nats``: rise of the loss above its recent median; ``norm_factor``: gradient norm over its recent median;
    ``bias_factor``: norm of a layer's router biases over the largest recent one, so that no slow rise is a jump;
    ``dropped_share``: dropped over all assignments of a step; ``window``: how many steps are recent, and how many
    without it end what was told.
    """

    spike_nats: float
    norm_factor: float
    bias_factor: float
    dropped_share: float
    window: int
    _recent: dict[str, deque[float]] = field(default_factory=dict)
    _latest: dict[str, int] = field(default_factory=dict)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Json]) -> Self:
        """Read the thresholds."""
        return cls(
            spike_nats=float(text(settings, "spike_nats")),
            norm_factor=float(text(settings, "norm_factor")),
            bias_factor=float(text(settings, "bias_factor")),
            dropped_share=float(text(settings, "dropped_share")),
            window=whole(settings, "window", least=2),
        )

    def see(self, step: int, loss: float, norm: float, facts: Mapping[str, float]) -> Iterator[Incident]:
        """The incidents that begin with a step, which joins the recent ones."""
        if not math.isfinite(loss) or not math.isfinite(norm):
            yield _incident("nan", step, f"The loss is {loss} and the gradient norm {norm}.")
            return
        biases = {name: value for name, value in facts.items() if name.startswith(BIAS)}
        for kind, words in (*self._told(loss, norm, facts), *self._jumped(biases)):
            if step - self._latest.get(kind, -self.window - 1) > self.window:
                yield _incident(kind, step, words)
            self._latest[kind] = step
        for name, value in {"loss": loss, "norm": norm, **biases}.items():
            self._recent.setdefault(name, deque(maxlen=self.window)).append(value)

    def _told(self, loss: float, norm: float, facts: Mapping[str, float]) -> Iterator[_Seen]:
        losses, norms = self._full("loss"), self._full("norm")
        if losses and loss - median(losses) > self.spike_nats:
            yield "loss-spike", f"The loss rose to {loss:.4f} from {median(losses):.4f}."
        if norms and norm > self.norm_factor * median(norms):
            yield "gradient-norm-jump", f"Its norm is {norm:.4f}, lately {median(norms):.4f}."
        if facts.get(DROPPED, 0.0) > self.dropped_share:
            yield "dropped-tokens", f"{facts[DROPPED]:.4f} of the assignments were dropped."

    def _jumped(self, biases: Mapping[str, float]) -> Iterator[_Seen]:
        """One for all layers, with the one that rose most. A norm that is no number counts as a jump."""
        before = {name: max(recent) for name in biases if (recent := self._full(name))}
        jumped = [name for name, highest in before.items() if not biases[name] <= self.bias_factor * highest]
        if jumped:
            name = max(jumped, key=lambda one: biases[one] / (before[one] or math.ulp(0.0)))
            words = (
                f"The norm of the router biases of layer {name.removeprefix(BIAS)} is {biases[name]:.4f}, in the last "
                f"{self.window} steps at most {before[name]:.4f}; {len(jumped)} of {len(before)} such norms jumped. "
                "The bias is state that balancing sets anew after every step, not a trained weight."
            )
            yield "router-bias-jump", words

    def _full(self, name: str) -> deque[float] | None:
        """The recent values of what was seen long enough, else None."""
        recent = self._recent.get(name)
        return recent if recent is not None and len(recent) == self.window else None


def require_finite(step: int, loss: float, norm: float) -> None:
    """Raises ``Diverged`` when a step gave numbers that are none."""
    if not math.isfinite(loss) or not math.isfinite(norm):
        raise Diverged(
            f"At step {step} the loss is {loss} and the gradient norm {norm}.",
            remedy="Resume from an earlier checkpoint with a lower rate, or look at that step's batch.",
        )


def _incident(kind: str, step: int, words: str) -> Incident:
    return Incident(incident=kind, first_step=step, last_step=step, text=words)
