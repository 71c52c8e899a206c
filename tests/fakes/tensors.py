"""Tensors in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from registry.core.tensors import ChunkList, Leaf, TensorSpec, chunk_digests, leaf_of
from registry.errors import Refused


@dataclass(frozen=True)
class FakeTensors:
    """The bytes of tensors by their specs."""

    held: Mapping[TensorSpec, bytes]
    container: str = "memory"

    @property
    def specs(self) -> Sequence[TensorSpec]:
        return sorted(self.held, key=lambda spec: spec.name)

    def leaves(self, specs: Sequence[TensorSpec], advance: Callable[[int], None]) -> Sequence[Leaf]:
        for spec in specs:
            advance(spec.size_bytes)
        return [leaf_of(spec, self.held[spec]) for spec in specs]

    def chunks(self, spec: TensorSpec) -> ChunkList:
        return ChunkList(spec=spec, digests=tuple(chunk_digests(self.held[spec])))

    def read(self, spec: TensorSpec, start_byte: int, stop_byte: int) -> bytes:
        inside = 0 <= start_byte <= stop_byte <= spec.size_bytes
        if not inside or start_byte % spec.item_bytes or stop_byte % spec.item_bytes:
            raise Refused("no range of elements")
        return self.held[spec][start_byte:stop_byte]
