"""An export, read back: its files, what they agree on, its tensors, and the checkpoint's under the export's own map.

Where the checkpoint lies beside the export, every tensor is made from it again and compared, and the held-out loss with
the checkpoint's evaluation. Refuses files that the export does not name, settings that disagree, tensors that are not
those of the record, and an export of another checkpoint than the one of that name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from registry.adapters.observers.encoded import observe_tokenizer
from registry.adapters.observers.mapping import mapped_leaves
from registry.adapters.observers.opening import inside, read_bytes, read_json, required
from registry.core.agreement import CONFIG, GENERATION, IDENTITY, TOKENIZER
from registry.core.canonical import Json
from registry.core.digests import record_digest, sha256
from registry.core.export import FILE, Export
from registry.core.tensors import Leaf, tensor_root
from registry.errors import DoesNotHold, Refused
from registry.ports import Tensors

_LARGEST_SETTINGS = 2**24


def observe_export(path: Path, open_tensors: Callable[[Path], Tensors]) -> dict[str, Json]:
    """What the export is made from and made of: checkpoint, map, parameters, dtypes, architecture, agreed settings."""
    export = read_export(path)
    _check_files(path, export)
    observe_tokenizer(path)
    wrong = export.agreed.disagreements(documents_of(path))
    required(not wrong, path, f"disagrees with itself: {' '.join(wrong)}"[:-1])
    _check_tensors(path, export, open_tensors)
    rules = export.tensor_map.rules
    return {
        "checkpoint": export.source.to_json(),
        "architecture": export.architecture.to_json(),
        "agreed": export.agreed.to_json(),
        "map": str(record_digest(export.tensor_map.to_json())),
        "parameters": export.parameters,
        "dtypes": sorted({rule.target.dtype for rule in rules}),
        "heldout": export.read_back.heldout,
    }


def read_export(path: Path) -> Export:
    """The record that an export carries. Raises ``DoesNotHold`` when it is damaged."""
    try:
        return Export.from_json(read_json(path / FILE))
    except Refused as error:
        raise DoesNotHold(f"{path / FILE} is damaged: {error.message}", remedy="Run the stage 'export'.") from error


def _check_files(path: Path, export: Export) -> None:
    """Every file is named, and those that are not weights have their digests."""
    found = {file.relative_to(path).as_posix() for file in path.rglob("*") if not file.is_dir()}
    named = {FILE, *export.files, *export.weights}
    required(found == named, path, f"has other files than {FILE} names: {', '.join(sorted(found ^ named))}")
    for name, digest in export.files.items():
        file = inside(path, name)
        required(sha256(read_bytes(file)) == digest, file, f"is not the file that {FILE} names")


def documents_of(path: Path) -> dict[str, Mapping[str, object]]:
    """The settings that must agree, by file name. Raises ``DoesNotHold`` for a file that cannot be read."""
    return {name: _settings(path / name) for name in (CONFIG, GENERATION, IDENTITY, TOKENIZER)}


def _settings(path: Path) -> Mapping[str, Any]:
    """A JSON object as other libraries write it: with floats, in any order."""
    data = read_bytes(path)
    required(len(data) <= _LARGEST_SETTINGS, path, "is too large for settings")
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DoesNotHold(f"{path} is not JSON: {str(error)[:200]}.", remedy="Run the stage 'export'.") from error
    required(isinstance(value, dict), path, "is no JSON object")
    return cast(Mapping[str, Any], value)


def _check_tensors(path: Path, export: Export, open_tensors: Callable[[Path], Tensors]) -> None:
    try:
        leaves = _leaves(open_tensors(path))
        targets = [rule.target for rule in export.tensor_map.rules]
        required([leaf.spec for leaf in leaves] == targets, path, f"has other tensors than {FILE} names")
        root = tensor_root(leaves)
        required(root == export.root, path, f"has tensors of the root {root}, but {FILE} says {export.root}")
        stage = path.parent / export.source.name.stage
        checkpoint = stage / "checkpoints" / f"step-{export.source.name.step}"
        if checkpoint.exists():
            check_source(path, export, leaves, open_tensors(checkpoint))
            _check_heldout(stage / "evaluation.json", export)
    except Refused as error:
        raise DoesNotHold(f"{path} cannot be compared with its checkpoint: {error}") from error


def check_source(path: Path, export: Export, leaves: Sequence[Leaf], checkpoint: Tensors) -> None:
    """Make every tensor from the checkpoint again."""
    name = export.source.name
    root = tensor_root(_leaves(checkpoint))
    required(root == export.source.root, path, f"was made from another {name} than the one that lies here ({root})")
    for made, leaf in zip(mapped_leaves(export.tensor_map, checkpoint), leaves, strict=True):
        required(made == leaf, path, f"holds another {leaf.name} than its map makes from {name}")


def _leaves(tensors: Tensors) -> Sequence[Leaf]:
    return tensors.leaves(tensors.specs, lambda _: None)


def _check_heldout(path: Path, export: Export) -> None:
    if export.read_back.rounded or not path.is_file():
        return
    evaluation = read_json(path)
    recorded = {name: evaluation.get(name) for name in ("domains", "macro")}
    required(recorded == export.read_back.heldout, path, "has another held-out loss than the export was read back with")
