"""Held-out loss by domain and the macro average: our own evaluation, the same on every run.

The sequences are a bounded number, evenly spread over the held-out cache of each domain. Losses are summed on the
device in float32 by batch, and over batches on the host exactly. Refuses a domain without a whole held-out sequence.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import haliax as hax
import jax
import jax.numpy as jnp
import numpy as np
from haliax.partitioning import named_jit
from levanter.trainer import Trainer
from levanter.utils.thread_utils import blocking_wait

from registry.core import decimals
from registry.core.canonical import Json
from registry.errors import Refused
from train.caches import open_sequences
from train.family import Family

PLACES = 9

Evaluate = Callable[[Any, hax.NamedArray, hax.NamedArray], tuple[jax.Array, jax.Array]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainLoss:
    """Held-out loss of one domain: mean cross-entropy in nats per token, over ``tokens`` tokens in ``sequences``."""

    loss: float
    tokens: int
    sequences: int


def heldout(folder: Path, sequence_tokens: int, most: int) -> np.ndarray:
    """At most ``most`` held-out sequences of a domain, evenly spread: int32 [sequences, sequence_tokens]."""
    sequences = open_sequences(folder, "heldout", sequence_tokens)
    length = blocking_wait(sequences.async_len())
    if not length:
        raise Refused(f"{folder} holds no whole held-out sequence.", remedy="Raise shards.heldout_per_10000.")
    count = min(most, length)
    rows = blocking_wait(sequences.get_batch([index * length // count for index in range(count)]))
    return np.stack([np.asarray(row["input_ids"], np.int32) for row in rows])


def compiled_evaluation(trainer: Trainer, family: Family) -> Evaluate:
    """The jitted sum of losses and weights over one batch. ``present`` is 1 for a sequence and 0 for padding."""

    def evaluate(model: Any, tokens: hax.NamedArray, present: hax.NamedArray) -> tuple[jax.Array, jax.Array]:
        with hax.axis_mapping(trainer.compute_axis_mapping):
            losses, weights = family.token_losses(trainer.mp.cast_to_compute(model), tokens)
            weights = weights * present
            return hax.sum(losses * weights).scalar().astype(jnp.float32), hax.sum(weights).scalar()

    return named_jit(evaluate, axis_resources=trainer.parameter_axis_mapping)


def domain_loss(
    run: Callable[[hax.NamedArray, hax.NamedArray], Any], rows: np.ndarray, axes: Sequence[hax.Axis]
) -> DomainLoss:
    """The loss over ``rows`` by batches of the axes (batch, position); the last batch is padded."""
    batch = axes[0]
    sums: list[float] = []
    counts: list[int] = []
    for start in range(0, len(rows), batch.size):
        part = rows[start : start + batch.size]
        padding = batch.size - len(part)
        tokens = hax.named(jnp.asarray(np.pad(part, ((0, padding), (0, 0)))), tuple(axes))
        present = hax.named(jnp.asarray(np.pad(np.ones(len(part), np.float32), (0, padding))), batch)
        total, weight = run(tokens, present)
        sums.append(float(total))
        counts.append(round(float(weight)))
    return DomainLoss(loss=math.fsum(sums) / sum(counts), tokens=sum(counts), sequences=len(rows))


def evaluation(losses: Mapping[str, DomainLoss], *, step: int) -> dict[str, Json]:
    """The canonical facts of an evaluation: decimal strings, and bits of the 64-bit floats behind them."""
    macro = math.fsum(one.loss for one in losses.values()) / len(losses)
    return {
        "kind": "evaluation",
        "schema": 1,
        "step": step,
        "domains": {
            name: {**_number(one.loss), "tokens": one.tokens, "sequences": one.sequences}
            for name, one in losses.items()
        },
        "macro": _number(macro),
    }


def _number(loss: float) -> dict[str, Json]:
    return {
        "loss": decimals.write(decimals.round_places(loss, PLACES)),
        "bits": struct.pack(">d", loss).hex(),
    }
