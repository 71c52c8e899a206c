"""What the pipeline sees of a language model: build it, its loss with facts, its axes. One class a family derives this.

Tokens are int32 of axes (batch, position); facts are scalars by metric.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
from haliax import Axis, NamedArray

Facts = dict[str, jax.Array]


@dataclass(frozen=True, kw_only=True)
class Family(ABC):
    """A kind of language model with its vocabulary. ``end`` is the token after which attention starts anew."""

    config: Any
    vocabulary: int
    end: int

    @property
    def Vocab(self) -> Axis:  # noqa: N802
        """The axis of token ids."""
        return Axis("vocab", self.vocabulary)

    @property
    def Pos(self) -> Axis:  # noqa: N802
        """The axis of positions in a sequence."""
        axis: Axis = self.config.max_Pos
        return axis

    @property
    def notes(self) -> Mapping[str, str]:
        """What a reader of the metrics should know that they do not say by themselves, by the metrics' prefix."""
        return {}

    @abstractmethod
    def build(self, key: jax.Array) -> Any:
        """A model with fresh parameters."""

    @abstractmethod
    def loss(self, model: Any, tokens: NamedArray) -> tuple[jax.Array, Facts]:
        """What is minimised, in nats per token, and the facts of the batch."""

    @abstractmethod
    def token_losses(self, model: Any, tokens: NamedArray) -> tuple[NamedArray, NamedArray]:
        """Cross-entropy of each next token in nats, without auxiliary losses, and its weight (0 or 1)."""
