"""Named arrays in one deterministic file: safetensors, sorted by name, without metadata, read back before it counts.

No JAX here. Files are written aside, synced, read back and compared, and only then renamed. Refuses to read a file that
is cut, padded or not safetensors, and arrays whose bytes did not come back as they were written.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np
import safetensors
import safetensors.numpy

from registry.core.digests import Digest
from registry.core.safetensors import PREFIX_BYTES, header_bytes, parse_header
from registry.core.tensors import Chunker, ChunkList, Leaf, tensor_root
from registry.errors import DoesNotHold, MalformedRecord, Refused

_PIECE_BYTES = 4 * 2**20


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write ``arrays`` to ``path``. Raises ``DoesNotHold`` when the disk gives back other bytes than it was given."""
    data = safetensors.numpy.save({name: np.asarray(arrays[name], order="C") for name in sorted(arrays)})
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    if path.read_bytes() != data:
        raise DoesNotHold(f"{path.name} does not read back as it was written.", remedy="Check the disk, then resume.")


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """All arrays of a file by name. Raises ``MalformedRecord`` for a cut or foreign file, ``Refused`` for none."""
    leaves(path, hashed=False)
    try:
        return dict(safetensors.numpy.load_file(path))
    except safetensors.SafetensorError as error:
        raise MalformedRecord(f"{path.name} is not a safetensors file: {error}.") from error


def root(path: Path) -> Digest:
    """The tensor root of a file's arrays, from its bytes."""
    return tensor_root(leaves(path))


def leaves(path: Path, *, hashed: bool = True) -> list[Leaf]:
    """The leaves of a file's tensors in the order of their bytes; with ``hashed`` false only the header is checked."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            header = parse_header(file.read(header_bytes(file.read(PREFIX_BYTES), size)), size)
            if not hashed:
                return []
            found = []
            for placement in header.tensors:
                chunker = Chunker()
                for piece in _pieces(file, placement.spec.size_bytes):
                    chunker.update(piece)
                found.append(ChunkList(spec=placement.spec, digests=tuple(chunker.finish())).leaf)
            return found
    except FileNotFoundError as error:
        raise Refused(f"{path} does not exist.", remedy="Run the stage that makes it, or pull it.") from error


def _pieces(file: BinaryIO, length: int) -> Iterator[bytes]:
    while length:
        piece = file.read(min(_PIECE_BYTES, length))
        if not piece:
            raise MalformedRecord("A safetensors file ended while it was read.")
        length -= len(piece)
        yield piece
