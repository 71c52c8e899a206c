"""The header of a safetensors file: where each tensor lies. Parsed here, since every byte of it may be hostile.

Refuses a header that is too long for the file or for sense, JSON with a key that stands twice, dtypes without a root,
sizes that do not fit shape and dtype, and tensors that overlap, leave gaps or do not fill the file exactly.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from registry.core.tensors import TensorSpec
from registry.errors import MalformedRecord

PREFIX_BYTES = 8
LONGEST_HEADER = 100_000_000

DTYPES: Mapping[str, str] = {
    "BOOL": "bool",
    "BF16": "bfloat16",
    "C64": "complex64",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
    **{f"F{bits}": f"float{bits}" for bits in (16, 32, 64)},
    **{f"I{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"U{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
}
_FIELDS = {"dtype", "shape", "data_offsets"}
_METADATA = "__metadata__"


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A tensor and the position of its first byte in the file."""

    spec: TensorSpec
    start_byte: int

    @property
    def stop_byte(self) -> int:
        """The position after its last byte."""
        return self.start_byte + self.spec.size_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The tensors of a file in the order of their bytes, and its free metadata."""

    tensors: tuple[Placement, ...]
    metadata: Mapping[str, str]


def header_bytes(prefix: bytes, file_bytes: int) -> int:
    """The length of the header, from the first eight bytes of a file of ``file_bytes`` bytes.

    Raises ``MalformedRecord`` when the file is too short or the length is beyond the file or ``LONGEST_HEADER``.
    """
    if len(prefix) != PREFIX_BYTES:
        raise MalformedRecord(f"A safetensors file has at least {PREFIX_BYTES} bytes, this one {len(prefix)}.")
    length = int.from_bytes(prefix, "little")
    if length > min(LONGEST_HEADER, file_bytes - PREFIX_BYTES):
        raise MalformedRecord(
            f"No safetensors file, or a cut one: a header of {length} bytes in a file of {file_bytes} bytes."
        )
    return length


def parse_header(header: bytes, file_bytes: int) -> Header:
    """Read the JSON between the eight length bytes and the tensors' bytes.

    ``file_bytes`` is the size of the whole file. Positions are relative to its beginning. Raises ``MalformedRecord``.
    """
    fields = _fields(header)
    metadata = _metadata(fields.pop(_METADATA, {}))
    start = PREFIX_BYTES + len(header)
    placed = sorted(
        (_placement(name, entry, start) for name, entry in fields.items()),
        key=lambda placement: (placement.start_byte, placement.stop_byte, placement.spec.name),
    )
    position = start
    for placement in placed:
        if placement.start_byte != position:
            raise MalformedRecord(f"The bytes of the tensor {placement.spec.name!r} overlap others or follow a gap.")
        position = placement.stop_byte
    if position != file_bytes:
        raise MalformedRecord(
            f"The tensors end at byte {position}, but the file has {file_bytes} bytes: cut or padded."
        )
    return Header(tensors=tuple(placed), metadata=metadata)


def _fields(header: bytes) -> dict[str, object]:
    try:
        value = json.loads(header.decode("utf-8"), object_pairs_hook=_unique)
    except RecursionError as error:
        raise MalformedRecord("The safetensors header is nested too deeply.") from error
    except ValueError as error:
        raise MalformedRecord(f"The safetensors header is not JSON: {str(error)[:200]}.") from error
    if not header.startswith(b"{") or not isinstance(value, dict):
        raise MalformedRecord("The safetensors header is not a JSON object.")
    return value


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return unique


def _metadata(value: object) -> Mapping[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise MalformedRecord("The metadata of a safetensors header must be an object of strings.")
    return value


def _placement(name: str, entry: object, start: int) -> Placement:
    if not isinstance(entry, dict) or set(entry) != _FIELDS:
        raise MalformedRecord(
            f"The entry of the tensor {name!r} must have dtype, shape and data_offsets, nothing else."
        )
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise MalformedRecord(f"The tensor {name!r} has the dtype {str(dtype)[:40]!r}, which has no root.")
    if not _integers(shape) or not _integers(offsets) or len(offsets) != 2:
        raise MalformedRecord(f"The shape and data_offsets of the tensor {name!r} must be lists of integers.")
    spec = TensorSpec(name=name, dtype=DTYPES[dtype], shape=tuple(shape))
    begin, end = offsets
    if begin < 0 or end - begin != spec.size_bytes:
        raise MalformedRecord(
            f"The tensor {name!r} spans bytes {begin} to {end}, but its dtype and shape need {spec.size_bytes}."
        )
    return Placement(spec=spec, start_byte=start + begin)


def _integers(value: object) -> bool:
    return isinstance(value, list) and all(type(number) is int for number in value)
