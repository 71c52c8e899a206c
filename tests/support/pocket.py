"""A miniature of the pocket ladder: settings and token caches on which a training stage runs in seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from support.wheelhouse import lay, shard_settings, toy_pins, toy_wheels

from train import corpus, shards, tokenizer, tokens

POSITIONS, VOCABULARY = 16, 320

PARAMS: dict[str, Any] = {
    "determinism": {
        "platform": "cpu",
        "devices": 1,
        "nproc": 2,
        "max_isa": "AVX2",
        "generator": "threefry2x32",
        "partitionable_generator": True,
        "matmul_precision": "highest",
        "x64": False,
        "custom_softmax_gradient": True,
        "ragged_dot": "xla",
        "xla_flags": ["--xla_backend_optimization_level=1", "--xla_cpu_experimental_ynn_fusion_type="],
    },
    "family": {
        "name": "toy",
        "vocabulary": VOCABULARY,
        "context_tokens": POSITIONS,
        "head_dim": 8,
        "routed_experts": 4,
        "experts_per_token": 2,
        "shared_experts": 0,
        "expert_width": "1/2",
        "latent_width": None,
        "sliding_window": None,
        "global_every": None,
        "last_layer_global": True,
        "tokens_per_active_parameter": "2",
        "rates": {
            "adam_coefficient": "0.087571",
            "tokens_exponent": "-0.3461",
            "width_exponent": "-0.3448",
            "muonh_ratio": "13/3",
            "largest": "0.05",
            "epsilon_coefficient": "9.676e-12",
            "beta2_base": "0.999",
            "beta2_reference_tokens": 131072,
            "beta2_smallest": "0.95",
            "beta2_largest": "0.9999",
        },
        "schedule": {
            "warmup_fraction": "0.05",
            "final_ratio": "0.05",
            "switch_fraction": "4/5",
            "block_sequences": 16,
        },
    },
    "rungs": {"d16": {"hidden": 16, "layers": 1, "kv_heads": [1, 1], "batch_sequences": 8}},
    "hero": {"hidden": 32, "layers": 2, "kv_heads": [2, 2], "batch_sequences": 16},
    "segments": {
        "1": {"parent": None, "last_step": 4, "reason": "launch", "changes": {}},
        "2": {"parent": "hero/1@step-4", "last_step": "end", "reason": "on", "changes": {}},
    },
    "model": {
        "family": "mixtral",
        "norm_epsilon": "1e-6",
        "rotary_base": 10000,
        "logit_z_loss": "1e-4",
        "router_z_loss": "1e-3",
        "load_balancing_loss": "1e-2",
    },
    "order": {
        "seed": 0,
        "components": ["code", "math", "prose"],
        "block_sequences": 16,
        "phases": [{"code": 8, "math": 4, "prose": 4}, {"code": 4, "math": 8, "prose": 4}],
        "shuffle": {"io_block_sequences": 16, "window_blocks": 512},
    },
    "training": {
        "optimizer": "adam",
        "beta1": "0.9",
        "clip_norm": "1",
        "rate_factor": "1",
        "weight_decay": "0",
        "decayed": [],
        "keep_every_steps": 1000,
        "scratch_every_steps": 10,
        "incidents": {"spike_nats": "1", "norm_factor": "10", "bias_factor": "2", "dropped_share": "0.2", "window": 20},
    },
    "evaluation": {"sequences": 8, "batch_sequences": 8},
}

# The same with the published ladder's family: latent and shared experts, a window, fewer key-value heads globally.
GRUG: dict[str, Any] = {
    **PARAMS,
    "family": {
        **PARAMS["family"],
        "shared_experts": 2,
        "latent_width": "1/2",
        "sliding_window": 8,
        "global_every": 4,
    },
    "hero": {**PARAMS["hero"], "kv_heads": [2, 1]},
    "model": {
        "family": "grug",
        "norm_epsilon": "1e-5",
        "rotary_base": 10000,
        "qk_multiplier": "1.3",
        "gated_norm_rank": 4,
        "convolution_kernel": 4,
        "convolution_sites": ["key", "value", "attention", "mixture"],
        "combine_sum": "2.5",
        "capacity_factor": "1.15",
        "initializer_std": "0.1",
        "logit_z_loss": "1e-4",
        "gradient_checkpointing": False,
    },
    "training": {**PARAMS["training"], "optimizer": "ladder", "clip_norm": None},
}


def lay_data(root: Path, params: dict[str, Any]) -> None:
    """Write ``params.yaml`` and what a training stage reads to ``root``, which must be the current folder."""
    wheels, artifacts = toy_wheels(), root / "artifacts"
    (root / "params.yaml").write_text(yaml.safe_dump(params))
    corpus.build(toy_pins(wheels), artifacts / "corpus", lay(wheels, root / "cache"))
    shards.build(shard_settings(), artifacts / "corpus", artifacts / "shards")
    learned = {"vocabulary": VOCABULARY, "sample_per_10000": 9000}
    tokenizer.build(learned, artifacts / "shards", artifacts / "tokenizer")
    for domain in params["order"]["components"]:
        places = (artifacts / "shards", artifacts / "tokenizer", artifacts / "tokens")
        tokens.build({"sequence_length": POSITIONS}, domain, places)
