"""Attention, norms and convolutions of a layer, on arrays (batch, position, feature).

Parameters are named arrays, so that Levanter's mappings shard them by axis; matrices are (in, out).
"""

from __future__ import annotations

import equinox as eqx
import haliax as hax
import jax
import jax.numpy as jnp
from haliax import Axis, NamedArray
from levanter.grug.attention import RotaryConfig, align_kv_heads, apply_rotary_embedding, attention

from train.grug.config import GrugConfig

_TAIL = 3.0


def matrix(key: jax.Array, axes: tuple[Axis, ...], std: float) -> NamedArray:
    """Fresh parameters: a normal distribution with the deviation ``std``, cut at three deviations."""
    return hax.random.truncated_normal(key, axes, -_TAIL, _TAIL) * std


def rms(values: jax.Array, epsilon: float) -> jax.Array:
    """``values`` with a root mean square of one over the last axis, computed in float32."""
    wide = values.astype(jnp.float32)
    scale = jax.lax.rsqrt(jnp.mean(jnp.square(wide), axis=-1, keepdims=True) + epsilon)
    return (wide * scale).astype(values.dtype)


class Norm(eqx.Module):
    """RMS norm with a learned weight for each feature."""

    weight: NamedArray
    epsilon: float = eqx.field(static=True)

    @staticmethod
    def init(axis: Axis, config: GrugConfig) -> Norm:
        """A weight of one."""
        return Norm(weight=hax.ones(axis), epsilon=config.norm_epsilon)

    def __call__(self, values: jax.Array) -> jax.Array:
        """Norm over the last axis."""
        return rms(values, self.epsilon) * self.weight.array


class GatedNorm(eqx.Module):
    """An RMS norm, and after it a gate of low rank: each feature times a sigmoid of a SwiGLU-like bottleneck."""

    norm: Norm
    down: NamedArray
    up: NamedArray

    @staticmethod
    def init(config: GrugConfig, *, key: jax.Array) -> GatedNorm:
        """Fresh parameters of the model's width."""
        embed, rank = config.Embed, Axis("gate_rank", config.gated_norm_rank)
        down, up = jax.random.split(key)
        return GatedNorm(
            norm=Norm.init(embed, config),
            down=matrix(down, (embed, rank), config.initializer_std),
            up=matrix(up, (rank, embed), config.initializer_std),
        )

    def __call__(self, values: jax.Array) -> jax.Array:
        """Norm and gate over the last axis."""
        normed = self.norm(values)
        return normed * jax.nn.sigmoid(jax.nn.silu(normed @ self.down.array) @ self.up.array)


class Convolution(eqx.Module):
    """A depthwise causal convolution over positions. It starts as none, and stays within a document."""

    taps: NamedArray

    @staticmethod
    def init(axis: Axis, config: GrugConfig) -> Convolution:
        """The present position with weight one, earlier ones with none."""
        lags = Axis("lag", config.convolution_kernel)
        return Convolution(taps=hax.zeros((lags, axis)).at[lags, 0].set(1.0))

    def __call__(self, values: jax.Array, segments: jax.Array) -> jax.Array:
        """Mix ``values`` [batch, position, feature] with up to ``kernel - 1`` earlier ones of the segment."""
        taps = self.taps.array
        mixed = taps[0] * values
        for lag in range(1, taps.shape[0]):
            same = segments[:, lag:] == segments[:, :-lag]
            earlier = jnp.where(same[..., None], values[:, :-lag], 0)
            mixed = mixed + taps[lag] * jnp.pad(earlier, ((0, 0), (lag, 0), (0, 0)))
        return mixed


def convolved(convolution: Convolution | None, values: jax.Array, segments: jax.Array) -> jax.Array:
    """``values`` through a convolution that may not be there."""
    return values if convolution is None else convolution(values, segments)


class Attention(eqx.Module):
    """Grouped-query attention with normed queries and keys, rotation of half a head, and a gate for each head."""

    query: NamedArray
    key: NamedArray
    value: NamedArray
    output: NamedArray
    head_gate: NamedArray
    key_convolution: Convolution | None
    value_convolution: Convolution | None
    config: GrugConfig = eqx.field(static=True)

    @staticmethod
    def init(config: GrugConfig, *, key: jax.Array) -> Attention:
        """Fresh parameters; the gate starts at one."""
        embed = config.Embed
        heads, kv = Axis("heads", config.heads * config.head_dim), Axis("kv", config.stored_kv_heads * config.head_dim)
        keys = jax.random.split(key, 4)
        sites = config.convolution_sites
        return Attention(
            query=matrix(keys[0], (embed, heads), config.initializer_std),
            key=matrix(keys[1], (embed, kv), config.initializer_std),
            value=matrix(keys[2], (embed, kv), config.initializer_std),
            output=matrix(keys[3], (heads, embed), config.initializer_std),
            head_gate=hax.zeros((embed, Axis("head", config.heads))),
            key_convolution=Convolution.init(kv, config) if "key" in sites else None,
            value_convolution=Convolution.init(kv, config) if "value" in sites else None,
            config=config,
        )

    def __call__(self, values: jax.Array, mask: jax.Array, segments: jax.Array, everywhere: jax.Array) -> jax.Array:
        """Attend within ``mask`` [batch, query, key]; ``everywhere`` says whether this is a global layer."""
        config = self.config
        query = self._heads(values @ self.query.array)
        key = self._kv(convolved(self.key_convolution, values @ self.key.array, segments), everywhere)
        value = self._kv(convolved(self.value_convolution, values @ self.value.array, segments), everywhere)
        query, key = self._rotated(rms(query, config.norm_epsilon), rms(key, config.norm_epsilon), everywhere)
        mixed = attention(query * config.qk_multiplier, key, value, mask, implementation="reference")
        gate = 2 * jax.nn.sigmoid(values @ self.head_gate.array)
        return (mixed * gate[..., None]).reshape(*values.shape[:2], -1) @ self.output.array

    def _heads(self, values: jax.Array) -> jax.Array:
        return values.reshape(*values.shape[:2], -1, self.config.head_dim)

    def _kv(self, values: jax.Array, everywhere: jax.Array) -> jax.Array:
        """Keys or values of the stored number of heads. A layer with fewer repeats its first ones."""
        stored, (local, whole) = self.config.stored_kv_heads, self.config.kv_heads
        heads = self._heads(values)
        if local == whole:
            return heads
        few = align_kv_heads(heads[:, :, : min(local, whole)], num_q_heads=stored)
        return jnp.where(everywhere == (whole < local), few, heads)

    def _rotated(self, query: jax.Array, key: jax.Array, everywhere: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The first half of each head rotated by position, in local layers."""
        half = self.config.head_dim // 2
        turned = apply_rotary_embedding(
            query[..., :half],
            key[..., :half],
            seq_len=query.shape[1],
            head_dim=half,
            rope=RotaryConfig(theta=self.config.rotary_base),
        )
        pairs = zip(turned, (query, key), strict=True)
        rotated = [jnp.concatenate([part, plain[..., half:]], axis=-1) for part, plain in pairs]
        return jnp.where(everywhere, query, rotated[0]), jnp.where(everywhere, key, rotated[1])
