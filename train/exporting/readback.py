"""An export as strangers read it: transformers' own classes for the settings, Levanter for the weights and the loss.

Both read the folder as it lies on the disk, offline. Refuses an export that either reads otherwise than it was meant:
other tokens for a golden document, another weight, another bit of the held-out loss.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import jax
import jax.numpy as jnp
from levanter.trainer_state import TrainerState
from transformers import AutoConfig, AutoTokenizer, GenerationConfig

from registry.core import canonical
from registry.core.agreement import Agreed
from registry.core.canonical import Json
from registry.core.export import ReadBack
from registry.errors import DoesNotHold
from train.checkpoint import host_leaves
from train.data.encoding import read_identity
from train.data.golden import END
from train.engine import Engine
from train.evaluate import evaluation
from train.exporting.family import FamilyExport
from train.outcomes import read_whole
from train.proof import Parent


def read_settings(folder: Path, ours: Agreed) -> dict[str, Json]:
    """Load configuration and tokenizer with transformers. Returns what loaded them.

    Raises ``DoesNotHold`` when they disagree with ``ours``, or a golden document does not come out as recorded or back.
    """
    place = str(folder.resolve())
    config = AutoConfig.from_pretrained(place, local_files_only=True, trust_remote_code=False)
    tokenizer = AutoTokenizer.from_pretrained(place, local_files_only=True, trust_remote_code=False)
    generation = GenerationConfig.from_pretrained(place, local_files_only=True)
    for reader in (config, tokenizer, generation):
        found = {name: getattr(reader, f"{name}_id") for name in ours.tokens}
        _require(found == ours.tokens, f"transformers reads {found} from the {type(reader).__name__}")
    sizes = {config.vocab_size, len(tokenizer), ours.vocabulary}
    _require(len(sizes) == 1, f"transformers reads vocabularies of {sorted(sizes)} tokens")
    lengths = {config.max_position_embeddings, generation.max_length, ours.positions}
    _require(len(lengths) == 1, f"transformers reads lengths of {sorted(lengths)} positions")
    return {
        "version": version("transformers"),
        "configuration": type(config).__name__,
        "tokenizer": type(tokenizer).__name__,
        "golden_documents": _golden(folder, tokenizer),
    }


def read_weights(folder: Path, engine: Engine, exporter: FamilyExport, parent: Parent, dtype: str) -> ReadBack:
    """Load the weights with Levanter and compare them, and the held-out loss, with the checkpoint's.

    Where ``dtype`` is smaller than the checkpoint's, the checkpoint's weights are rounded to it first, and the loss is
    compared with theirs; otherwise with the recorded evaluation. Raises ``DoesNotHold`` when a bit differs.
    """
    trained = engine.restored(parent.folder)
    state = replace(trained, model=exporter.settled(trained.model))
    expected = replace(state, model=_rounded(state.model, dtype))
    found = replace(state, model=exporter.read(folder, engine.trainer.parameter_axis_mapping))
    tensors = _compare_weights(expected, found)
    recorded = _heldout(canonical.decode(read_whole(parent.folder.parent.parent / "evaluation.json").rstrip(b"\n")))
    losses = _heldout(evaluation(engine.evaluate(found), step=cast(int, parent.name.step)))
    rounded = any(leaf.dtype != dtype for leaf in jax.tree.leaves(state.model))
    wanted = _heldout(evaluation(engine.evaluate(expected), step=cast(int, parent.name.step))) if rounded else recorded
    if losses != wanted:
        raise _other_loss(engine, state, losses, wanted)
    levanter: dict[str, Json] = {"version": version("marin-levanter"), "tensors": tensors}
    return ReadBack(readers={"levanter": levanter}, heldout=losses, rounded=rounded)


def _golden(folder: Path, tokenizer: Any) -> int:
    """Encode and decode every golden document; returns how many."""
    identity, _ = read_identity(folder)
    documents = cast(list[Mapping[str, Any]], identity["golden"])
    for one in documents:
        ids = tokenizer(one["text"], add_special_tokens=False).input_ids
        document = tokenizer(f"{one['text']} {END}").input_ids
        back = tokenizer.decode(ids, skip_special_tokens=False)
        same = (ids, document, back) == (one["ids"], one["document"], one["text"])
        _require(same, f"transformers turns the golden document {one['name']!r} into other tokens or another text")
    return len(documents)


def _rounded(model: Any, dtype: str) -> Any:
    """The model with each weight rounded to ``dtype``, in its own dtype."""
    return jax.tree.map(lambda leaf: leaf.astype(jnp.dtype(dtype)).astype(leaf.dtype), model)


def _compare_weights(expected: TrainerState, found: TrainerState) -> int:
    """The number of the model's tensors, all of which must be equal bit by bit."""
    wanted, read = (
        {name: leaf for name, leaf in host_leaves(state).items() if name.startswith("model/")}
        for state in (expected, found)
    )
    _require(wanted.keys() == read.keys(), "Levanter reads a model with other tensors")
    for name, leaf in wanted.items():
        forms = [(one.dtype, one.shape, one.tobytes()) for one in (leaf, read[name])]
        _require(forms[0] == forms[1], f"Levanter reads other weights for {name}")
    return len(wanted)


def _heldout(evaluated: Json) -> dict[str, Json]:
    facts = cast(Mapping[str, Json], evaluated)
    return {name: facts[name] for name in ("domains", "macro")}


def _other_loss(engine: Engine, state: TrainerState, losses: Json, wanted: Json) -> DoesNotHold:
    """Tell an export that is wrong from a machine that does not reproduce the checkpoint's own evaluation."""
    again = _heldout(evaluation(engine.evaluate(state), step=int(state.step)))
    if again == losses:
        return DoesNotHold(
            "The export has the checkpoint's weights, but this machine gives another held-out loss for both than was "
            f"recorded: {canonical.encode(losses).decode()}.",
            remedy="Compare determinism settings, library versions and the kind of machine with the record of the run.",
        )
    told, known = canonical.encode(losses).decode(), canonical.encode(wanted).decode()
    return DoesNotHold(f"Read back by Levanter, the export has the held-out loss {told}, not {known}.")


def _require(condition: bool, complaint: str) -> None:
    if not condition:
        raise DoesNotHold(f"{complaint}.", remedy="Mend the exporter of this family; nothing was published.")
