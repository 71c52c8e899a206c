"""``model.sig``: the signature of OpenSSF model signing over every file of a folder, by a key, file by file.

The file is a Sigstore bundle around a DSSE envelope around an in-toto Statement that lists every file with its SHA-256.
Read here as strictly as it can be, since it comes from anywhere. Refuses other ways of hashing (parts of files, other
digests), other verification material than a public key, more than one signature, lists of ignored paths that hide more
than Git's and the client's own files, paths that leave the folder, and a sum that is not that of the list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from registry.core import plainjson
from registry.core.canonical import Json
from registry.core.codec import Reader
from registry.core.digests import Algorithm, Digest, FileEntry, sha256
from registry.core.dsse import LARGEST_ENVELOPE, Envelope
from registry.core.findings import Finding, Trouble
from registry.core.names import checked_path
from registry.core.publickeys import checked_id
from registry.core.statement import Statement
from registry.errors import MalformedRecord, Refused

SIGNATURE: Final = "model.sig"
# What the signing library leaves out by itself, and the folder in which the Hub's client keeps notes of a download.
IGNORED: Final = (SIGNATURE, ".cache", ".git", ".gitattributes", ".github", ".gitignore")
MOST_FILES: Final = 100_000
_MEDIA_TYPE: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"
_PREDICATE: Final = "https://model_signing/signature/v1.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSignature:
    """What a ``model.sig`` says: the files by path. It is worth what its signature is, which is checked elsewhere.

    ``hint`` is the SHA-256 of the PEM form of the public key that it claims to be by.
    """

    envelope: Envelope
    hint: str
    files: Mapping[str, Digest]

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read the bytes of a ``model.sig``. Raises ``MalformedRecord``."""
        bundle = Reader(plainjson.read(data, SIGNATURE, LARGEST_ENVELOPE), SIGNATURE)
        if bundle.text("mediaType") != _MEDIA_TYPE:
            raise MalformedRecord(f"{SIGNATURE} is no Sigstore bundle of version 0.3.")
        hint = bundle.object("verificationMaterial", _hint)
        envelope = Envelope.from_json(bundle.raw("dsseEnvelope"))
        bundle.close()
        if len(envelope.signatures) != 1:
            raise MalformedRecord(f"{SIGNATURE} has {len(envelope.signatures)} signatures; it must have one.")
        return cls(envelope=envelope, hint=hint, files=_files(Statement.of(envelope)))

    def differences(self, entries: Sequence[FileEntry], subject: str) -> Iterator[Finding]:
        """How the files of a folder differ from those that were signed: missing, extra, with other bytes."""
        found = {entry.path: entry.digest for entry in entries if not is_ignored(entry.path)}
        for path in sorted({*self.files, *found}):
            signed, here = self.files.get(path), found.get(path)
            if signed != here:
                yield _difference(subject, path, signed, here)


def is_ignored(path: str) -> bool:
    """Whether a signature says nothing of this path: ``model.sig`` itself, Git's files and the Hub client's notes."""
    return path.partition("/")[0] in IGNORED


def _hint(reader: Reader) -> str:
    """The name of the public key. Entries of a transparency log would have to be checked, so there must be none."""
    fields = dict(reader.rest())
    key, entries = fields.pop("publicKey", None), fields.pop("tlogEntries", [])
    hint = key.get("hint") if isinstance(key, Mapping) and set(key) == {"hint"} else None
    if fields or entries != [] or not isinstance(hint, str):
        raise MalformedRecord(f"{SIGNATURE} must be by a public key and nothing else.")
    return checked_id(hint)


def _files(statement: Statement) -> Mapping[str, Digest]:
    if statement.predicate_type != _PREDICATE or len(statement.subjects) != 1:
        raise MalformedRecord(f"{SIGNATURE} does not hold a model signature of version 1.0.")
    predicate = Reader(statement.predicate, f"the predicate of {SIGNATURE}")
    predicate.object("serialization", _check_way)
    resources = predicate.objects("resources", _resource)
    predicate.close()
    files = dict(resources)
    if not 0 < len(files) <= MOST_FILES or len(files) != len(resources):
        raise MalformedRecord(f"{SIGNATURE} must list 1 to {MOST_FILES} files, each once.")
    if sha256(b"".join(bytes.fromhex(digest.hex) for _, digest in resources)) != statement.subjects[0].sha256:
        raise MalformedRecord(f"The sum in {SIGNATURE} is not that of the files that it lists.")
    return files


def _check_way(reader: Reader) -> None:
    """Every file whole, by SHA-256, and nothing left out but what nobody signs."""
    fields: dict[str, Json] = dict(reader.rest())
    ignored, links = fields.pop("ignore_paths", []), fields.pop("allow_symlinks", False)
    if fields != {"method": "files", "hash_type": "sha256"} or not isinstance(links, bool):
        raise MalformedRecord(f"{SIGNATURE} hashes files in another way than whole, by SHA-256.")
    if not isinstance(ignored, Sequence) or isinstance(ignored, str):
        raise MalformedRecord(f"{SIGNATURE} has no list of the paths that it leaves out.")
    hidden = [str(path) for path in ignored if path not in IGNORED]
    if hidden:
        raise MalformedRecord(f"{SIGNATURE} leaves out {', '.join(sorted(hidden))[:200]}, which must be signed.")


def _resource(reader: Reader) -> tuple[str, Digest]:
    path, algorithm, digest = reader.text("name"), reader.text("algorithm"), reader.text("digest")
    reader.close()
    if algorithm != Algorithm.SHA256:
        raise MalformedRecord(f"{SIGNATURE} lists a file by {algorithm[:40]!r}, not by SHA-256.")
    try:
        checked_path(path)
    except Refused as error:
        raise MalformedRecord(f"{SIGNATURE} lists a path that leaves the folder: {path[:200]!r}.") from error
    if is_ignored(path):
        raise MalformedRecord(f"{SIGNATURE} lists {path[:200]!r}, which it must leave out.")
    return path, Digest(Algorithm.SHA256, digest)


def _difference(subject: str, path: str, signed: Digest | None, here: Digest | None) -> Finding:
    if signed is None:
        trouble, text = Trouble.EXTRA, f"{path} is not among the signed files."
    elif here is None:
        trouble, text = Trouble.MISSING, f"{path} is signed and not there."
    else:
        trouble, text = Trouble.ALTERED, f"{path} has other bytes than were signed."
    return Finding(
        subject=subject,
        trouble=trouble,
        path=path,
        recorded=None if signed is None else str(signed),
        found=None if here is None else str(here),
        text=text,
    )
