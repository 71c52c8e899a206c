"""Tensors in the containers that training and publishing leave behind: safetensors, OCDBT and zarr.

``opening`` tells the kind of a container from what lies there, ``leaves`` hashes it on all cores. Nothing here
unpickles, and nothing reads a checkpoint into memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from registry.adapters.checkpoints.leaves import LeafHasher
from registry.adapters.checkpoints.opening import open_tensors
from registry.adapters.checkpoints.source import TensorSource
from registry.core.tensors import ChunkList, Leaf, TensorSpec
from registry.errors import Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """An open container of tensors."""

    source: TensorSource

    @property
    def container(self) -> str:
        """Its kind: ``safetensors``, ``ocdbt`` or ``zarr3``."""
        return str(self.source.container)

    @property
    def specs(self) -> Sequence[TensorSpec]:
        """Its tensors, sorted by name. Never empty."""
        return self.source.specs

    def leaves(self, specs: Sequence[TensorSpec], advance: Callable[[int], None] = lambda _: None) -> Sequence[Leaf]:
        """The leaves of ``specs``, in their order; ``advance`` is told of bytes as they are done."""
        return LeafHasher(source=self.source, advance=advance).leaves(specs)

    def chunks(self, spec: TensorSpec) -> ChunkList:
        """The chunk digests of one tensor, which prove ranges of it."""
        return next(LeafHasher(source=self.source).chunk_lists([spec]))

    def read(self, spec: TensorSpec, start_byte: int, stop_byte: int) -> bytes:
        """Elements of a tensor in C order, little-endian. Raises ``Refused`` for a range that cuts one or leaves it."""
        inside = 0 <= start_byte <= stop_byte <= spec.size_bytes
        if not inside or start_byte % spec.item_bytes or stop_byte % spec.item_bytes:
            raise Refused(f"Bytes {start_byte} to {stop_byte} are no range of elements of the tensor {spec.name!r}.")
        buffer = bytearray(stop_byte - start_byte)
        self.source.read_into(spec.name, start_byte, memoryview(buffer))
        return bytes(buffer)


def open_checkpoint(path: Path) -> Checkpoint:
    """Open a safetensors file, a folder of them, an OCDBT checkpoint or a zarr tree.

    Raises ``Refused`` for what is none of them and ``DamagedTensors`` for one whose bytes cannot be what was saved.
    """
    return Checkpoint(source=open_tensors(path))


def read_leaves(path: Path) -> Sequence[Leaf]:
    """The leaves of all tensors at ``path``, sorted by name. Raises as :func:`open_checkpoint`."""
    checkpoint = open_checkpoint(path)
    return checkpoint.leaves(checkpoint.specs)
