"""The optimizer of a run: Levanter's own, at the rates that the ladder derives. ``ladder`` is the published grouping.

Settings choose the kind, what is decayed and a factor on the rates, which is how a later segment intervenes. Neither
changes the leaves of the optimizer's state, so a segment can always begin from its parent's. Refuses unknown kinds, and
weight decay with a kind that has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from levanter.optim import AdamConfig, MuonHConfig
from levanter.optim.config import OptimizerConfig

from registry.core.canonical import Json
from registry.core.family import Schedule
from registry.core.ladder import Rung
from registry.errors import Refused
from train.grug.optimizer import LadderConfig
from train.settings import text, texts


def optimizer(settings: Mapping[str, Json], rung: Rung, schedule: Schedule) -> OptimizerConfig:
    """Levanter's configuration of the optimizer. ``settings`` is the section ``training``.

    Raises ``Refused`` for an unknown kind, and for a weight decay that the kind cannot have.
    """
    kind, factor = text(settings, "optimizer"), float(text(settings, "rate_factor"))
    decay, decayed = float(text(settings, "weight_decay")), list(texts(settings, "decayed"))
    clip = None if settings.get("clip_norm") is None else float(text(settings, "clip_norm"))
    common: dict[str, Any] = {
        "lr_schedule": "linear",
        "min_lr_ratio": float(schedule.final_ratio),
        "warmup": _warmup(rung.warmup_steps),
        "beta1": float(text(settings, "beta1")),
        "beta2": float(rung.beta2),
        "epsilon": float(rung.epsilon),
        "max_grad_norm": clip,
    }
    if kind == "adam":
        return AdamConfig(
            learning_rate=float(rung.adam_lr) * factor, weight_decay=decay, weight_decay_modules=decayed, **common
        )
    if kind == "muonH" and decay == 0:
        rates = {"learning_rate": float(rung.muonh_lr) * factor, "adam_lr": float(rung.adam_lr) * factor}
        return MuonHConfig(weight_decay=0.0, **rates, **common)
    if kind == "ladder":
        rates = {"learning_rate": float(rung.muonh_lr) * factor, "adam_lr": float(rung.adam_lr) * factor}
        return LadderConfig(weight_decay=decay, decayed=tuple(decayed), **rates, **common)
    raise Refused(
        f"The optimizer {kind!r} with a weight decay of {decay} is not known.",
        remedy="Set training.optimizer to ladder or adam, or to muonH without weight decay.",
    )


def _warmup(steps: int) -> float:
    """Levanter takes a whole number above one as steps, and one or less as a fraction of the run."""
    return float(steps) if steps > 1 else 0.0
