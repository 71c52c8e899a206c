"""The whole model: embedding, layers of attention and mixture, head. Levanter's ``LmHeadModel`` of :class:`GrugConfig`.

It works on whole batches: the router balances over all tokens of a step. Refuses to change its vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import haliax as hax
import jax
import jax.numpy as jnp
from haliax import Axis, NamedArray
from haliax.nn import Stacked
from levanter.models.lm_model import LmConfig, LmHeadModel

from registry.errors import Refused
from train.grug.config import MODEL_TYPE, GrugConfig
from train.grug.layers import Attention, Convolution, GatedNorm, convolved, matrix
from train.grug.mixture import Mixture, Routing


class Layer(eqx.Module):
    """Attention, then the mixture, each after a gated norm, before a convolution, and added to the stream."""

    attention_norm: GatedNorm
    self_attn: Attention
    attention_convolution: Convolution | None
    mixture_norm: GatedNorm
    moe: Mixture
    mixture_convolution: Convolution | None

    @staticmethod
    def init(config: GrugConfig, *, key: jax.Array) -> Layer:
        """Fresh parameters."""
        keys = jax.random.split(key, 4)
        sites = config.convolution_sites
        return Layer(
            attention_norm=GatedNorm.init(config, key=keys[0]),
            self_attn=Attention.init(config, key=keys[1]),
            attention_convolution=Convolution.init(config.Embed, config) if "attention" in sites else None,
            mixture_norm=GatedNorm.init(config, key=keys[2]),
            moe=Mixture.init(config, key=keys[3]),
            mixture_convolution=Convolution.init(config.Embed, config) if "mixture" in sites else None,
        )

    def __call__(
        self, stream: NamedArray, everywhere: NamedArray, masks: NamedArray, segments: NamedArray
    ) -> tuple[NamedArray, Routing]:
        """The stream after this layer. ``masks`` (which, batch, position, key_position): local, global layers."""
        here, documents = everywhere.array, segments.array
        mask = jnp.where(here, masks.array[1], masks.array[0])
        values = stream.array
        attended = self.self_attn(self.attention_norm(values), mask, documents, here)
        values = values + convolved(self.attention_convolution, attended, documents)
        mixed, routing = self.moe(self.mixture_norm(values))
        values = values + convolved(self.mixture_convolution, mixed, documents)
        return hax.auto_sharded(hax.named(values, stream.axes)), routing


class Embeddings(eqx.Module):
    """The table of tokens and what follows it."""

    weight: NamedArray
    norm: GatedNorm


class Head(eqx.Module):
    """The matrix of logits, not tied to the embedding."""

    weight: NamedArray


@LmConfig.register_subclass(MODEL_TYPE)
@dataclass(frozen=True, kw_only=True)
class GrugLmConfig(GrugConfig):
    """The configuration as Levanter builds a model of it."""

    @property
    def model_type(self) -> type[GrugLMHeadModel]:
        """The class of the model."""
        return GrugLMHeadModel


class GrugLMHeadModel(LmHeadModel[GrugConfig]):
    """The model. ``layers/stacked`` holds every layer's parameters along a first axis."""

    embeddings: Embeddings
    layers: Stacked[Layer]
    norm: GatedNorm
    lm_head: Head
    _config: GrugConfig = eqx.field(static=True)

    @classmethod
    def init(cls, Vocab: Axis, config: GrugConfig, *, key: jax.Array) -> GrugLMHeadModel:  # noqa: N803
        """Fresh parameters."""
        embedding, embedding_norm, layers, norm, head = jax.random.split(key, 5)
        stacked = Stacked.init(config.Layers, Layer, gradient_checkpointing=config.gradient_checkpointing)
        return cls(
            embeddings=Embeddings(
                weight=matrix(embedding, (Vocab, config.Embed), config.initializer_std),
                norm=GatedNorm.init(config, key=embedding_norm),
            ),
            layers=stacked(config, key=jax.random.split(layers, config.layers)),
            norm=GatedNorm.init(config, key=norm),
            lm_head=Head(weight=matrix(head, (config.Embed, Vocab), config.initializer_std)),
            _config=config,
        )

    @property
    def config(self) -> GrugConfig:
        """What fixes the model but its vocabulary."""
        return self._config

    @property
    def Vocab(self) -> Axis:  # noqa: N802
        """The axis of token ids."""
        return self.embeddings.weight.resolve_axis("vocab")

    def get_lm_head(self) -> NamedArray:
        """The matrix of logits (embed, vocab)."""
        return self.lm_head.weight

    def activations(
        self, input_ids: NamedArray, attn_mask: Any = None, *, key: Any = None, pos_ids: NamedArray | None = None
    ) -> NamedArray:
        """Activations before the head. Of Levanter's mask only the segments count: causality and window are ours."""
        del key, pos_ids
        segments = None if attn_mask is None else attn_mask.segment_ids
        found = segments[0] if isinstance(segments, tuple) else segments
        return self.routed(input_ids, hax.zeros_like(input_ids) if found is None else found)[0]

    def routed(self, tokens: NamedArray, segments: NamedArray) -> tuple[NamedArray, Routing]:
        """Activations (batch, position, embed) and what the routers did, by layer, for tokens (…, position).

        ``segments`` are numbers that tell documents of one sequence apart.
        """
        config, position = self.config, tokens.resolve_axis("position")
        batch = tuple(axis for axis in tokens.axes if axis.name != "position")
        ids = tokens.rearrange((..., position)).array.reshape(-1, position.size)
        documents = segments.broadcast_to((*batch, position)).array.reshape(ids.shape)
        rows = Axis("batch", ids.shape[0])
        stream = self.embeddings.norm(jnp.take(self.embeddings.weight.array, ids, axis=0))
        named = hax.auto_sharded(hax.named(stream, (rows, position, config.Embed)))
        where = hax.named(jnp.asarray(config.global_layers), config.Layers)
        masks = hax.named(_masks(documents, config.sliding_window), (Axis("which", 2), rows, position, "key_position"))
        found, routing = self.layers.scan(named, where, masks, hax.named(documents, (rows, position)))
        values = self.norm(found.array).reshape(*(axis.size for axis in batch), position.size, -1)
        return hax.named(values, (*batch, position, config.Embed)), routing

    def settled(self) -> GrugLMHeadModel:
        """The same model with every pending bias in force."""
        return eqx.tree_at(
            lambda model: model.layers.stacked.moe.router_state, self, self.layers.stacked.moe.router_state.settled()
        )

    def resize_vocab(self, new_size: int, key: Any = None) -> GrugLMHeadModel:
        """Refused: a checkpoint is of one vocabulary."""
        raise Refused(f"The vocabulary cannot be changed to {new_size} tokens.", remedy="Train a model of that size.")


def _masks(segments: jax.Array, window: int) -> jax.Array:
    """Whether a query sees a key, in local and in global layers: bool [2, batch, query, key]."""
    places = jnp.arange(segments.shape[1])
    distance = places[:, None] - places[None, :]
    same = segments[:, :, None] == segments[:, None, :]
    return jnp.stack([same & (distance >= 0) & (distance < window), same & (distance >= 0)])
