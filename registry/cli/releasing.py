"""Where building and checking releases meet their adapters; like ``wiring``, inside functions only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from registry.cli import auditing, trusting, wiring
from registry.core.names import Name
from registry.errors import Refused

if TYPE_CHECKING:
    from registry.adapters.release_draft import Draft as Folder
    from registry.adapters.signing import Key
    from registry.core.audit.evidence import Evidence
    from registry.core.audit.judging import Audit
    from registry.core.canonical import Json
    from registry.core.digests import FileEntry
    from registry.core.dsse import Envelope
    from registry.core.explaining import Evident
    from registry.core.export import Export
    from registry.core.release import Releases
    from registry.workflows.release import Builder, Draft

RELEASES: Final = "artifacts/releases"
TEMPLATE: Final = "card.md"


def builder(archive: Path, advance: Callable[[int], None]) -> Builder:
    """The workflow that builds releases."""
    from registry.adapters.cards import read_template, write_card
    from registry.adapters.checkpoints import open_checkpoint
    from registry.adapters.observers.releasing import check_export
    from registry.workflows.audit import Depth
    from registry.workflows.release import Builder

    def audit(name: Name) -> tuple[Audit, Evidence]:
        with auditing.auditor(archive, advance) as auditor:
            return auditor.audit(name, Depth.BYTES)

    return Builder(
        records=wiring.record_store(archive),
        ledger=wiring.ledger(archive),
        repository=wiring.repository(archive),
        host=wiring.host(),
        audit=audit,
        check=lambda path, checkpoint: check_export(archive / path, archive / checkpoint, open_checkpoint),
        attestations=attestations(archive),
        read_template=read_template,
        write_card=write_card,
    )


@contextmanager
def draft(archive: Path, target: Path, key: Key) -> Iterator[Draft]:
    """A release that is being built, signed with ``key`` in the end; it appears at ``target`` whole or not at all."""
    from registry.adapters.release_draft import draft as folder

    with folder(target) as made:
        yield _Draft(archive, made, key)


@dataclass(frozen=True, slots=True)
class Sealer:
    """A key that signs statements."""

    private: Key

    @property
    def key(self) -> str:
        """The id of the key."""
        return self.private.public_key.id

    def envelope(self, payload: bytes) -> bytes:
        """The payload in a signed envelope."""
        from registry.adapters.signing import sign
        from registry.core.release import PAYLOAD_TYPE

        return sign(PAYLOAD_TYPE, payload, self.private).encode()


@dataclass(frozen=True, slots=True)
class _Draft:
    """The draft on disk, with what writes into it."""

    archive: Path
    folder: Folder
    key: Key

    @property
    def entries(self) -> Sequence[FileEntry]:
        return self.folder.entries

    def take(self, source: str, name: str) -> None:
        self.folder.take(self.archive / source, name)

    def write(self, name: str, data: bytes) -> None:
        self.folder.write(name, data)

    def secrets(self) -> Iterator[str]:
        return self.folder.secrets()

    def bundle(self, artifact: Name) -> AbstractContextManager[Evident]:
        from registry.core.release import BUNDLE

        place = self.folder.at(BUNDLE)
        with auditing.bundler(self.archive) as bundler:
            auditing.write_bundle(place, bundler.bundle(artifact))
        self.folder.adopt(BUNDLE)
        return evident(place)

    def load(self, export: Export) -> Mapping[str, Json]:
        from registry.adapters.loading import load

        return load(self.folder.folder, export.architecture.library)

    def read_back(self) -> Sequence[FileEntry]:
        from registry.adapters.hashing import hash_tree

        return hash_tree(self.folder.folder)

    def sign(self) -> None:
        from registry.adapters.signing import sign_folder

        sign_folder(self.folder.folder, self.key)


@contextmanager
def evident(bundle: Path) -> Iterator[Evident]:
    """What a bundle shows of the artifact that it is about."""
    from registry.core.explaining import Evident
    from registry.core.publications import Publication, Publications

    with auditing.bundle_auditor(bundle) as (cover, auditor):
        _, evidence = auditor.gather(Name.parse(cover.name))
        published = wiring.raw(auditor.records, (Publication.KIND,))
        yield Evident(
            evidence=evidence,
            files=auditor.columns.files,
            publications=Publications.build((digest, data) for _, digest, data in published),
        )


def releases(archive: Path) -> Releases:
    """All release records; damaged ones are listed in it."""
    from registry.core.release import Release, Releases

    return Releases.build(
        (digest, data) for _, digest, data in wiring.raw(wiring.record_store(archive), (Release.KIND,))
    )


def attestations(archive: Path) -> Sequence[Envelope]:
    """The attestations on record that can be read."""
    from registry.core.attestation import Attestation
    from registry.core.canonical import decode

    raw = wiring.raw(wiring.record_store(archive), (Attestation.KIND,))
    return [Attestation.from_json(decode(data)).envelope for _, _, data in raw if isinstance(data, bytes)]


def template(archive: Path, named: Path | None) -> bytes:
    """The bytes of the card's template: the file that is named, else the archive's. Raises ``Refused`` without one."""
    from registry.adapters.cards import LARGEST_TEMPLATE

    file = named or archive / TEMPLATE
    if not file.is_file():
        raise Refused(f"There is no template of the model card at {file}.", remedy="Write one, or name it with --card.")
    if file.stat().st_size > LARGEST_TEMPLATE:
        raise Refused(f"{file} is too large for a template of a model card.")
    return file.read_bytes()


def key(place: str, passphrase_file: Path | None) -> Key:
    """The private key that signs. Raises as ``trusting.signing_key``."""
    return trusting.signing_key(place, passphrase_file)
