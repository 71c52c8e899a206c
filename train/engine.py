"""Everything that one segment trains with: Levanter's trainer, model, optimizer, data and compiled programs.

Built from a plan after the settings that change bits are made. It knows nothing of attempts, scratch or outputs.
Refuses token caches of another vocabulary or sequence length than the family's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import equinox as eqx
import haliax as hax
import jax.numpy as jnp
import numpy as np
from levanter.tracker.tracker import NoopConfig
from levanter.trainer import Trainer, TrainerConfig
from levanter.trainer_state import TrainerState
from levanter.utils.thread_utils import blocking_wait

from registry.core.canonical import Json
from registry.errors import Refused
from train import paths
from train.caches import open_sequences
from train.checkpoint import restore_state
from train.data.golden import END, SPECIAL
from train.evaluate import DomainLoss, compiled_evaluation, domain_loss, heldout
from train.family import Family
from train.model import family
from train.optimizer import optimizer
from train.order import Keys, Order, Sequences, order
from train.plan import Plan
from train.settings import texts, whole
from train.step import Step, compiled_step


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Tokens on the device (batch, position), the same on the host, and the id of every row: uint32 [batch, 2]."""

    tokens: hax.NamedArray
    host_tokens: np.ndarray
    ids: np.ndarray


@dataclass(frozen=True)
class Engine:
    """The parts of a segment. Entered as a context, it sets Levanter's mesh and axis mapping."""

    plan: Plan
    tokens: Path = paths.TOKENS

    @property
    def seed(self) -> int:
        """The seed of everything random."""
        return whole(self.plan.sections["order"], "seed")

    @cached_property
    def family(self) -> Family:
        """The model behind its interface."""
        return family(self.plan.family, self.plan.rung, self.plan.sections["model"], end=SPECIAL.index(END))

    @cached_property
    def trainer(self) -> Trainer:
        """Levanter's trainer: mesh, precision, optimizer. It keeps no hooks and no checkpoints."""
        rung = self.plan.rung
        built = optimizer(self.plan.sections["training"], rung, self.plan.family.schedule).build(rung.steps)
        config = TrainerConfig(
            id=self.plan.stage,
            seed=self.seed,
            tracker=NoopConfig(),
            train_batch_size=rung.batch_sequences,
            num_train_steps=rung.steps,
            require_accelerator=False,
            load_checkpoint=False,
        )
        return Trainer(config, built, self.family.loss, add_default_hooks=False)

    @cached_property
    def order(self) -> Order:
        """The order of the data over the training caches of all components."""
        settings = self.plan.sections["order"]
        components = texts(settings, "components")
        lengths = {name: blocking_wait(self._sequences(name).async_len()) for name in components}
        return order(settings, self.plan.rung, lengths, sequence_tokens=self.plan.family.context_tokens)

    @cached_property
    def step(self) -> Step:
        """The compiled step."""
        return compiled_step(self.trainer, self.family, self.template)

    def mesh(self) -> AbstractContextManager[Any]:
        """The context in which everything else runs."""
        return self.trainer

    def fresh(self) -> TrainerState:
        """The state before the first step."""
        keys = Keys.of(self.seed)
        return self.trainer.initial_state(keys.training, model_init=lambda: self.family.build(keys.model))

    @cached_property
    def template(self) -> TrainerState:
        """The form of the state, without arrays."""
        keys = Keys.of(self.seed)

        def build() -> TrainerState:
            model = self.family.build(keys.model)
            return TrainerState.init(
                self.trainer.optimizer, model, key=keys.training, is_trainable=True, mp=self.trainer.mp
            )

        return eqx.filter_eval_shape(build)

    def restored(self, folder: Path) -> TrainerState:
        """The state in a checkpoint's folder."""
        return restore_state(folder, self.template, self.trainer.parameter_axis_mapping)

    def batches(self, first_step: int) -> Iterator[Batch]:
        """The batches from the one that makes update ``first_step + 1`` to the last of the run."""
        mixture = self.order.mixture(
            {name: Sequences(self._sequences(name), number) for number, name in enumerate(self.order.components)}
        )
        axes = (hax.Axis("batch", self.order.batch_sequences), self.family.Pos)
        for step in range(first_step, self.order.steps):
            rows = self.order.rows(mixture, step)
            tokens, ids = np.stack([row["tokens"] for row in rows]), np.stack([row["id"] for row in rows])
            placed = hax.shard(hax.named(jnp.asarray(tokens), axes), self.trainer.compute_axis_mapping)
            yield Batch(tokens=placed, host_tokens=tokens, ids=ids)

    def evaluate(self, state: TrainerState) -> dict[str, DomainLoss]:
        """Held-out loss of each domain."""
        settings = self.plan.sections["evaluation"]
        axes = (hax.Axis("batch", whole(settings, "batch_sequences", least=1)), self.family.Pos)
        run, most = compiled_evaluation(self.trainer, self.family), whole(settings, "sequences", least=1)
        losses = {}
        for name in self.order.components:
            rows = heldout(self.tokens / name, self.plan.family.context_tokens, most)
            losses[name] = domain_loss(lambda tokens, present: run(state.model, tokens, present), rows, axes)
        return losses

    def _sequences(self, component: str) -> Any:
        _require_fitting(json.loads((self.tokens / component / "tokens.json").read_bytes()), component, self.plan)
        return open_sequences(self.tokens / component, "train", self.plan.family.context_tokens)


def _require_fitting(told: dict[str, Json], component: str, plan: Plan) -> None:
    wanted = {"vocabulary": plan.family.vocabulary, "sequence_length": plan.family.context_tokens}
    found = {name: told.get(name) for name in wanted}
    if found != wanted:
        raise Refused(
            f"The token cache of {component} has {found}, but the family needs {wanted}.",
            remedy="Make tokenizer.vocabulary and tokens.sequence_length those of the section family.",
        )
