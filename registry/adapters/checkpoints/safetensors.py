"""Tensors of one safetensors file, or of a folder of them with or without an index.

Reads by position, never more than asked, and opens regular files only. Refuses a file that changes while it is read, an
index that disagrees with the files beside it, and a tensor that stands in two files.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from registry.adapters.checkpoints.source import Container, DamagedTensors, Part, Pieces, Spans
from registry.core.safetensors import LONGEST_HEADER, PREFIX_BYTES, Placement, header_bytes, parse_header
from registry.core.tensors import CHUNK_BYTES, TensorSpec
from registry.errors import MalformedRecord, Refused

SUFFIX = ".safetensors"
INDEX_SUFFIX = ".safetensors.index.json"
LARGEST_INDEX = 100_000_000
PIECE_BYTES = CHUNK_BYTES
State: TypeAlias = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """One file as it was when its header was read."""

    path: Path
    state: State
    tensors: tuple[Placement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SafetensorsSource:
    """Tensors by name, each in the file that holds it."""

    specs: tuple[TensorSpec, ...]
    places: Mapping[str, tuple[Shard, Placement]]
    container: Container = Container.SAFETENSORS
    spans: Spans = field(default_factory=lambda: Spans(PIECE_BYTES))

    def read_into(self, name: str, start_byte: int, buffer: memoryview) -> None:
        """Fill ``buffer`` from the file. Raises ``DamagedTensors`` when it is no longer the file that was opened."""
        shard, placement = self.places[name]
        with _unchanged(shard) as descriptor:
            _fill(descriptor, buffer, placement.start_byte + start_byte, shard.path)

    def parts(self, spec: TensorSpec) -> Iterator[Part]:
        """Ranges of bytes."""
        return self.spans.parts(spec)

    def pieces(self, part: Part) -> Pieces:
        """A range chunk by chunk, read by position."""
        shard, placement = self.places[part.spec.name]
        with _unchanged(shard) as descriptor:
            for start_byte, piece in self.spans.cut(part, placement.start_byte + part.start_byte):
                _fill(descriptor, piece, placement.start_byte + start_byte, shard.path)
                yield start_byte, piece


def open_file(path: Path) -> SafetensorsSource:
    """Open one file. Raises ``DamagedTensors`` when its header does not fit it."""
    return _source([_shard(path)])


def open_folder(folder: Path, names: Sequence[str]) -> SafetensorsSource:
    """Open the safetensors files ``names`` of a folder as one set, checked against an index if there is one.

    Raises ``Refused`` when the index names other files or other tensors, or a tensor stands in two files.
    """
    indices = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(INDEX_SUFFIX))
    if len(indices) > 1:
        raise Refused(f"{folder} holds {len(indices)} indices: {', '.join(indices)}.", remedy="Keep one of them.")
    shards = [_shard(folder / name) for name in sorted(names)]
    if indices:
        _check_index(folder / indices[0], shards)
    return _source(shards)


def _source(shards: Sequence[Shard]) -> SafetensorsSource:
    places: dict[str, tuple[Shard, Placement]] = {}
    for shard in shards:
        for placement in shard.tensors:
            name = placement.spec.name
            if name in places:
                raise Refused(f"The tensor {name!r} stands in {places[name][0].path.name} and in {shard.path.name}.")
            places[name] = (shard, placement)
    if not places:
        raise Refused(f"{shards[0].path} holds no tensors.")
    specs = tuple(placement.spec for _, (_, placement) in sorted(places.items()))
    return SafetensorsSource(specs=specs, places=places)


def _shard(path: Path) -> Shard:
    with _opened(path) as (descriptor, state):
        size_bytes = state[2]
        try:
            prefix = os.pread(descriptor, PREFIX_BYTES, 0)
            if int.from_bytes(prefix, "little") > LONGEST_HEADER:
                raise DamagedTensors(f"{path} is no safetensors file.", remedy="Name one, or a folder of a checkpoint.")
            length = header_bytes(prefix, size_bytes)
            header = bytearray(length)
            _fill(descriptor, memoryview(header), PREFIX_BYTES, path)
            tensors = parse_header(bytes(header), size_bytes).tensors
        except MalformedRecord as error:
            raise DamagedTensors(f"{path}: {error.message}", remedy="Get the file again from where it came.") from error
    return Shard(path=path, state=state, tensors=tensors)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[int, State]]:
    """A regular file opened for reading, with its state."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise Refused(f"{path} is not a regular file.")
        yield descriptor, _state(facts)
    finally:
        os.close(descriptor)


@contextmanager
def _unchanged(shard: Shard) -> Iterator[int]:
    """The file of a shard, opened. Raises ``DamagedTensors`` when it is not as it was, before or after it is read."""
    with _opened(shard.path) as (descriptor, state):
        if state != shard.state:
            raise _changed(shard.path)
        yield descriptor
        if _state(os.fstat(descriptor)) != shard.state:
            raise _changed(shard.path)


def _state(facts: os.stat_result) -> State:
    """Device, inode, size and time of the last change of a file."""
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns


def _fill(descriptor: int, buffer: memoryview, position: int, path: Path) -> None:
    filled = 0
    while filled < len(buffer):
        count = os.preadv(descriptor, [buffer[filled:]], position + filled)
        if count == 0:
            raise _changed(path)
        filled += count


def _changed(path: Path) -> DamagedTensors:
    return DamagedTensors(
        f"{path} changed while it was read.", remedy="Wait until nothing writes to it; then try again."
    )


def _check_index(path: Path, shards: Sequence[Shard]) -> None:
    """Refuse an index that does not name exactly the tensors of ``shards``, each in its file."""
    found = {placement.spec.name: shard.path.name for shard in shards for placement in shard.tensors}
    claimed = _weight_map(path)
    for name in sorted(claimed.keys() | found.keys()):
        if claimed.get(name) != found.get(name):
            where = f"the index says {claimed.get(name, 'nowhere')}, the files {found.get(name, 'nowhere')}"
            raise DamagedTensors(f"{path}: the tensor {name!r} is not where it should be: {where}.")
    unnamed = {shard.path.name for shard in shards} - set(claimed.values())
    if unnamed:
        raise Refused(
            f"{path} does not speak of {', '.join(sorted(unnamed))}.", remedy="Name one file, or take the others away."
        )


def _weight_map(path: Path) -> Mapping[str, str]:
    with _opened(path) as (descriptor, state):
        if state[2] > LARGEST_INDEX:
            raise DamagedTensors(f"{path} has {state[2]} bytes, more than any index.")
        data = bytearray(state[2])
        _fill(descriptor, memoryview(data), 0, path)
    try:
        index = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise DamagedTensors(f"{path} is not JSON: {str(error)[:200]}.") from error
    claimed = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(claimed, dict) or not all(isinstance(name, str) for name in claimed.values()):
        raise DamagedTensors(f"{path} has no map from tensors to files.")
    return claimed
