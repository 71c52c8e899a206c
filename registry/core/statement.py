"""in-toto Statements (v1): something that is said of artifacts, which are named by their digests.

Written as canonical JSON; read from whatever JSON was signed. Refuses other types, no subject, subjects without
a digest, and the same name twice.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from registry.core import canonical
from registry.core.canonical import Json
from registry.core.codec import Reader
from registry.core.digests import Algorithm, Digest
from registry.core.dsse import Envelope
from registry.errors import MalformedRecord

STATEMENT: Final = "https://in-toto.io/Statement/v1"
MOST_SUBJECTS: Final = 100_000
MOST_DIGESTS: Final = 16
LONGEST_NAME: Final = 4096
_HEX: Final = re.compile(r"[0-9a-f]{32,128}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a statement is about: a name that tells subjects apart, and digests in hex by algorithm.

    ``sha256`` is of the bytes of a file; other algorithms name folders and tensors.
    """

    name: str
    digests: Mapping[str, str]

    def __post_init__(self) -> None:
        hexes = all(_HEX.fullmatch(one) for one in self.digests.values())
        if not 0 < len(self.name) <= LONGEST_NAME or not 0 < len(self.digests) <= MOST_DIGESTS or not hexes:
            raise MalformedRecord("A subject of a statement has a name, and digests in lower-case hex.")

    @classmethod
    def of_bytes(cls, name: str, digest: Digest) -> Self:
        """A file by the SHA-256 of its bytes."""
        return cls(name=name, digests={digest.algorithm.value: digest.hex})

    @property
    def sha256(self) -> Digest | None:
        """The SHA-256 of its bytes, None where the statement has none."""
        found = self.digests.get(Algorithm.SHA256)
        return None if found is None else Digest(Algorithm.SHA256, found)

    def to_json(self) -> dict[str, Json]:
        return {"name": self.name, "digest": dict(self.digests)}

    @classmethod
    def read(cls, reader: Reader) -> Self:
        name, digests = reader.text("name"), reader.mapping("digest")
        return cls(name=name, digests={key: str(value) for key, value in digests.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """``predicate``, of the type ``predicate_type``, is said of ``subjects``."""

    subjects: tuple[Subject, ...]
    predicate_type: str
    predicate: Mapping[str, Json]

    def __post_init__(self) -> None:
        names = {subject.name for subject in self.subjects}
        if not 0 < len(self.subjects) <= MOST_SUBJECTS or len(names) != len(self.subjects):
            raise MalformedRecord("A statement is about one or more subjects, each named once.")

    def encode(self) -> bytes:
        """The canonical bytes: the payload of an envelope."""
        return canonical.encode(
            {
                "_type": STATEMENT,
                "subject": [subject.to_json() for subject in self.subjects],
                "predicateType": self.predicate_type,
                "predicate": self.predicate,
            }
        )

    @classmethod
    def of(cls, envelope: Envelope) -> Self:
        """The statement in an envelope; its signatures are checked elsewhere. Raises ``MalformedRecord``."""
        reader = Reader(envelope.view(), "the statement")
        if reader.text("_type") != STATEMENT:
            raise MalformedRecord("The envelope does not hold an in-toto Statement v1.")
        return cls(
            subjects=reader.objects("subject", Subject.read),
            predicate_type=reader.text("predicateType"),
            predicate=reader.mapping("predicate"),
        )
