"""A published member of the family: its configuration as JSON, the names of its tensors, and a model read from both.

A tensor is a leaf of the model, or one layer's slice of it; matrices stay (in, out). The router's bias is the pending
one. Refuses a configuration of another architecture or version, with unknown or missing fields, and tensors that are
missing, extra, or of another shape.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Final

import equinox as eqx
import haliax as hax
import jax
import jax.numpy as jnp
import numpy as np
from haliax import Axis
from haliax.util import is_named_array
from levanter.utils.jax_utils import leaf_key_paths

from registry.errors import DoesNotHold, MalformedRecord
from train import tensorfile
from train.grug.config import MODEL_TYPE, GrugConfig
from train.grug.model import GrugLmConfig, GrugLMHeadModel

ARCHITECTURE: Final = "ReckonGrugForCausalLM"
VERSION: Final = "1"
CONFIG: Final = "config.json"
_STACKED: Final = "layers/stacked/"
_BIASES: Final = ("layers/stacked/moe/router_state/bias", "layers/stacked/moe/router_state/pending")
_LARGEST_BYTES: Final = 2**20
_LARGEST_COUNT: Final = 2**31


def _count(value: object) -> bool:
    return type(value) is int and 0 <= value < _LARGEST_COUNT


# What JSON may hold for a field of each declared type.
_FITS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "int": _count,
    "int | None": lambda value: value is None or _count(value),
    "float": lambda value: type(value) in (int, float) and abs(value) < _LARGEST_COUNT,
    "bool": lambda value: type(value) is bool,
    "tuple[int, int]": lambda value: type(value) is tuple and len(value) == 2 and all(map(_count, value)),
    "tuple[str, ...]": lambda value: type(value) is tuple and all(type(one) is str for one in value),
}


def configuration(config: GrugConfig) -> dict[str, object]:
    """What ``config.json`` says of the model beside its vocabulary and tokens."""
    return {
        "architectures": [ARCHITECTURE],
        "architecture_version": VERSION,
        "model_type": MODEL_TYPE,
        "max_position_embeddings": config.max_seq_len,
        "rope_theta": config.rotary_base,
        "grug": {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(config).items()},
    }


def parse_configuration(found: Mapping[str, Any]) -> tuple[GrugConfig, int]:
    """The configuration and the size of the vocabulary. Raises ``DoesNotHold`` for another architecture or version."""
    stated = (found.get("architectures"), found.get("model_type"), found.get("architecture_version"))
    if stated != ([ARCHITECTURE], MODEL_TYPE, VERSION):
        raise DoesNotHold(
            f"config.json is of the architecture {stated[0]!r} ({stated[1]!r}) in version {stated[2]!r}.",
            remedy=f"This reads {ARCHITECTURE} ({MODEL_TYPE}) in version {VERSION} and nothing else.",
        )
    inner, vocabulary = found.get("grug"), found.get("vocab_size")
    known = {field.name for field in fields(GrugConfig)}
    if not isinstance(inner, dict) or set(inner) != known or not isinstance(vocabulary, int):
        raise MalformedRecord("config.json lacks fields of the model, or has unknown ones.")
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in inner.items()}
    for field in fields(GrugConfig):
        declared = field.type if isinstance(field.type, str) else field.type.__name__
        if not _FITS[declared](values[field.name]):
            raise MalformedRecord(f"config.json says {field.name} is {str(inner[field.name])[:40]!r}.")
    return GrugLmConfig(**values), vocabulary


def tensors(leaf: str, layers: int) -> Iterator[tuple[str, int | None]]:
    """Names of the tensors that the leaf ``leaf`` becomes, each with its layer, or None for the whole leaf.

    The bias that the last step routed with becomes none.
    """
    if leaf == _BIASES[0]:
        return
    if not leaf.startswith(_STACKED):
        yield leaf.replace("/", "."), None
        return
    plain = "moe/router_bias" if leaf == _BIASES[1] else leaf.removeprefix(_STACKED)
    for layer in range(layers):
        yield f"layers.{layer}.{plain.replace('/', '.')}", layer


def read_model(folder: Path, files: tuple[str, ...], axes: Mapping[str, Any]) -> GrugLMHeadModel:
    """The model in ``folder`` from its own configuration and the weights in ``files``, float32, sharded by ``axes``.

    Raises ``DoesNotHold`` and ``MalformedRecord``.
    """
    config, vocabulary = parse_configuration(_read(folder / CONFIG))
    template = eqx.filter_eval_shape(
        lambda: GrugLMHeadModel.init(Axis("vocab", vocabulary), config, key=jax.random.PRNGKey(0))
    )
    arrays: dict[str, np.ndarray] = {}
    for name in files:
        arrays |= tensorfile.read_arrays(folder / name)
    leaves, structure = jax.tree.flatten(template, is_leaf=is_named_array)
    names = jax.tree.leaves(leaf_key_paths(template, is_leaf=is_named_array))
    made = [
        _leaf(name.replace(".", "/"), leaf, arrays, config.layers) for name, leaf in zip(names, leaves, strict=True)
    ]
    if arrays:
        raise DoesNotHold(f"The weights have {', '.join(sorted(arrays))} too much.")
    model: GrugLMHeadModel = hax.shard(jax.tree.unflatten(structure, made), axes)
    return eqx.tree_at(lambda one: one.layers.stacked.moe.router_state.bias, model, _pending(model))


def _pending(model: GrugLMHeadModel) -> hax.NamedArray:
    return model.layers.stacked.moe.router_state.pending


def _leaf(name: str, leaf: hax.NamedArray, arrays: dict[str, np.ndarray], layers: int) -> hax.NamedArray:
    """The leaf ``name`` from the tensors that it became, which are taken out of ``arrays``."""
    parts = list(tensors(name, layers))
    if not parts:
        return hax.zeros(leaf.axes)
    missing = [one for one, _ in parts if one not in arrays]
    if missing:
        raise DoesNotHold(f"The weights lack {', '.join(missing)}.")
    found = [arrays.pop(one) for one, _ in parts]
    whole = found[0] if parts[0][1] is None else np.stack(found)
    if whole.shape != tuple(axis.size for axis in leaf.axes):
        raise DoesNotHold(f"{parts[0][0]} has another shape than config.json says.")
    return hax.named(jnp.asarray(whole).astype(jnp.float32), leaf.axes)


def _read(path: Path) -> Mapping[str, Any]:
    data = path.read_bytes() if path.stat().st_size <= _LARGEST_BYTES else b""
    try:
        found = json.loads(data)
    except ValueError as error:
        raise MalformedRecord(f"{path.name} is not JSON.") from error
    if not isinstance(found, dict):
        raise MalformedRecord(f"{path.name} is no JSON object.")
    return found
