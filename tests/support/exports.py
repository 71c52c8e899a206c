"""A small export and its checkpoint, made without JAX: what a stage leaves, for the tests of whoever reads it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from support.containers import write_safetensors
from support.wheelhouse import lay, shard_settings, toy_pins, toy_wheels

from registry.core.agreement import Agreed
from registry.core.canonical import Json
from registry.core.digests import sha256
from registry.core.export import FILE, Architecture, Export, ReadBack, Source
from registry.core.names import Name
from registry.core.tensor_map import LeftOut, Part, Rule, TensorMap
from registry.core.tensor_operations import Cast, Operation, Take, Transpose, form_after
from registry.core.tensors import TensorSpec
from train import corpus, shards, tensorfile, tokenizer
from train.exporting import weights
from train.exporting.settings import write_settings
from train.files import write_json

AGREED = Agreed(vocabulary=320, positions=16, rotary_base="10000", begin=0, end=1, pad=2)
HELDOUT: dict[str, Json] = {
    "domains": {"code": {"bits": "4002000000000000", "loss": "2.25", "sequences": 2, "tokens": 30}},
    "macro": {"bits": "4002000000000000", "loss": "2.25"},
}
LAYERS, EXPERTS = 2, 3


@dataclass(frozen=True, kw_only=True)
class Small:
    """Where things lie: ``root/hero/2`` with its checkpoint of step 7, and the export ``root/export``."""

    root: Path

    @property
    def checkpoint(self) -> Path:
        return self.root / "hero/2/checkpoints/step-7"

    @property
    def export(self) -> Path:
        return self.root / "export"


def state(seed: int = 0) -> dict[str, np.ndarray]:
    """A state with stacked experts, an embedding, a buffer that nobody exports, and what the optimizer keeps."""
    random = np.random.default_rng(seed)
    experts = random.standard_normal((LAYERS, EXPERTS, 4, 6)).astype(np.float32)
    return {
        "model/experts": experts,
        "model/embed": random.standard_normal((320, 4)).astype(np.float32),
        "model/pending": np.zeros((), np.int32),
        "opt_state/mu": experts * 2,
        "step": np.array(7, np.int32),
    }


def made(root: Path, *, dtype: str = "float32", shard_bytes: int = 2**20) -> Small:
    """Make the checkpoint, the evaluation beside it, and the export."""
    small = Small(root=root)
    small.checkpoint.mkdir(parents=True)
    write_safetensors(small.checkpoint / "state.safetensors", state())
    write_json(small.root / "hero/2/evaluation.json", {"kind": "evaluation", "schema": 1, "step": 7, **HELDOUT})
    small.export.mkdir()
    leaves = weights.leaf_views(small.checkpoint / "state.safetensors")
    found = tensor_map(weights.leaf_specs(leaves), dtype)
    names = weights.write_weights(small.export, found, leaves, shard_bytes)
    write_settings(small.export, configuration(), AGREED, small_tokenizer(root))
    write_json(small.export / FILE, record(small, found, names, rounded=dtype != "float32").to_json())
    return small


def record(small: Small, found: TensorMap, names: tuple[str, ...], *, rounded: bool) -> Export:
    files = [file for file in sorted(small.export.iterdir()) if file.name not in names]
    return Export(
        source=Source(name=Name(stage="hero/2", step=7), root=tensorfile.root(small.checkpoint / "state.safetensors")),
        root=weights.weights_root(small.export, names),
        architecture=Architecture(name="SmallForCausalLM", library="none", version="1"),
        agreed=AGREED,
        tensor_map=found,
        files={file.name: sha256(file.read_bytes()) for file in files},
        weights=names,
        read_back=ReadBack(readers={}, heldout=HELDOUT, rounded=rounded),
    )


def tensor_map(specs: tuple[TensorSpec, ...], dtype: str) -> TensorMap:
    """One matrix an expert, transposed; the embedding as it is; the buffer left out."""
    by_name = {spec.name: spec for spec in specs}
    rules = [_rule("embed", by_name["model/embed"], (), dtype)]
    for layer in range(LAYERS):
        for expert in range(EXPERTS):
            operations = (Take(layer), Take(expert), Transpose((1, 0)))
            rules.append(_rule(f"layers.{layer}.experts.{expert}", by_name["model/experts"], operations, dtype))
    return TensorMap(
        leaves=(by_name["model/embed"], by_name["model/experts"]),
        rules=tuple(rules),
        left_out=(LeftOut(leaf="model/pending", reason="It is empty after every step."),),
    )


def configuration() -> dict[str, object]:
    return {
        "model_type": "small",
        "vocab_size": 320,
        "max_position_embeddings": 16,
        "rope_theta": 10000.0,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "pad_token_id": 2,
        "transformers_version": "none",
    }


def small_tokenizer(root: Path) -> Path:
    """The tokenizer of the toy corpus, made once in ``root``."""
    if not (root / "tokenizer").is_dir():
        wheels = toy_wheels()
        corpus.build(toy_pins(wheels), root / "corpus", lay(wheels, root / "cache"))
        shards.build(shard_settings(), root / "corpus", root / "shards")
        tokenizer.build({"vocabulary": 320, "sample_per_10000": 9000}, root / "shards", root / "tokenizer")
    return root / "tokenizer"


def altered_record(small: Small, **changes: Json) -> None:
    """Write the export's record anew with other fields."""
    value = json.loads((small.export / FILE).read_bytes())
    write_json(small.export / FILE, {**value, **changes})


def _rule(name: str, leaf: TensorSpec, operations: tuple[Operation, ...], dtype: str) -> Rule:
    all_of = (*operations, *([Cast(dtype)] if dtype != leaf.dtype else []))
    found, shape = form_after(all_of, leaf.dtype, leaf.shape)
    target = TensorSpec(name=name, dtype=found, shape=shape)
    return Rule(target=target, parts=(Part(leaf=leaf.name, operations=all_of),))
