"""Tensors of a Levanter checkpoint (OCDBT) or of a tree of zarr arrays on plain files, read by tensorstore.

A tensor's name is the path of its array, as Levanter writes it. Plain chunks are read in parts, however large; encoded
ones are decoded whole and once: box by box where boxes of whole chunks hold long runs of the C order, else through a
cache. Refuses arrays that need more memory than ``LARGEST_BAND``. A chunk that is not stored is the array's fill value:
that is what zarr means by it.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias, TypeVar

import numpy as np

from registry.adapters.checkpoints.layout import LARGEST_METADATA, METADATA, Layout, cache_bytes, parse_layout
from registry.adapters.checkpoints.source import Container, DamagedTensors, Part, Pieces, Spans
from registry.core.blocks import Box, boxes, cells, overlap, run_starts, runs, tiled
from registry.core.tensors import TensorSpec
from registry.errors import Refused

Item = TypeVar("Item")
Elements: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

PIECE_BYTES = 2**21
_LEAST_CACHE = 2**24
_TOGETHER = 256


class ArraySource:
    """Arrays of one store by name. Opens an array in tensorstore only when a chunk of it must be decoded."""

    def __init__(self, path: Path, container: Container, names: Iterable[str] | None = None) -> None:
        """Read the metadata of all arrays. ``names`` lists them where the store itself cannot.

        Raises ``DamagedTensors`` for a store or metadata that cannot be read, ``Refused`` for one that needs too much
        memory or when tensorstore is not installed.
        """
        self.container = container
        self._spans = Spans(PIECE_BYTES)
        self._path = path
        self._tensorstore = _tensorstore()
        self._opened = time.time()
        with _reading(path):
            self._keys = self._store(_LEAST_CACHE)
            found = self._names() if names is None else names
            self._layouts = {layout.spec.name: layout for layout in self._parsed(found)}
            self._keys = self._store(self._cache_bytes())
        self._array = functools.cache(self._open_array)

    @property
    def specs(self) -> tuple[TensorSpec, ...]:
        """The tensors, sorted by name."""
        return tuple(layout.spec for _, layout in sorted(self._layouts.items()))

    def read_into(self, name: str, start_byte: int, buffer: memoryview) -> None:
        """Fill ``buffer`` box by box. Raises ``DamagedTensors`` when a chunk is cut or cannot be decoded."""
        layout = self._layouts[name]
        item = layout.spec.item_bytes
        done = 0
        with _reading(self._path):
            for box in boxes(layout.spec.shape, start_byte // item, (start_byte + len(buffer)) // item):
                part = buffer[done : done + box.elements * item]
                target = np.frombuffer(part, f"V{item}").reshape(box.shape)
                if layout.keys is None:
                    target[...] = self._decoded(name, box)
                else:
                    self._read_plain(layout, box, target)
                done += len(part)

    def parts(self, spec: TensorSpec) -> Iterator[Part]:
        """Boxes of whole chunks where the layout has them, else ranges of bytes."""
        layout = self._layouts[spec.name]
        if layout.region is None:
            yield from self._spans.parts(spec)
            return
        for box in tiled(spec.shape, layout.region):
            yield Part(spec=spec, size_bytes=box.elements * spec.item_bytes, box=box)

    def pieces(self, part: Part) -> Pieces:
        """The runs of a box, or a range piece by piece."""
        if part.box is None:
            for start_byte, piece in self._spans.cut(part):
                self.read_into(part.spec.name, start_byte, piece)
                yield start_byte, piece
            return
        with _reading(self._path):
            data = np.ascontiguousarray(self._decoded(part.spec.name, part.box)).reshape(-1).view(np.uint8).data
        length = len(data) // runs(part.spec.shape, part.box.shape)
        for number, first in enumerate(run_starts(part.spec.shape, part.box)):
            yield first * part.spec.item_bytes, data[number * length : (number + 1) * length]

    def _read_plain(self, layout: Layout, box: Box, target: Elements) -> None:
        """Put the parts of all chunks that a box touches where they belong."""
        parts = [(cell, overlap(box, cell, layout.grid)) for cell in cells(box, layout.grid)]
        for batch in _batched(parts):
            requests = [(part, self._request(layout, cell, part)) for cell, part in batch]
            for part, request in requests:
                target[_region(part, box.begin)] = self._arrived(layout, part, request)

    def _request(self, layout: Layout, cell: tuple[int, ...], part: Box) -> Any:
        """Ask for the bytes of a chunk that hold ``part``; open-ended if it ends the chunk: a longer one shows."""
        first = 0
        for at, begin, size in zip(cell, part.begin, layout.grid, strict=True):
            first = first * size + begin - at * size
        start = first * layout.spec.item_bytes
        stop = start + part.elements * layout.spec.item_bytes
        key = f"{layout.spec.name}/{layout.keys.key(cell) if layout.keys else ''}"
        asked = slice(start, None if stop == layout.block_bytes else stop)
        return self._keys.read(key, byte_range=asked, staleness_bound=self._opened)

    def _arrived(self, layout: Layout, part: Box, request: Any) -> Elements:
        found = request.result()
        if found.state == "missing":
            return self._decoded(layout.spec.name, part)
        if len(found.value) != part.elements * layout.spec.item_bytes:
            raise DamagedTensors(f"{self._path}: a chunk of the array {layout.spec.name!r} has a wrong length.")
        return np.frombuffer(found.value, f"V{layout.spec.item_bytes}").reshape(part.shape)

    def _decoded(self, name: str, box: Box) -> Elements:
        """The elements of a box as tensorstore reads them."""
        array: Elements = self._array(name)[_region(box)].read().result()
        return array.view(f"V{array.itemsize}")

    def _store(self, cache_bytes: int) -> Any:
        self._context = self._tensorstore.Context({"cache_pool": {"total_bytes_limit": cache_bytes}})
        return self._tensorstore.KvStore.open(self._address(), context=self._context).result()

    def _address(self, inside: str = "") -> dict[str, object]:
        base = f"{self._path.absolute()}{os.sep}"
        if self.container is Container.OCDBT:
            return {"driver": "ocdbt", "base": {"driver": "file", "path": base}, "path": inside}
        return {"driver": "file", "path": base + inside}

    def _open_array(self, name: str) -> Any:
        spec = {"driver": "zarr3", "kvstore": self._address(f"{name}/"), "recheck_cached_data": "open"}
        return self._tensorstore.open(spec, context=self._context, open=True, read=True).result()

    def _names(self) -> list[str]:
        keys = (key.decode("utf-8") for key in self._keys.list().result())
        return [key.removesuffix(f"/{METADATA}") for key in keys if key.endswith(f"/{METADATA}")]

    def _parsed(self, names: Iterable[str]) -> Iterator[Layout]:
        for batch in _batched(sorted(names)):
            requests = [(name, self._keys.read(f"{name}/{METADATA}")) for name in batch]
            for name, request in requests:
                data = request.result().value
                if len(data) > LARGEST_METADATA:
                    raise DamagedTensors(f"{self._path}: the metadata of the array {name!r} has a wrong length.")
                layout = parse_layout(name, data)
                if layout is not None:
                    yield layout

    def _cache_bytes(self) -> int:
        """Room for the bands of the arrays that are read through the cache."""
        return max(_LEAST_CACHE, *(cache_bytes(layout) for layout in self._layouts.values()), 0)


def _batched(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """Bounded numbers of requests on the way at once."""
    return (items[start : start + _TOGETHER] for start in range(0, len(items), _TOGETHER))


def _region(box: Box, origin: tuple[int, ...] | None = None) -> tuple[slice, ...]:
    """A box as an index, counted from ``origin``."""
    start = origin or (0,) * len(box.begin)
    return tuple(slice(begin - at, end - at) for begin, end, at in zip(box.begin, box.end, start, strict=True))


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Errors of tensorstore as one of ours, without its source locations."""
    try:
        yield
    except (ValueError, RuntimeError, LookupError) as error:
        reason = str(error).partition(" [source locations")[0][:300]
        raise DamagedTensors(f"{path} cannot be read: {reason}.", remedy="Get it again from where it came.") from error


def _tensorstore() -> ModuleType:
    try:
        import tensorstore
    except ModuleNotFoundError as error:
        raise Refused(
            "Reading OCDBT and zarr needs tensorstore, which is not installed.",
            remedy="Install deadreckon with its extra 'train', or give a safetensors file.",
        ) from error
    module: ModuleType = tensorstore
    return module
