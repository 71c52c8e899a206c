"""Identities of artifacts in the working tree that do not depend on a container."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from registry.core.canonical import Json
from registry.core.tensors import Leaf


class LocalObserver:
    """Joins the reader of tensors and the readers of other contents for one root folder."""

    def __init__(
        self,
        root: Path,
        *,
        read_leaves: Callable[[Path], Sequence[Leaf]],
        observe: Callable[[str, Path], Mapping[str, Json]],
    ) -> None:
        self._root = root
        self._read_leaves = read_leaves
        self._observe = observe

    def tensors(self, path: str) -> Sequence[Leaf]:
        """Leaves of a checkpoint or of safetensors files, sorted by name."""
        return self._read_leaves(self._root / path)

    def contents(self, stage: str, path: str) -> Mapping[str, Json]:
        """Counts and content digests of a stage's output."""
        return self._observe(stage, self._root / path)
