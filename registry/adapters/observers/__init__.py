"""What the output of a stage holds, read back from its bytes and independent of its container.

A reader opens everything, counts and digests it, and compares that with what the stage itself wrote down beside it. It
raises ``DoesNotHold`` when a file is damaged, or the stage's own counts or tables are not what the bytes say. A stage
without a reader has no such contents: its output is known by its files alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from registry.adapters.observers.encoded import observe_tokenizer, observe_tokens
from registry.adapters.observers.export import observe_export
from registry.adapters.observers.texts import observe_corpus, observe_shards
from registry.core.canonical import Json
from registry.errors import Refused
from registry.ports import Tensors

__all__ = ["observe", "observe_corpus", "observe_export", "observe_shards", "observe_tokenizer", "observe_tokens"]

_READERS: dict[str, Callable[[Path], dict[str, Json]]] = {
    "corpus": observe_corpus,
    "shards": observe_shards,
    "tokenizer": observe_tokenizer,
    "tokens": observe_tokens,
}


def observe(stage: str, path: Path, open_tensors: Callable[[Path], Tensors] | None = None) -> Mapping[str, Json]:
    """Counts and content digests of the output of ``stage`` at ``path``; empty for a stage without a reader.

    An export is held against its checkpoint, which ``open_tensors`` opens. Raises ``Refused`` without it.
    """
    kind = stage.partition("/")[0]
    if kind == "export":
        if open_tensors is None:
            raise Refused("An export cannot be read back without a reader of tensors.")
        return observe_export(path, open_tensors)
    reader = _READERS.get(kind)
    return {} if reader is None else reader(path)
