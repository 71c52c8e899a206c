"""The model families behind the pipeline's interface, ``train/family.py``, which is all that the rest of it sees.

There are two: the published ladder's (``train/grug``), and
Levanter's ``mixtral``, which transformers can load: a mixture of experts without capacity, so it never drops an
assignment. Refuses a family that it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import haliax as hax
import jax
import jax.numpy as jnp
from haliax import NamedArray
from haliax.nn import logsumexp
from levanter.layers.attention import AttentionBackend, AttentionMask
from levanter.layers.rotary import DefaultRotaryEmbeddingsConfig
from levanter.models.mixtral import MixtralConfig, MixtralLMHeadModel
from levanter.tracker.tracker_fns import defer_tracker_for_jit

from registry.core.canonical import Json
from registry.core.family import Family as Constants
from registry.core.ladder import Rung
from registry.errors import Refused
from train.family import Facts, Family
from train.grug.family import grug
from train.settings import text, whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """Weights of what is minimised beside the cross-entropy."""

    logit_z: float
    router_z: float
    load_balancing: float


@dataclass(frozen=True, kw_only=True)
class Mixtral(Family):
    """Levanter's ``mixtral`` with a z-loss on the logits."""

    config: MixtralConfig
    losses: Losses

    def build(self, key: jax.Array) -> MixtralLMHeadModel:
        """A model with fresh parameters."""
        return self.config.build(self.Vocab, key=key)

    def loss(self, model: MixtralLMHeadModel, tokens: NamedArray) -> tuple[jax.Array, Facts]:
        """Cross-entropy plus weighted z-losses of logits and router and the load-balancing loss, with their facts."""
        activations, extras = self._activations(model, tokens)
        losses, normalizers, weights = self._losses(model, activations, tokens)
        count = hax.sum(weights)
        entropy = (hax.sum(losses * weights) / count).scalar()
        logit_z = (hax.sum(hax.square(normalizers) * weights) / count).scalar()
        router_z, balance = extras["router_z_loss"].scalar(), extras["load_balancing_loss"].scalar()
        total = entropy + self.losses.logit_z * logit_z + router_z + balance
        facts = {"loss/cross_entropy": entropy, "loss/logit_z": logit_z, **self._router_facts(extras)}
        return total, facts

    def token_losses(self, model: MixtralLMHeadModel, tokens: NamedArray) -> tuple[NamedArray, NamedArray]:
        """Cross-entropy of each next token in nats, and its weight: 0 at the last position, which has none."""
        activations, _ = self._activations(model, tokens)
        losses, _, weights = self._losses(model, activations, tokens)
        return losses, weights

    def _activations(
        self, model: MixtralLMHeadModel, tokens: NamedArray
    ) -> tuple[NamedArray, Mapping[str, NamedArray]]:
        begins = hax.roll(tokens, 1, self.Pos) == self.end
        begins = begins.at[self.Pos, 0].set(False)
        mask = AttentionMask.causal().with_segment_ids(hax.cumsum(begins.astype(jnp.int32), self.Pos))
        with defer_tracker_for_jit():
            return model.transformer(model.embeddings.embed(tokens), attn_mask=mask, key=None)

    def _losses(
        self, model: MixtralLMHeadModel, activations: NamedArray, tokens: NamedArray
    ) -> tuple[NamedArray, NamedArray, NamedArray]:
        """Cross-entropy, log-normaliser and weight of every position."""
        logits = hax.dot(activations, model.get_lm_head(), axis=self.config.Embed)
        normalizers = logsumexp(logits, self.Vocab)
        # A sum over a mask has a gradient without scatters, which are slow and, on some devices, without a fixed order.
        following = hax.arange(self.Vocab) == hax.roll(tokens, -1, self.Pos).broadcast_axis(self.Vocab)
        picked = hax.sum(hax.where(following, logits, 0.0), self.Vocab)
        weights = hax.ones(self.Pos).at[self.Pos, -1].set(0.0).broadcast_to(tokens.axes)
        return normalizers - picked, normalizers, weights

    def _router_facts(self, extras: Mapping[str, NamedArray]) -> Facts:
        """Expert loads as multiples of an even load, entropy of the routing in nats, and the unweighted router
        losses."""
        loads = extras["expert_loads"]
        experts = self.config.Experts
        even = loads * experts.size
        entropy = -hax.sum(loads * hax.log(hax.maximum(loads, 1e-9)), experts)
        facts: Facts = {
            "router/z_loss": extras["router_z_loss"].scalar() / self.losses.router_z,
            "router/load_balancing_loss": extras["load_balancing_loss"].scalar() / self.losses.load_balancing,
            "router/dropped_assignments": jnp.zeros((), jnp.float32),
        }
        for layer in range(self.config.num_layers):
            facts[f"router/layer{layer}/load_max"] = hax.max(even["layers", layer], experts).scalar()
            facts[f"router/layer{layer}/load_mean"] = hax.mean(even["layers", layer], experts).scalar()
            facts[f"router/layer{layer}/entropy"] = entropy["layers", layer].scalar()
        return facts


def family(constants: Constants, rung: Rung, settings: Mapping[str, Json], *, end: int) -> Family:
    """The model of a rung. ``settings`` is the section ``model``; ``end`` is the tokenizer's end-of-text id.

    Raises ``Refused`` for an unknown family and for a shape that the family cannot have.
    """
    kind = text(settings, "family")
    if kind == "grug":
        return grug(constants, rung, settings, end=end)
    if kind != "mixtral":
        raise Refused(f"The model family {kind!r} is not known.", remedy="Set model.family to grug or mixtral.")
    if constants.latent_width is not None or constants.sliding_window is not None or len(set(rung.kv_heads)) != 1:
        raise Refused(
            "The family mixtral has no latent experts, no sliding window, and one number of key-value heads.",
            remedy="Leave them out of the section family, and give a rung equal kv_heads.",
        )
    losses = Losses(
        logit_z=float(text(settings, "logit_z_loss")),
        router_z=float(text(settings, "router_z_loss")),
        load_balancing=float(text(settings, "load_balancing_loss")),
    )
    config = MixtralConfig(
        max_seq_len=constants.context_tokens,
        hidden_dim=rung.hidden,
        intermediate_dim=rung.expert_width,
        num_layers=rung.layers,
        num_heads=rung.heads,
        num_kv_heads=rung.kv_heads[0],
        layer_norm_epsilon=float(text(settings, "norm_epsilon")),
        num_experts_per_tok=constants.experts_per_token,
        n_routed_experts=constants.routed_experts,
        n_shared_experts=constants.shared_experts,
        lbl_coef=losses.load_balancing,
        rzl_coef=losses.router_z,
        use_flash_attention=False,
        attn_backend=AttentionBackend.VANILLA,
        gradient_checkpointing=bool(settings.get("gradient_checkpointing", False)),
        rope=DefaultRotaryEmbeddingsConfig(theta=whole(settings, "rotary_base", least=1)),
    )
    return Mixtral(config=config, vocabulary=constants.vocabulary, end=end, losses=losses)
