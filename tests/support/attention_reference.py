"""Attention of the ladder's family in plain numpy, written from its description and not from its code."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

Weights = Mapping[str, np.ndarray]


def attention(weights: Weights, values: np.ndarray, *, head_dim: int, kv_heads: int, window: int | None) -> np.ndarray:
    """``values`` [position, feature] of one document. A layer with a window rotates; ``kv_heads`` are those it uses."""
    query, key, value = (_heads(values @ weights[name], head_dim) for name in ("query", "key", "value"))
    shared = query.shape[1] // kv_heads
    query, key = (_turned(_normed(one), window is not None) for one in (query, key))
    mixed = np.zeros_like(query)
    for position in range(len(values)):
        first = 0 if window is None else max(0, position - window + 1)
        for head in range(query.shape[1]):
            group = head // shared
            scores = key[first : position + 1, group] @ query[position, head] * 1.3 / np.sqrt(head_dim)
            shares = np.exp(scores - scores.max())
            mixed[position, head] = shares / shares.sum() @ value[first : position + 1, group]
    gate = 2 / (1 + np.exp(-values @ weights["head_gate"]))
    flat: np.ndarray = (mixed * gate[..., None]).reshape(len(values), -1) @ weights["output"]
    return flat


def _heads(values: np.ndarray, head_dim: int) -> np.ndarray:
    return values.reshape(len(values), -1, head_dim)


def _normed(values: np.ndarray) -> np.ndarray:
    normed: np.ndarray = values / np.sqrt(np.mean(values**2, axis=-1, keepdims=True) + 1e-5)
    return normed


def _turned(values: np.ndarray, rotate: bool) -> np.ndarray:
    """Pairs (i, i + quarter) of the first half of a head, turned by position."""
    if not rotate:
        return values
    quarter = values.shape[-1] // 4
    angles = np.arange(len(values))[:, None, None] / 10000.0 ** (np.arange(quarter) / quarter)
    left, right = values[..., :quarter], values[..., quarter : 2 * quarter]
    turned = [left * np.cos(angles) - right * np.sin(angles), right * np.cos(angles) + left * np.sin(angles)]
    return np.concatenate([*turned, values[..., 2 * quarter :]], axis=-1)
