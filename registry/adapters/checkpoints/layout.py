"""How a zarr array is stored, read from its ``zarr.json`` as far as a reader with bounded memory must know it.

Refuses metadata that is not a version-3 array, dtypes without a root, and grids that do not fit the shape. Codecs are
left to tensorstore; here they only decide whether stored chunks are the plain bytes, so that parts can be read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

from registry.adapters.checkpoints.source import DamagedTensors
from registry.core.blocks import Box, region_shape, touched
from registry.core.tensors import TensorSpec
from registry.errors import MalformedRecord, Refused

METADATA = "zarr.json"
LARGEST_METADATA = 2**20
LARGEST_BAND = 4 * 2**30
REGIONS = (2**22, 2**24, 2**26, 2**28)
LEAST_RUN = 2**16
MOST_INNER = 2**22
SMALLEST_PLAIN_CHUNK = 2**18

_PLAIN_CODECS = ({"name": "bytes", "configuration": {"endian": "little"}}, {"name": "bytes"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkKeys:
    """How the key of a stored chunk is made from its place in the grid."""

    prefix: str
    separator: str

    def key(self, cell: tuple[int, ...]) -> str:
        """The key of a chunk, relative to the array."""
        return self.separator.join([*([self.prefix] if self.prefix else []), *map(str, cell)]) or "0"


_KEYS = {"default": ChunkKeys(prefix="c", separator="/"), "v2": ChunkKeys(prefix="", separator=".")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """An array's identity and the grid of blocks that a reader gets at a time.

    ``keys`` tells where plain chunks are; it is ``None`` when chunks must be decoded.
    """

    spec: TensorSpec
    grid: tuple[int, ...]
    keys: ChunkKeys | None

    @property
    def block_bytes(self) -> int:
        """Bytes of one decoded block of the grid."""
        return math.prod(self.grid) * self.spec.item_bytes

    @property
    def region(self) -> tuple[int, ...] | None:
        """The shape of boxes of whole blocks to decode one by one; ``None`` when the array is read by ranges."""
        if self.keys is not None or not self.spec.size_bytes:
            return None
        item = self.spec.item_bytes
        tried = (region_shape(self.spec.shape, self.grid, most // item, LEAST_RUN // item) for most in REGIONS)
        return next((shape for shape in tried if shape is not None), None)

    @property
    def band_bytes(self) -> int:
        """Bytes of the blocks that hold the first rows: what a reader by ranges needs at hand to decode each once."""
        rows = Box(begin=(0,) * len(self.grid), end=(*self.grid[:1], *self.spec.shape[1:]))
        return self.block_bytes * touched(rows, self.grid)


def parse_layout(name: str, data: bytes) -> Layout | None:
    """Read a ``zarr.json``; ``None`` when it describes a group. Raises ``DamagedTensors`` or ``MalformedRecord``."""
    fields = _fields(name, data)
    if fields.get("node_type") == "group":
        return None
    if fields.get("node_type") != "array" or fields.get("zarr_format") != 3:
        raise DamagedTensors(f"The array {name!r} is no zarr array of version 3.")
    spec = TensorSpec(name=name, dtype=_text(fields.get("data_type")), shape=_sizes(name, fields.get("shape")))
    grid = _grid(name, fields)
    if len(grid) != len(spec.shape) or 0 in grid:
        raise DamagedTensors(f"The chunks of the array {name!r} do not fit its shape.")
    layout = Layout(spec=spec, grid=grid, keys=_chunk_keys(fields))
    return layout if _reads_plainly(layout, fields) else _decoded(layout)


def _decoded(layout: Layout) -> Layout:
    return Layout(spec=layout.spec, grid=layout.grid, keys=None)


def _reads_plainly(layout: Layout, fields: Mapping[str, object]) -> bool:
    """Whether the rows of a chunk lie in it without compression, padding or transformation, and reading them pays."""
    inner = zip(layout.spec.shape[1:], layout.grid[1:], strict=True)
    return (
        layout.keys is not None
        and fields.get("codecs") in [[codec] for codec in _PLAIN_CODECS]
        and (layout.spec.item_bytes == 1 or fields.get("codecs") == [_PLAIN_CODECS[0]])
        and not fields.get("storage_transformers")
        and all(size % step == 0 for size, step in inner)
        and (layout.block_bytes >= SMALLEST_PLAIN_CHUNK or layout.grid == layout.spec.shape)
    )


def cache_bytes(layout: Layout) -> int:
    """Bytes of cache that an array needs. Raises ``Refused`` when reading it takes more than memory should hold."""
    if layout.keys is not None:
        return 0
    band = 0 if layout.region is not None else layout.band_bytes
    needed = max(layout.block_bytes, band)
    if needed > LARGEST_BAND:
        raise Refused(
            f"The array {layout.spec.name!r} is stored so that {needed} bytes must be decoded at once.",
            remedy="Save it again without compression, or in smaller chunks.",
        )
    return band


def _fields(name: str, data: bytes) -> Mapping[str, object]:
    try:
        value = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise DamagedTensors(f"The metadata of the array {name!r} is not JSON: {str(error)[:200]}.") from error
    if not isinstance(value, dict):
        raise DamagedTensors(f"The metadata of the array {name!r} is not a JSON object.")
    return value


def _grid(name: str, fields: Mapping[str, object]) -> tuple[int, ...]:
    """The shape of the blocks that are decoded one by one: the inner ones of a sharded array."""
    grid = _object(fields.get("chunk_grid"))
    if grid.get("name") != "regular":
        raise DamagedTensors(f"The array {name!r} has no regular grid of chunks.")
    outer = _sizes(name, _object(grid.get("configuration")).get("chunk_shape"))
    sharding = next((found for found in _codecs(fields) if found.get("name") == "sharding_indexed"), None)
    if sharding is None:
        return outer
    settings = _object(sharding.get("configuration"))
    inner = _sizes(name, settings.get("chunk_shape"))
    nested = any(found.get("name") == "sharding_indexed" for found in _codecs(settings))
    if nested or 0 in inner or math.prod(outer) // math.prod(inner) > MOST_INNER:
        raise DamagedTensors(f"The array {name!r} has shards in shards, or more blocks in one than a writer makes.")
    return inner


def _codecs(fields: Mapping[str, object]) -> list[Mapping[str, object]]:
    found = fields.get("codecs")
    return [_object(codec) for codec in found] if isinstance(found, list) else []


def _chunk_keys(fields: Mapping[str, object]) -> ChunkKeys | None:
    encoding = _object(fields.get("chunk_key_encoding"))
    usual = _KEYS.get(_text(encoding.get("name")))
    if usual is None:
        return None
    separator = _object(encoding.get("configuration")).get("separator", usual.separator)
    return ChunkKeys(prefix=usual.prefix, separator=separator) if isinstance(separator, str) else None


def _sizes(name: str, value: object) -> tuple[int, ...]:
    if not isinstance(value, list) or any(type(size) is not int or size < 0 for size in value):
        raise MalformedRecord(f"The shapes of the array {name!r} must be lists of non-negative integers.")
    return tuple(value)


def _object(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
