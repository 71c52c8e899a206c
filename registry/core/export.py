"""The record that an export carries: from which checkpoint, by which map, and what came of reading it back.

It lies in the export as ``export.json``. Nothing in it needs to be believed: root and map follow from the bytes of
both, the agreement from the files beside it, the loss from the checkpoint's own evaluation. Refuses a record that names
no weights, or whose read-back did not come out equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Self

from registry.core.agreement import Agreed
from registry.core.canonical import Json
from registry.core.codec import Reader, opened
from registry.core.digests import Digest
from registry.core.names import Name, checked_path
from registry.core.tensor_map import TensorMap
from registry.errors import MalformedRecord

FILE = "export.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """The class that the weights are of, the library that has it, and the version that it was tried with."""

    name: str
    library: str
    version: str

    def to_json(self) -> dict[str, Json]:
        return {"name": self.name, "library": self.library, "version": self.version}

    @classmethod
    def read(cls, reader: Reader) -> Self:
        one = cls(name=reader.text("name"), library=reader.text("library"), version=reader.text("version"))
        reader.close()
        return one


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The checkpoint that was exported, by name and tensor root."""

    name: Name
    root: Digest

    def to_json(self) -> dict[str, Json]:
        return {"name": str(self.name), "root": str(self.root)}

    @classmethod
    def read(cls, reader: Reader) -> Self:
        one = cls(name=Name.parse(reader.text("name")), root=reader.digest("root"))
        reader.close()
        if one.name.step is None or one.name.path is not None:
            raise MalformedRecord(f"An export is made from a checkpoint, and {one.name} is none.")
        return one


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBack:
    """What readers made of the export.

    ``readers`` are facts by library. ``heldout`` is the loss as ``domains`` and ``macro``, in an evaluation's form, and
    equal in all bits to the checkpoint's: to its recorded evaluation, or, where the export has a smaller dtype, to that
    of its weights ``rounded`` to it.
    """

    readers: Mapping[str, Json]
    heldout: Mapping[str, Json]
    rounded: bool

    def to_json(self) -> dict[str, Json]:
        return {"readers": self.readers, "heldout": self.heldout, "rounded": self.rounded, "equal": True}

    @classmethod
    def read(cls, reader: Reader) -> Self:
        one = cls(readers=reader.mapping("readers"), heldout=reader.mapping("heldout"), rounded=reader.flag("rounded"))
        if not reader.flag("equal"):
            raise MalformedRecord("The export says that it was read back with another loss than the checkpoint's.")
        reader.close()
        return one


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """An export. ``weights`` are its safetensors files, ``files`` the digests of all others, by name."""

    KIND: ClassVar[str] = "export"
    SCHEMA: ClassVar[int] = 1

    source: Source
    root: Digest
    architecture: Architecture
    agreed: Agreed
    tensor_map: TensorMap
    files: Mapping[str, Digest]
    weights: tuple[str, ...]
    read_back: ReadBack
    extra: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.weights:
            raise MalformedRecord("An export without weights is none.")
        for name in (*self.files, *self.weights):
            checked_path(name)

    @property
    def kind(self) -> str:
        return self.KIND

    @property
    def parameters(self) -> int:
        """Numbers in all tensors."""
        return sum(rule.target.size_bytes // rule.target.item_bytes for rule in self.tensor_map.rules)

    def to_json(self) -> dict[str, Json]:
        return {
            **self.extra,
            "kind": self.KIND,
            "schema": self.SCHEMA,
            "checkpoint": self.source.to_json(),
            "root": str(self.root),
            "architecture": self.architecture.to_json(),
            "agreed": self.agreed.to_json(),
            "map": self.tensor_map.to_json(),
            "files": {name: str(digest) for name, digest in self.files.items()},
            "weights": list(self.weights),
            "read_back": self.read_back.to_json(),
        }

    @classmethod
    def from_json(cls, value: Json) -> Self:
        """Read the record. Raises ``MalformedRecord``, or ``Refused`` for a name that leaves the folder."""
        reader = opened(value, cls.KIND, cls.SCHEMA)
        return cls(
            source=reader.object("checkpoint", Source.read),
            root=reader.digest("root"),
            architecture=reader.object("architecture", Architecture.read),
            agreed=reader.object("agreed", Agreed.read),
            tensor_map=reader.object("map", TensorMap.read),
            files={name: Digest.parse(digest) for name, digest in reader.mapping("files").items()},
            weights=reader.texts("weights"),
            read_back=reader.object("read_back", ReadBack.read),
            extra=reader.rest(),
        )
