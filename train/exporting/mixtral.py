"""The pocket family as transformers' ``MixtralForCausalLM``: names, layouts, configuration, and Levanter's reading.

Levanter stacks all layers, and within them all experts, and keeps axes of heads apart; its expert matrices are (in,
out). transformers has one matrix (out, in) for each. Refuses what that class cannot express: shared experts, biases,
tied embeddings, and a rotary embedding other than the plain one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from levanter.layers.rotary import DefaultRotaryEmbeddingsConfig
from levanter.models.mixtral import MixtralConfig

from registry.core.agreement import Agreed
from registry.core.export import Architecture
from registry.core.tensor_map import Part, Rule, TensorMap
from registry.core.tensor_operations import Cast, Operation, Reshape, Take, Transpose, form_after
from registry.core.tensors import TensorSpec
from registry.errors import DoesNotHold, Refused

_LAYER = "model/transformer/layers/stacked"
# Fields of a configuration that change how a model is computed or trained, not what it is; config.json has none.
_OURS = (
    "attn_backend",
    "use_flash_attention",
    "gradient_checkpointing",
    "rzl_coef",
    "reference_checkpoint",
    "tokenizer",
)

Source = tuple[str, str, tuple[Operation, ...]]


@dataclass(frozen=True, kw_only=True)
class MixtralExport:
    """The exporter of one model shape."""

    config: MixtralConfig

    def __post_init__(self) -> None:
        config = self.config
        plain = isinstance(config.rope, DefaultRotaryEmbeddingsConfig) and config.rope.factor == 1.0
        if config.n_shared_experts or config.use_bias or config.tie_word_embeddings or not plain:
            raise Refused(
                "transformers' Mixtral has neither shared experts nor biases, a plain rotary embedding, and a head "
                "of its own.",
                remedy="Leave them out of the sections family and model, or export to another architecture.",
            )

    @property
    def architecture(self) -> Architecture:
        """transformers' class."""
        return Architecture(name="MixtralForCausalLM", library="transformers", version=version("transformers"))

    def tensor_map(self, leaves: Sequence[TensorSpec], dtype: str) -> TensorMap:
        """The map of every tensor of ``MixtralForCausalLM``. ``leaves`` are the checkpoint's."""
        present = {leaf.name: leaf for leaf in leaves}
        sources = sorted(self._sources())
        missing = sorted({leaf for _, leaf, _ in sources} - present.keys())
        if missing:
            raise Refused(f"The checkpoint is of another model: it lacks {', '.join(missing)}.")
        used = {leaf for _, leaf, _ in sources}
        return TensorMap(
            leaves=tuple(leaf for name, leaf in sorted(present.items()) if name in used),
            rules=tuple(_rule(name, present[leaf], operations, dtype) for name, leaf, operations in sources),
        )

    def configuration(self, agreed: Agreed, dtype: str) -> Mapping[str, object]:
        """What transformers' own class would write, with nothing of it left to a default that is not ours."""
        stated = {
            "architectures": [self.architecture.name],
            "bos_token_id": agreed.begin,
            "eos_token_id": agreed.end,
            "pad_token_id": agreed.pad,
            "dtype": dtype,
            "head_dim": self.config.HeadSize.size,
        }
        found: dict[str, object] = self.config.to_hf_config(agreed.vocabulary, stated).to_diff_dict()
        return found

    def settled(self, model: Any) -> Any:
        """The model itself: nothing of it is pending."""
        return model

    def read(self, folder: Path, axes: Mapping[str, Any]) -> Any:
        """The model as Levanter's converter reads it, in float32.

        The path is made absolute, since a relative one looks like the name of a model on the Hub.
        """
        place = str(folder.resolve())
        converter = self.config.hf_checkpoint_converter(ref_checkpoint=place)
        ours = {name: getattr(self.config, name) for name in _OURS}
        config = replace(converter.config_from_hf_checkpoint(), **ours)
        other = [
            field.name for field in fields(config) if getattr(config, field.name) != getattr(self.config, field.name)
        ]
        if other:
            raise DoesNotHold(f"config.json gives a model with other settings: {', '.join(other)}.")
        model = converter.load_pretrained(config.model_type, config=config, axis_mapping=axes)
        return jax.tree.map(lambda leaf: leaf.astype(jnp.float32), model)

    def _sources(self) -> Iterator[Source]:
        """For every tensor its name, its leaf, and what is done with the leaf."""
        yield "model.embed_tokens.weight", "model/embeddings/token_embeddings/weight", ()
        yield "model.norm.weight", "model/transformer/norm/weight", ()
        yield "lm_head.weight", "model/lm_head/weight", ()
        for layer in range(self.config.num_layers):
            yield from self._layer(f"model.layers.{layer}", Take(layer))

    def _layer(self, name: str, take: Take) -> Iterator[Source]:
        config = self.config
        heads, width = config.HeadSize.size, config.hidden_dim
        shapes = {
            "q_proj": (config.num_heads * heads, width),
            "k_proj": (config.num_kv_heads * heads, width),
            "v_proj": (config.num_kv_heads * heads, width),
            "o_proj": (width, config.num_heads * heads),
        }
        for part, shape in shapes.items():
            yield f"{name}.self_attn.{part}.weight", f"{_LAYER}/self_attn/{part}/weight", (take, Reshape(shape))
        for part in ("input_layernorm", "post_attention_layernorm"):
            yield f"{name}.{part}.weight", f"{_LAYER}/{part}/weight", (take,)
        yield f"{name}.block_sparse_moe.gate.weight", f"{_LAYER}/block_sparse_moe/gate/weight", (take,)
        for matrix in ("w1", "w2", "w3"):
            leaf = f"{_LAYER}/block_sparse_moe/experts/{matrix}/weight"
            for expert in range(config.n_routed_experts):
                place = f"{name}.block_sparse_moe.experts.{expert}.{matrix}.weight"
                yield place, leaf, (take, Take(expert), Transpose((1, 0)))


def _rule(name: str, leaf: TensorSpec, operations: tuple[Operation, ...], dtype: str) -> Rule:
    """The rule of one tensor, with a cast at its end where the leaf has another dtype."""
    cast = (Cast(dtype),) if leaf.dtype != dtype else ()
    found, shape = form_after((*operations, *cast), leaf.dtype, leaf.shape)
    part = Part(leaf=leaf.name, operations=(*operations, *cast))
    return Rule(target=TensorSpec(name=name, dtype=found, shape=shape), parts=(part,))
