"""The family behind the pipeline's interface: loss with its facts, losses of tokens, and members by shape.

Facts of a layer's router are as multiples of an even load, entropies in nats, shares of assignments. The norm of the
biases is told apart from the parameters' norms: nothing trains them, and ``BIAS_NOTE`` says how they move.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import haliax as hax
import jax
import jax.numpy as jnp
from haliax import NamedArray

from registry.core.canonical import Json
from registry.core.family import Family as Constants
from registry.core.ladder import Rung
from registry.errors import Refused
from train.family import Facts, Family
from train.grug.config import GrugConfig
from train.grug.mixture import Routing
from train.grug.model import GrugLmConfig, GrugLMHeadModel
from train.settings import text, texts, whole

BIAS_NOTE: Final = (
    "Not a parameter: after every step the bias is set to what balances that step's tokens, whatever it was before. "
    "Its norm jumps in the first steps, follows the spread of the router's logits, and may rise for hundreds of steps "
    "while all parameters' norms stand still. That is no spike of the weights."
)


@dataclass(frozen=True, kw_only=True)
class Grug(Family):
    """A member of the published ladder's family."""

    config: GrugConfig
    logit_z: float

    @property
    def notes(self) -> dict[str, str]:
        """What the norm of the biases is."""
        return {"router_bias_norm": BIAS_NOTE}

    def build(self, key: jax.Array) -> GrugLMHeadModel:
        """A model with fresh parameters."""
        return GrugLMHeadModel.init(self.Vocab, self.config, key=key)

    def loss(self, model: GrugLMHeadModel, tokens: NamedArray) -> tuple[jax.Array, Facts]:
        """Cross-entropy plus the weighted z-loss of the logits, in nats per token, and the facts of the batch."""
        losses, normalizers, weights, routing = self._losses(model, tokens)
        count = jnp.sum(weights)
        entropy = jnp.sum(losses * weights) / count
        logit_z = jnp.sum(jnp.square(normalizers) * weights) / count
        facts = {"loss/cross_entropy": entropy, "loss/logit_z": logit_z, **_router_facts(model, routing)}
        return entropy + self.logit_z * logit_z, facts

    def token_losses(self, model: GrugLMHeadModel, tokens: NamedArray) -> tuple[NamedArray, NamedArray]:
        """Cross-entropy of each next token in nats, and its weight: 0 at the last position, which has none."""
        losses, _, weights, _ = self._losses(model, tokens)
        return hax.named(losses, tokens.axes), hax.named(weights, tokens.axes)

    def _losses(self, model: GrugLMHeadModel, tokens: NamedArray) -> tuple[jax.Array, jax.Array, jax.Array, Routing]:
        """Cross-entropy, log-normaliser and weight of every position (batch, position), and the routers' doings."""
        begins = (hax.roll(tokens, 1, self.Pos) == self.end).at[self.Pos, 0].set(False)
        activations, routing = model.routed(tokens, hax.cumsum(begins.astype(jnp.int32), self.Pos))
        logits = activations.array @ model.get_lm_head().array
        normalizers = jax.nn.logsumexp(logits, axis=-1)
        following = jnp.roll(tokens.array, -1, axis=-1)
        # A sum over a mask has a gradient without scatters, which are slow and, on some devices, without a fixed order.
        chosen = jnp.arange(self.vocabulary) == following[..., None]
        picked = jnp.sum(jnp.where(chosen, logits, 0.0), axis=-1)
        weights = jnp.ones(tokens.array.shape, jnp.float32).at[..., -1].set(0.0)
        return normalizers - picked, normalizers, weights, routing


def grug(constants: Constants, rung: Rung, settings: Mapping[str, Json], *, end: int) -> Grug:
    """The model of a rung that :func:`registry.core.ladder.derive` made. ``settings`` is the section ``model``.

    Raises ``Refused`` for a shape that the family cannot have.
    """
    return Grug(
        config=config_of(constants, rung, settings),
        vocabulary=constants.vocabulary,
        end=end,
        logit_z=float(text(settings, "logit_z_loss")),
    )


def config_of(constants: Constants, rung: Rung, settings: Mapping[str, Json]) -> GrugLmConfig:
    """The configuration of ``rung``. ``settings`` is a section ``model`` such as ``PUBLISHED``.

    Raises ``Refused`` for a family without a window, and for what its configuration refuses.
    """
    if constants.sliding_window is None or constants.global_every is None:
        raise Refused(
            "Local layers of the family grug have a window, but the section family names none.",
            remedy="Give sliding_window and global_every, or set model.family to mixtral.",
        )
    return GrugLmConfig(
        max_seq_len=constants.context_tokens,
        hidden=rung.hidden,
        layers=rung.layers,
        heads=rung.heads,
        head_dim=constants.head_dim,
        kv_heads=rung.kv_heads,
        routed_experts=constants.routed_experts,
        experts_per_token=constants.experts_per_token,
        shared_experts=constants.shared_experts,
        expert_width=rung.expert_width,
        latent_width=rung.latent_width,
        sliding_window=constants.sliding_window,
        global_every=constants.global_every,
        last_layer_global=constants.last_layer_global,
        norm_epsilon=float(text(settings, "norm_epsilon")),
        rotary_base=float(whole(settings, "rotary_base", least=1)),
        qk_multiplier=float(text(settings, "qk_multiplier")),
        gated_norm_rank=whole(settings, "gated_norm_rank", least=1),
        convolution_kernel=whole(settings, "convolution_kernel", least=1),
        convolution_sites=tuple(texts(settings, "convolution_sites")),
        combine_sum=float(text(settings, "combine_sum")),
        capacity_factor=float(text(settings, "capacity_factor")),
        initializer_std=float(text(settings, "initializer_std")),
        gradient_checkpointing=bool(settings.get("gradient_checkpointing", False)),
    )


def _router_facts(model: GrugLMHeadModel, routing: Routing) -> Facts:
    """What the routers of all layers did, and the biases that they did it with."""
    even = routing.loads * routing.loads.shape[-1]
    entropy = -jnp.sum(routing.loads * jnp.log(jnp.maximum(routing.loads, 1e-9)), axis=-1)
    norms = jnp.sqrt(jnp.sum(jnp.square(model.layers.stacked.moe.router_state.pending.array), axis=-1))
    facts: Facts = {
        "router/z_loss": jnp.mean(routing.z_loss),
        "router/dropped_assignments": jnp.mean(routing.dropped),
        "router_bias_norm/all": jnp.sqrt(jnp.sum(jnp.square(norms))),
    }
    for layer in range(routing.loads.shape[0]):
        facts[f"router/layer{layer}/load_max"] = jnp.max(even[layer])
        facts[f"router/layer{layer}/load_mean"] = jnp.mean(even[layer])
        facts[f"router/layer{layer}/entropy"] = entropy[layer]
        facts[f"router/layer{layer}/dropped_assignments"] = routing.dropped[layer]
        facts[f"router_bias_norm/layer{layer}"] = norms[layer]
    return facts
