"""in-toto Statements (v1): something that is said of artifacts, which are named by their digests.

Written as canonical JSON; read from whatever JSON was signed. Refuses other types, no subject, subjects without a
SHA-256, and the same name twice.
"""

from __future__ import annotations

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
LONGEST_NAME: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a statement is about: a name that tells subjects apart, and the SHA-256."""

    name: str
    digest: Digest

    def __post_init__(self) -> None:
        if not 0 < len(self.name) <= LONGEST_NAME or self.digest.algorithm is not Algorithm.SHA256:
            raise MalformedRecord("A subject of a statement has a name and a SHA-256.")

    def to_json(self) -> dict[str, Json]:
        return {"name": self.name, "digest": {"sha256": self.digest.hex}}

    @classmethod
    def read(cls, reader: Reader) -> Self:
        name, digests = reader.text("name"), reader.mapping("digest")
        hexes = digests.get("sha256")
        if not isinstance(hexes, str):
            raise MalformedRecord(f"The subject {name[:200]!r} of a statement has no SHA-256.")
        return cls(name=name, digest=Digest(Algorithm.SHA256, hexes))


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
