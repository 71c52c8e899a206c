"""A release: a folder of weights with everything that explains them, and the signed statement that binds it together.

The statement is an in-toto Statement v1 whose subjects are all other files of the folder, and whose predicate says
name, version, repository and parent release, so that an old folder cannot be given out as a new release. Its payload is
canonical; the SHA-256 of the payload is the release's identity. Refuses names and versions in other spellings, and a
statement that names a file outside of the folder.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, Self

from registry.core import canonical
from registry.core.canonical import Json
from registry.core.codec import Reader, opened
from registry.core.digests import Algorithm, Digest, sha256
from registry.core.names import Name, checked_path
from registry.core.publications import checked_repository
from registry.core.reading import RawRecords, read_each
from registry.errors import MalformedRecord, Refused

PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Final = "urn:deadreckon:release:v1"

CARD: Final = "README.md"
CHECKPOINTS: Final = "checkpoints.json"
CRATE: Final = "ro-crate-metadata.json"
CURVE: Final = "loss.svg"
SIGNATURE: Final = "model.sig"
STATEMENT: Final = "provenance/release.dsse.json"
BUNDLE: Final = "provenance/bundle.tar"
TEMPLATE: Final = "provenance/card.md"
LOADING: Final = "provenance/loading.json"
STAGES: Final = "provenance/stages"
ATTESTATIONS: Final = "provenance/attestations"
LONGEST_REASON: Final = 1000
UNSTATED: Final = (STATEMENT, SIGNATURE)

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?")
_VERSION = re.compile(r"(?:0|[1-9][0-9]{0,5})(?:\.(?:0|[1-9][0-9]{0,5})){2}")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{6})?Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What a release is called: name, version (``X.Y.Z``), and the repository that it is meant for (``ORG/REPO``)."""

    name: str
    version: str
    repository: str

    def __post_init__(self) -> None:
        _require(_NAME, self.name, "is not the name of a release", "Write it like 'pocket-moe': lower case, no slash.")
        _require(_VERSION, self.version, "is not a version", "Write it like '1.0.0': three numbers.")
        checked_repository(self.repository)

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"

    @property
    def folder(self) -> str:
        """Where it lies below the folder of all releases."""
        return f"{self.name}/{self.version}"

    @property
    def numbers(self) -> tuple[int, ...]:
        """The version as numbers, which sort."""
        return tuple(map(int, self.version.split(".")))

    @property
    def tag(self) -> str:
        """The Hub's tag of the release."""
        return f"v{self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """The released checkpoint by name and tensor root, and the root of the released tensors, whose names differ."""

    checkpoint: Name
    checkpoint_root: Digest
    root: Digest

    def __post_init__(self) -> None:
        if self.checkpoint.step is None or self.checkpoint.path is not None:
            raise MalformedRecord(f"A release is made of a checkpoint, and {self.checkpoint} is none.")

    def to_json(self) -> dict[str, Json]:
        named, step = self.checkpoint.artifact, self.checkpoint.step
        return {
            "checkpoint": {"name": named, "step": step, "root": str(self.checkpoint_root)},
            "weights": str(self.root),
        }

    @classmethod
    def take(cls, reader: Reader) -> Self:
        """Read both fields out of a larger object. Raises ``MalformedRecord``."""
        inner = reader.object("checkpoint", lambda one: one)
        name, step, root = Name.parse(inner.text("name")), inner.integer("step"), inner.digest("root")
        inner.close()
        if name.step != step:
            raise MalformedRecord(f"The checkpoint {name} is said to be of step {step}.")
        return cls(checkpoint=name, checkpoint_root=root, root=reader.digest("weights"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a release says of itself, its files aside.

    ``artifact`` and ``product`` say which export it is; ``parent`` is the digest of the release before it; ``commit``
    is where the code that built it stood; ``accepted_taint`` is why tainted data was let through, or None.
    """

    identity: Identity
    parent: Digest | None
    artifact: str
    product: Digest
    weights: Weights
    commit: str
    time: str
    accepted_taint: str | None

    def __post_init__(self) -> None:
        Name.parse(self.artifact)
        _require(_COMMIT, self.commit, "is not a commit", "A commit has 40 hex digits.")
        check_words(self.time, self.accepted_taint)

    def to_json(self) -> dict[str, Json]:
        return {
            "name": self.identity.name,
            "version": self.identity.version,
            "repository": self.identity.repository,
            "parent": None if self.parent is None else str(self.parent),
            "artifact": self.artifact,
            "product": str(self.product),
            **self.weights.to_json(),
            "commit": self.commit,
            "time": self.time,
            "accepted_taint": self.accepted_taint,
        }

    @classmethod
    def take(cls, reader: Reader) -> Self:
        """Read the fields out of a larger object. Raises ``MalformedRecord`` or ``Refused``."""
        name, version, repository = reader.text("name"), reader.text("version"), reader.text("repository")
        return cls(
            identity=Identity(name=name, version=version, repository=repository),
            parent=reader.optional("parent", reader.digest),
            artifact=reader.text("artifact"),
            product=reader.digest("product"),
            weights=Weights.take(reader),
            commit=reader.text("commit"),
            time=reader.text("time"),
            accepted_taint=reader.optional("accepted_taint", reader.text),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseStatement:
    """The statement inside a release. ``files`` are all others of the folder but the signature over it, by path."""

    SCHEMA: ClassVar[int] = 1

    terms: Terms
    files: Mapping[str, Digest]
    extra: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for path, digest in self.files.items():
            checked_path(path)
            if path in UNSTATED or digest.algorithm is not Algorithm.SHA256:
                raise MalformedRecord(f"A release does not state {path} by {digest.algorithm}.")
        if not self.files:
            raise MalformedRecord("A release of no files is none.")

    @property
    def identity(self) -> Identity:
        return self.terms.identity

    @property
    def parent(self) -> Digest | None:
        return self.terms.parent

    @property
    def weights(self) -> Weights:
        return self.terms.weights

    @property
    def payload(self) -> bytes:
        """The canonical bytes that are signed."""
        return canonical.encode(
            {
                "_type": STATEMENT_TYPE,
                "subject": [
                    {"name": path, "digest": {"sha256": digest.hex}} for path, digest in sorted(self.files.items())
                ],
                "predicateType": PREDICATE_TYPE,
                "predicate": {**self.extra, "schema": self.SCHEMA, **self.terms.to_json()},
            }
        )

    @property
    def digest(self) -> Digest:
        """The release's identity."""
        return sha256(self.payload)

    @classmethod
    def parse(cls, payload: bytes) -> Self:
        """Read the payload. Raises ``MalformedRecord`` or ``Refused`` for anything but what :attr:`payload` gives."""
        reader = Reader(canonical.decode(payload), "the release statement")
        for key, wanted in (("_type", STATEMENT_TYPE), ("predicateType", PREDICATE_TYPE)):
            found = reader.text(key)
            if found != wanted:
                raise MalformedRecord(f"The statement's {key} is {found[:120]!r}; a release has {wanted!r}.")
        subjects = reader.objects("subject", _subject)
        files = dict(subjects)
        if len(files) != len(subjects):
            raise MalformedRecord("A file stands twice in the release statement.")
        made = reader.object("predicate", lambda one: cls._read(one, files))
        reader.close()
        if made.payload != payload:
            raise MalformedRecord("The release statement is not written back as it was read.")
        return made

    @classmethod
    def _read(cls, reader: Reader, files: Mapping[str, Digest]) -> Self:
        schema = reader.integer("schema")
        if schema != cls.SCHEMA:
            raise MalformedRecord(f"This release has schema {schema}; this version of reckon reads {cls.SCHEMA}.")
        return cls(terms=Terms.take(reader), files=files, extra=reader.rest())


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The record of a release that was built.

    ``release`` is the statement's digest, ``files`` the tree of the stated files, ``key`` the id of the signing key.
    """

    KIND: ClassVar[str] = "release"
    SCHEMA: ClassVar[int] = 1

    terms: Terms
    release: Digest
    files: Digest
    key: str
    extra: Mapping[str, Json] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        return self.KIND

    @property
    def identity(self) -> Identity:
        return self.terms.identity

    def to_json(self) -> dict[str, Json]:
        return {
            **self.extra,
            "kind": self.KIND,
            "schema": self.SCHEMA,
            **self.terms.to_json(),
            "release": str(self.release),
            "files": str(self.files),
            "key": self.key,
        }

    @classmethod
    def from_json(cls, value: Json) -> Self:
        reader = opened(value, cls.KIND, cls.SCHEMA)
        return cls(
            terms=Terms.take(reader),
            release=reader.digest("release"),
            files=reader.digest("files"),
            key=reader.text("key"),
            extra=reader.rest(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Releases:
    """All release records by name and version, and what is wrong with those that cannot be read."""

    records: tuple[Release, ...] = ()
    damages: tuple[str, ...] = ()

    @classmethod
    def build(cls, raw: RawRecords) -> Self:
        """Index raw records. One bad record hides no other."""
        found, damages = read_each(raw, Release.from_json)
        records = (one for _, one in found)
        ordered = sorted(records, key=lambda one: (one.identity.name, one.identity.numbers, one.release))
        return cls(records=tuple(ordered), damages=damages)

    def find(self, name: str, version: str | None = None) -> Release | None:
        """The release of that name and version, or the one of the highest version; None when there is none."""
        mine = [one for one in self.records if one.identity.name == name and version in (None, one.identity.version)]
        return mine[-1] if mine else None


def check_words(time: str | None, accepted_taint: str | None) -> None:
    """Raise ``Refused`` for a time or a reason that a release cannot have; None stands for none."""
    if time is not None:
        _require(_TIME, time, "is not a time", "Write it like '2026-11-30T12:00:00Z'.")
    if accepted_taint is not None and not _is_sentence(accepted_taint):
        raise Refused("The reason for accepting a taint is one line of text.", remedy="Say why, in a sentence.")


def parse_reference(text: str) -> tuple[str, str | None]:
    """Name and version of ``pocket-moe@1.0.0``, or the name alone. Raises ``Refused`` for anything else."""
    name, _, version = text.partition("@")
    _require(_NAME, name, "is not the name of a release", "Write it like 'pocket-moe' or 'pocket-moe@1.0.0'.")
    if "@" in text:
        _require(_VERSION, version, "is not a version", "Write it like '1.0.0': three numbers.")
    return name, version or None


def _subject(reader: Reader) -> tuple[str, Digest]:
    name = checked_path(reader.text("name"))
    inner = reader.object("digest", lambda one: one)
    digest = Digest(Algorithm.SHA256, inner.text("sha256"))
    inner.close()
    reader.close()
    return name, digest


def _is_sentence(text: str) -> bool:
    return 0 < len(text.strip()) <= LONGEST_REASON and text.isprintable()


def _require(pattern: re.Pattern[str], text: str, complaint: str, remedy: str) -> None:
    if not pattern.fullmatch(text):
        raise Refused(f"{text[:120]!r} {complaint}.", remedy=remedy)
