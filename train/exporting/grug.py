"""The ladder's own family as a published folder: which leaf becomes which tensors, and the reading back.

Tensors are leaves or one layer's slices, so the map is slices only. The bias that the last step routed with is left
out: what a model routes with is the pending one. Refuses leaves of another model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import transformers
from transformers import AutoConfig, PretrainedConfig

from registry.core.agreement import Agreed
from registry.core.export import Architecture
from registry.core.tensor_map import LeftOut, Part, Rule, TensorMap
from registry.core.tensor_operations import Cast, Operation, Take, form_after
from registry.core.tensors import TensorSpec
from registry.errors import DoesNotHold, Refused
from train.grug import published_form
from train.grug.config import MODEL_TYPE, GrugConfig

_MODEL = "model/"
_REASON = "What the last step routed with. The pending bias, which replaces it at the next step, is exported."


class ReckonGrugConfig(PretrainedConfig):
    """The configuration as transformers' classes see it; transformers has no model of this architecture."""

    model_type = MODEL_TYPE


AutoConfig.register(MODEL_TYPE, ReckonGrugConfig, exist_ok=True)


@dataclass(frozen=True, kw_only=True)
class GrugExport:
    """The exporter of one member of the family."""

    config: GrugConfig

    @property
    def architecture(self) -> Architecture:
        """Our own class, by name and version."""
        return Architecture(name=published_form.ARCHITECTURE, library="deadreckon", version=published_form.VERSION)

    def tensor_map(self, leaves: Sequence[TensorSpec], dtype: str) -> TensorMap:
        """The map of every tensor. ``leaves`` are the checkpoint's. Raises ``Refused`` for those of another model."""
        present = {leaf.name: leaf for leaf in leaves if leaf.name.startswith(_MODEL)}
        rules = tuple(sorted(self._rules(present, dtype), key=lambda rule: rule.target.name))
        used = {part.leaf for rule in rules for part in rule.parts}
        left = tuple(LeftOut(leaf=name, reason=_REASON) for name in sorted(present.keys() - used))
        if not used or [one.leaf.rpartition("/")[2] for one in left] != ["bias"]:
            raise Refused("The checkpoint is of another model: it has no router bias of this family.")
        return TensorMap(
            leaves=tuple(leaf for name, leaf in sorted(present.items()) if name in used), rules=rules, left_out=left
        )

    def configuration(self, agreed: Agreed, dtype: str) -> Mapping[str, object]:
        """The content of ``config.json``."""
        return {
            **published_form.configuration(self.config),
            "vocab_size": agreed.vocabulary,
            "bos_token_id": agreed.begin,
            "eos_token_id": agreed.end,
            "pad_token_id": agreed.pad,
            "dtype": dtype,
            "tie_word_embeddings": False,
            "transformers_version": transformers.__version__,
        }

    def settled(self, model: Any) -> Any:
        """The model as it is published: with the pending bias in force."""
        return model.settled()

    def read(self, folder: Path, axes: Mapping[str, Any]) -> Any:
        """The model as our reader makes it from ``folder`` alone. Raises ``DoesNotHold`` when it is another one."""
        files = tuple(sorted(file.name for file in folder.glob("model*.safetensors")))
        model = published_form.read_model(folder, files, axes)
        if model.config != self.config:
            raise DoesNotHold("config.json gives a model with other settings.")
        return model

    def _rules(self, present: Mapping[str, TensorSpec], dtype: str) -> Iterator[Rule]:
        for name, leaf in present.items():
            for target, layer in published_form.tensors(name.removeprefix(_MODEL), self.config.layers):
                cast: tuple[Operation, ...] = (Cast(dtype),) if leaf.dtype != dtype else ()
                operations = (*(() if layer is None else (Take(layer),)), *cast)
                found, shape = form_after(operations, leaf.dtype, leaf.shape)
                spec = TensorSpec(name=target, dtype=found, shape=shape)
                yield Rule(target=spec, parts=(Part(leaf=name, operations=operations),))
