"""Whether an export may be released: its tensors made again from the checkpoint, and nothing left out that counts.

A checkpoint can hold state that a model needs and no export would miss: a router bias whose update is pending, say.
What the map leaves out, and what stands outside of model, optimizer and counters, must therefore be zero to the last
bit. Refuses an export of another checkpoint than the one that lies here, tensors that the map does not make from it,
files that disagree, and state that is pending.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from registry.adapters.observers.export import check_source, documents_of, read_export
from registry.core.export import Export
from registry.core.tensor_map import MODEL
from registry.core.tensors import TensorSpec, tensor_root
from registry.errors import DoesNotHold, Refused
from registry.ports import Tensors

TRAINING: Final = ("opt_state/",)
COUNTERS: Final = ("step", "training_key")
_PIECE_BYTES: Final = 2**24


def check_export(path: Path, checkpoint: Path, open_tensors: Callable[[Path], Tensors]) -> Export:
    """The record of the export at ``path``, once it was held against ``checkpoint``.

    Raises ``DoesNotHold`` for everything that keeps it from being released, and ``Refused`` without the checkpoint.
    """
    export = read_export(path)
    wrong = export.agreed.disagreements(documents_of(path))
    if wrong:
        raise DoesNotHold(
            f"Tokenizer, configuration and generation configuration disagree: {' '.join(wrong)}",
            remedy="Run 'dvc repro export'.",
        )
    if not checkpoint.is_dir():
        raise Refused(
            f"{export.source.name} does not lie here, so that its tensors cannot be compared with the export's.",
            remedy=f"Bring it back: dvc checkout {checkpoint.parent.parent.as_posix()}",
        )
    released, source = open_tensors(path), open_tensors(checkpoint)
    leaves = released.leaves(released.specs, lambda _: None)
    if tensor_root(leaves) != export.root:
        raise DoesNotHold(f"The tensors of {path.name} are not those that its own record names.")
    check_source(path, export, leaves, source)
    pending = list(_pending(export, source))
    if pending:
        raise DoesNotHold(
            f"The checkpoint has pending state that the export leaves out: {', '.join(pending)}.",
            remedy="Export a checkpoint at which it is zero, or put it into the map of the model's family.",
        )
    return export


def _pending(export: Export, checkpoint: Tensors) -> Iterator[str]:
    """State, not zero, that reaches no released tensor. What a mapped ``pending`` beside it replaces is settled."""
    mapped = {one.name for one in export.tensor_map.leaves}
    left_out = {one.leaf for one in export.tensor_map.left_out}
    settled = {leaf for leaf in left_out if f"{leaf.rpartition('/')[0]}/pending" in mapped}
    for spec in checkpoint.specs:
        known = spec.name.startswith((MODEL, *TRAINING)) or spec.name in COUNTERS
        if spec.name not in settled and (spec.name in left_out or not known) and not _is_zero(spec, checkpoint):
            yield spec.name


def _is_zero(spec: TensorSpec, checkpoint: Tensors) -> bool:
    step = _PIECE_BYTES // spec.item_bytes * spec.item_bytes
    pieces = (
        checkpoint.read(spec, start, min(start + step, spec.size_bytes)) for start in range(0, spec.size_bytes, step)
    )
    return not any(any(piece) for piece in pieces)
