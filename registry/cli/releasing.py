"""Where building and checking releases meet their adapters; like ``wiring``, inside functions only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from registry.cli import auditing, trusting, wiring
from registry.cli.render import talk
from registry.core.names import Name
from registry.core.release import BUNDLE
from registry.core.resolving import artifact
from registry.errors import ReckonError, Refused

if TYPE_CHECKING:
    from registry.adapters.release_draft import Draft as Folder
    from registry.adapters.signing import Key
    from registry.core.audit.evidence import Evidence
    from registry.core.audit.judging import Audit
    from registry.core.audit.released import Shown
    from registry.core.canonical import Json
    from registry.core.digests import Digest, FileEntry
    from registry.core.explaining import Evident
    from registry.core.export import Export
    from registry.core.findings import Finding
    from registry.core.release import Releases, ReleaseStatement
    from registry.core.twins import Twin
    from registry.ports import Bytes
    from registry.workflows.audit import AtHand, Auditor
    from registry.workflows.release import Builder, Draft
    from registry.workflows.trusted import TrustChecker, Trusted

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

    @property
    def blakes(self) -> Mapping[str, Digest]:
        return self.folder.blakes

    def take(self, source: str, name: str) -> None:
        self.folder.take(self.archive / source, name)

    def write(self, name: str, data: bytes) -> None:
        self.folder.write(name, data)

    def secrets(self) -> Iterator[str]:
        return self.folder.secrets()

    def bundle(self, artifact: Name) -> AbstractContextManager[Evident]:
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
    with auditing.bundle_auditor(bundle) as (cover, auditor):
        yield _evident(auditor, cover.name)


def _evident(auditor: Auditor, artifact: str) -> Evident:
    from registry.core.explaining import Evident
    from registry.core.publications import Publication, Publications

    _, evidence = auditor.gather(Name.parse(artifact))
    published = wiring.raw(auditor.records, (Publication.KIND,))
    return Evident(
        evidence=evidence,
        files=auditor.columns.files,
        publications=Publications.build((digest, data) for _, digest, data in published),
    )


def warn(release: Digest, trust_file: Path | None) -> None:
    """Say what notices on record here say of a release, who answers for them, and which cannot be read.

    Outside of an archive are none.
    """
    from registry.core import canonical
    from registry.core.notices import Notice, about

    try:
        archive = wiring.root()
    except Refused:
        return
    raw = wiring.raw(wiring.record_store(archive), (Notice.KIND,))
    told = []
    for _, digest, data in raw:
        try:
            if isinstance(data, ReckonError):
                raise data
            told.append(Notice.from_json(canonical.decode(data)))
        except ReckonError as error:
            talk(f"WARNING: the notice {digest.short} on record here cannot be read: {error.message}")
    for notice in sorted(about(told, release), key=lambda one: one.time):
        talk(f"WARNING: {notice.sentence} {trusting.checker(trust_file).noticed(notice)}")


def releases(archive: Path) -> Releases:
    """All release records; damaged ones are listed in it."""
    from registry.core.release import Release, Releases

    return Releases.build(
        (digest, data) for _, digest, data in wiring.raw(wiring.record_store(archive), (Release.KIND,))
    )


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


@contextmanager
def inspected(
    folder: Path, trust_file: Path | None, *, quickly: bool = False
) -> Iterator[tuple[Inspected, Auditor | None]]:
    """A release folder looked at, and the auditor of its bundle; None where there is none that can be trusted.

    ``quickly`` takes BLAKE3 of large files where the signer gives both digests; else SHA-256 is taken of all.
    """
    from registry.adapters.hashing import ReleaseFolder
    from registry.cli.render import progress

    found = ReleaseFolder(root=folder)
    checker = trusting.checker(trust_file)
    twins = _twins(checker, found.read) if quickly else {}
    with progress("Hashing", found.size_bytes, in_bytes=True) as advance:
        entries = replace(found, advance=advance).entries(twins)
    trusted = checker.check(entries, found.read)
    by_twins = sum(entry.path in twins for entry in entries)
    looked = Inspected(folder=folder, entries=entries, trusted=trusted, by_twins=by_twins)
    bundle = next((entry.digest for entry in entries if entry.path == BUNDLE), None)
    if trusted.signed is None or bundle is None or trusted.signed.files.get(BUNDLE) != bundle:
        yield looked, None
        return
    with auditing.bundle_auditor(folder / BUNDLE) as (_, auditor):
        yield looked, replace(auditor, at_hand=looked.at_hand)


def _twins(checker: TrustChecker, read: Callable[[str], bytes]) -> Mapping[str, Twin]:
    """What the signer says of large files; nothing where nobody signed or the list will not do: SHA-256 is taken."""
    from registry.core.twins import signed_twins

    signed, _ = checker.seals(read)
    try:
        return {} if signed is None else signed_twins(read, signed.files)
    except ReckonError:
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspected:
    """A release folder whose files were hashed and whose signatures were checked.

    ``by_twins`` is how many files may have been taken by their BLAKE3, for which there is the signer's word.
    """

    folder: Path
    entries: Sequence[FileEntry]
    trusted: Trusted
    by_twins: int = 0

    @property
    def at_hand(self) -> AtHand:
        """The export in the folder, by the hashes that are known already."""
        from registry.workflows.audit import AtHand

        place = self.folder.resolve()
        listed = cast("Bytes", _Listed(self.entries))
        return AtHand(disk=listed, observer=wiring.observer(place.parent), path=place.name)

    def shown(self, auditor: Auditor, statement: ReleaseStatement) -> Shown:
        """What is found of the release, beside its lineage."""
        from registry.adapters.cards import read_template, write_card
        from registry.adapters.hashing import ReleaseFolder
        from registry.core.audit.released import Shown
        from registry.workflows.released import Inspector

        inspector = Inspector(
            statement=statement,
            read=ReleaseFolder(root=self.folder).read,
            evident=_evident(auditor, statement.terms.artifact),
            read_template=read_template,
            write_card=write_card,
        )
        unmapped = self._unmapped(auditor, statement)
        return Shown(
            statement=statement,
            says=self.trusted.says,
            vouched=self.trusted.verdict.findings,
            hashed=len(self.entries),
            by_twins=self.by_twins,
            exported=inspector.exported(self.entries),
            drifted=inspector.drifted(self.entries),
            unmapped=unmapped or (),
            mapped=unmapped is not None,
        )

    def _unmapped(self, auditor: Auditor, statement: ReleaseStatement) -> tuple[Finding, ...] | None:
        """What is wrong with the tensors beside the checkpoint's; None where the checkpoint does not lie here."""
        from registry.adapters.checkpoints import open_checkpoint
        from registry.adapters.observers.releasing import check_export
        from registry.core.findings import Finding, Trouble

        checkpoint = statement.terms.weights.checkpoint
        try:
            archive = wiring.root()
            place = archive / artifact(auditor.ledger, checkpoint).output.path
        except ReckonError:
            return None
        if not place.is_dir():
            return None
        try:
            check_export(self.folder, place, open_checkpoint)
        except ReckonError as error:
            return (Finding(subject=str(statement.identity), trouble=Trouble.TENSOR, text=error.message),)
        return ()


@dataclass(frozen=True, slots=True)
class _Listed:
    """Files that were hashed already."""

    entries: Sequence[FileEntry]

    def files(self, path: str) -> Sequence[FileEntry]:
        return self.entries
