"""Mixtral's forward pass in numpy, written from the paper and the published layout, reading nothing but a folder.

It shares no code with Levanter or transformers, so an agreement with either is evidence. Everything is float64, one
sequence at a time: root-mean-square norm, rotary embedding on halves, grouped key-value heads, the best ``k`` experts
with weights that are renormalised, gated experts, and a head of its own.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file


@dataclass(frozen=True)
class Reference:
    """A model out of the Hugging Face folder ``folder``."""

    folder: Path

    @cached_property
    def config(self) -> dict:
        return json.loads((self.folder / "config.json").read_bytes())

    @cached_property
    def weights(self) -> dict[str, np.ndarray]:
        found: dict[str, np.ndarray] = {}
        for path in sorted(self.folder.glob("*.safetensors")):
            found |= load_file(path)
        return {name: array.astype(np.float64) for name, array in found.items()}

    def logits(self, ids: list[int]) -> np.ndarray:
        """Scores of the next token after each of ``ids``: float64 [len(ids), vocabulary]."""
        hidden = self.weights["model.embed_tokens.weight"][ids]
        for layer in range(self.config["num_hidden_layers"]):
            name = f"model.layers.{layer}"
            hidden = hidden + self._attention(f"{name}.self_attn", self._norm(f"{name}.input_layernorm", hidden))
            normed = self._norm(f"{name}.post_attention_layernorm", hidden)
            hidden = hidden + self._experts(f"{name}.block_sparse_moe", normed)
        return self._norm("model.norm", hidden) @ self.weights["lm_head.weight"].T

    def _norm(self, name: str, x: np.ndarray) -> np.ndarray:
        scale = np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + self.config["rms_norm_eps"])
        return x / scale * self.weights[f"{name}.weight"]

    def _attention(self, name: str, x: np.ndarray) -> np.ndarray:
        heads, pairs = self.config["num_attention_heads"], self.config["num_key_value_heads"]
        length, width = len(x), self.config["head_dim"]
        query = self._rotated((x @ self.weights[f"{name}.q_proj.weight"].T).reshape(length, heads, width))
        key = self._rotated((x @ self.weights[f"{name}.k_proj.weight"].T).reshape(length, pairs, width))
        value = (x @ self.weights[f"{name}.v_proj.weight"].T).reshape(length, pairs, width)
        key, value = (np.repeat(one, heads // pairs, axis=1) for one in (key, value))
        scores = np.einsum("qhd,khd->hqk", query, key) / np.sqrt(width)
        scores = np.where(np.tril(np.ones((length, length), bool)), scores, -np.inf)
        mixed = np.einsum("hqk,khd->qhd", softmax(scores), value).reshape(length, heads * width)
        return mixed @ self.weights[f"{name}.o_proj.weight"].T

    def _rotated(self, x: np.ndarray) -> np.ndarray:
        """Each head's first half with its second, turned by position times a falling frequency."""
        length, _, width = x.shape
        frequency = self.config["rope_theta"] ** (-np.arange(0, width, 2) / width)
        angle = np.outer(np.arange(length), frequency)[:, None, :]
        first, second = x[..., : width // 2], x[..., width // 2 :]
        cos, sin = np.cos(angle), np.sin(angle)
        return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)

    def _experts(self, name: str, x: np.ndarray) -> np.ndarray:
        shares = softmax(x @ self.weights[f"{name}.gate.weight"].T)
        out = np.zeros_like(x)
        for position, share in enumerate(shares):
            best = np.argsort(-share)[: self.config["num_experts_per_tok"]]
            for expert in best:
                weight = share[expert] / share[best].sum()
                out[position] += weight * self._expert(f"{name}.experts.{expert}", x[position])
        return out

    def _expert(self, name: str, x: np.ndarray) -> np.ndarray:
        gate, down, up = (self.weights[f"{name}.{matrix}.weight"] for matrix in ("w1", "w2", "w3"))
        gated = gate @ x
        return down @ (gated / (1 + np.exp(-gated)) * (up @ x))


def softmax(x: np.ndarray) -> np.ndarray:
    """Shares along the last axis."""
    raised = np.exp(x - x.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)
