"""Identity of tensors: leaves that any container, sharding or chunking gives alike, and the root over them.

A leaf is BLAKE3 over a header (name, dtype, shape) and the BLAKE3 digests of the tensor's bytes, cut into chunks of
``CHUNK_BYTES``; so hashing is parallel, and a range can be verified from a list of chunk digests without the rest. The
root is the SHA-256 of the canonical list of leaves, sorted by name. Why: ``registry/decisions/0002-tensor-root.md``.

Refuses dtypes without a fixed whole-byte size, negative or oversized shapes, and names that are empty, too long or
hold control or formatting characters; a root refuses a name that stands twice and a set without tensors.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

from blake3 import blake3

from registry.core import canonical
from registry.core.digests import Algorithm, Digest, record_digest
from registry.errors import DoesNotHold, MalformedRecord, Refused

Buffer: TypeAlias = "bytes | bytearray | memoryview"

CHUNK_BYTES = 2**20
LONGEST_NAME = 1024
MOST_DIMENSIONS = 32

_BYTE_SIZED = (
    *("bool", "int8", "uint8", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz"),
    *("float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
)
ITEM_BYTES: Mapping[str, int] = {
    **dict.fromkeys(_BYTE_SIZED, 1),
    **dict.fromkeys(("int16", "uint16", "bfloat16", "float16"), 2),
    **dict.fromkeys(("int32", "uint32", "float32"), 4),
    **dict.fromkeys(("int64", "uint64", "float64", "complex64"), 8),
    "complex128": 16,
}

_CHUNK_CONTEXT = "deadreckon tensor chunk 1"
_LEAF_CONTEXT = "deadreckon tensor leaf 1"
_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_DIGEST_BYTES = 32
_PLAIN_NAME = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class TensorSpec:
    """What a tensor is called and how its bytes are to be read. A scalar has the shape ``()``."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        _check_name(self.name)
        if self.dtype not in ITEM_BYTES:
            raise MalformedRecord(f"The tensor {self.name!r} has the dtype {self.dtype!r}, which has no root.")
        if len(self.shape) > MOST_DIMENSIONS:
            raise MalformedRecord(f"The tensor {self.name!r} has {len(self.shape)} dimensions.")
        if any(type(size) is not int or size < 0 for size in self.shape):
            raise MalformedRecord(f"The shape of the tensor {self.name!r} must be non-negative integers.")
        if self.size_bytes > canonical.LARGEST_INTEGER or max(self.shape, default=0) > canonical.LARGEST_INTEGER:
            raise MalformedRecord(f"The tensor {self.name!r} is too large to be real.")

    @property
    def item_bytes(self) -> int:
        """Bytes of one element."""
        return ITEM_BYTES[self.dtype]

    @property
    def size_bytes(self) -> int:
        """Bytes of the tensor in C order: elements × bytes of one element."""
        return math.prod(self.shape) * self.item_bytes

    @property
    def chunk_count(self) -> int:
        """Chunks that the bytes are cut into; the last may be short, and an empty tensor has none."""
        return -(-self.size_bytes // CHUNK_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Leaf:
    """A tensor and the digest of its header and bytes."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    digest: Digest

    def __post_init__(self) -> None:
        if self.digest.algorithm is not Algorithm.BLAKE3:
            raise MalformedRecord(f"The leaf of the tensor {self.name!r} must be a BLAKE3 digest.")
        TensorSpec(name=self.name, dtype=self.dtype, shape=self.shape)

    @property
    def spec(self) -> TensorSpec:
        """The leaf without its digest."""
        return TensorSpec(name=self.name, dtype=self.dtype, shape=self.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkList:
    """The chunk digests of one tensor: what proves a range of it.

    Whoever holds the bytes can make the list; it is as good as the leaf that it adds up to.
    """

    spec: TensorSpec
    digests: tuple[bytes, ...]

    def __post_init__(self) -> None:
        if len(self.digests) != self.spec.chunk_count or any(len(digest) != _DIGEST_BYTES for digest in self.digests):
            raise MalformedRecord(
                f"The tensor {self.spec.name!r} has {self.spec.chunk_count} chunks of {_DIGEST_BYTES} digest bytes."
            )

    @property
    def leaf(self) -> Leaf:
        """The leaf that the list adds up to."""
        header = canonical.encode(
            {
                "kind": "tensor",
                "schema": 1,
                "name": self.spec.name,
                "dtype": self.spec.dtype,
                "shape": self.spec.shape,
                "chunk_bytes": CHUNK_BYTES,
            }
        )
        hasher = blake3(len(header).to_bytes(8, "little") + header, derive_key_context=_LEAF_CONTEXT)
        hasher.update(b"".join(self.digests))
        digest = Digest(Algorithm.BLAKE3, hasher.hexdigest())
        return Leaf(name=self.spec.name, dtype=self.spec.dtype, shape=self.spec.shape, digest=digest)

    def covering(self, start_byte: int, stop_byte: int) -> tuple[int, int]:
        """The smallest range of bytes on chunk borders that holds ``[start_byte, stop_byte)``.

        Raises ``Refused`` when the range is empty or outside of the tensor.
        """
        if not 0 <= start_byte < stop_byte <= self.spec.size_bytes:
            raise Refused(f"Bytes {start_byte} to {stop_byte} are no range of the tensor {self.spec.name!r}.")
        stop = -(-stop_byte // CHUNK_BYTES) * CHUNK_BYTES
        return start_byte // CHUNK_BYTES * CHUNK_BYTES, min(stop, self.spec.size_bytes)

    def verify(self, start_byte: int, data: Buffer) -> None:
        """Check the bytes from ``start_byte``, a range that :meth:`covering` gave.

        Raises ``DoesNotHold`` naming the first chunk that differs, ``Refused`` when the range is not on chunk borders.
        """
        stop_byte = start_byte + len(memoryview(data).cast("B"))
        if self.covering(start_byte, stop_byte) != (start_byte, stop_byte):
            raise Refused(f"Bytes {start_byte} to {stop_byte} do not begin and end on borders of chunks.")
        first = start_byte // CHUNK_BYTES
        for index, digest in enumerate(chunk_digests(data), start=first):
            if digest != self.digests[index]:
                at = index * CHUNK_BYTES
                raise DoesNotHold(f"The tensor {self.spec.name!r} differs within {CHUNK_BYTES} bytes from byte {at}.")


@dataclass(slots=True)
class Chunker:
    """Cuts a stream of bytes into chunks and hashes each."""

    digests: list[bytes] = field(default_factory=list)
    _open: blake3 | None = None
    _filled: int = 0

    def update(self, data: Buffer) -> None:
        """Add the next bytes, in pieces of any length."""
        view = memoryview(data).cast("B")
        while len(view):
            piece = view[: CHUNK_BYTES - self._filled]
            hasher = self._open or chunk_hasher()
            hasher.update(piece)
            self._filled += len(piece)
            self._open = hasher
            view = view[len(piece) :]
            if self._filled == CHUNK_BYTES:
                self._close()

    def finish(self) -> list[bytes]:
        """Close the last, short chunk and return all digests."""
        self._close()
        return self.digests

    def _close(self) -> None:
        if self._open is not None:
            self.digests.append(self._open.digest())
        self._open, self._filled = None, 0


def chunk_hasher() -> blake3:
    """A hasher of one chunk."""
    return blake3(derive_key_context=_CHUNK_CONTEXT)


def chunk_digests(data: Buffer) -> list[bytes]:
    """The digests of the chunks of ``data``, which begins on a border of chunks."""
    chunker = Chunker()
    chunker.update(data)
    return chunker.finish()


def leaf_of(spec: TensorSpec, data: Buffer) -> Leaf:
    """The leaf of a tensor whose C-order little-endian bytes are ``data``.

    Raises ``MalformedRecord`` when the number of bytes is not the one of the dtype and shape.
    """
    length = memoryview(data).nbytes
    if length != spec.size_bytes:
        raise MalformedRecord(f"The tensor {spec.name!r} has {length} bytes; its shape needs {spec.size_bytes}.")
    return ChunkList(spec=spec, digests=tuple(chunk_digests(data) if length else ())).leaf


def tensor_root(leaves: Iterable[Leaf]) -> Digest:
    """SHA-256 of the canonical list of leaves ``[name, dtype, shape, digest]``, sorted by name, with kind and schema.

    Raises ``MalformedRecord`` when a name stands twice or there is no leaf at all.
    """
    ordered = sorted(leaves, key=lambda leaf: leaf.name)
    if not ordered:
        raise MalformedRecord("A set without tensors has no root.")
    _check_unique([leaf.name for leaf in ordered])
    rows: list[canonical.Json] = [[leaf.name, leaf.dtype, leaf.shape, str(leaf.digest)] for leaf in ordered]
    return record_digest({"kind": "tensors", "schema": 1, "leaves": rows})


def _check_unique(names: Sequence[str]) -> None:
    for name, following in pairwise(names):
        if name == following:
            raise MalformedRecord(f"The tensor {name!r} stands twice in one set.")


def _check_name(name: str) -> None:
    if not name or len(name) > LONGEST_NAME:
        raise MalformedRecord(f"A tensor's name has 1 to {LONGEST_NAME} characters, not {len(name)}.")
    if _PLAIN_NAME.fullmatch(name):
        return
    if any(unicodedata.category(character) in _HIDDEN for character in name):
        raise MalformedRecord(f"The tensor name {name!a} holds characters that do not show.")
