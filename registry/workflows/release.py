"""Building a release: everything that it claims is checked first, then the folder is made whole or not at all.

The files that explain a release are made from the bundle that lies in it, so that whoever has the folder can make them
again. Refuses uncommitted code, contradictions, tainted data without a reason, sources without a licence, an audit that
does not hold, tensors that are not the checkpoint's, pending state, files that disagree, secrets, and a version that is
taken or goes backwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, Protocol

from registry.core import canonical, releasable, twins
from registry.core.audit.attestations import envelopes
from registry.core.audit.evidence import Evidence
from registry.core.audit.judging import Audit
from registry.core.canonical import Json
from registry.core.card import Template
from registry.core.codec import record_bytes
from registry.core.digests import Digest, FileEntry, tree_digest
from registry.core.explaining import FORM, Evident, Explainer, WriteCard
from registry.core.export import Export
from registry.core.ledger import Ledger
from registry.core.names import Name
from registry.core.release import (
    ATTESTATIONS,
    CRATE,
    LOADING,
    STATEMENT,
    TEMPLATE,
    UNSTATED,
    Identity,
    Release,
    Releases,
    ReleaseStatement,
    Terms,
    Weights,
    check_words,
)
from registry.core.resolving import Held, artifact
from registry.core.secrecy import secrets_in
from registry.errors import DoesNotHold, Refused
from registry.ports import Host, RecordStore, Repository

EXPORT: Final = "export.json"
LARGEST_FILE: Final = 5 * 10**9


class Draft(Protocol):
    """A folder that becomes a release, or nothing."""

    def take(self, source: str, name: str) -> None:
        """Copy a file of the working tree."""
        ...

    def write(self, name: str, data: bytes) -> None:
        """Write a file."""
        ...

    @property
    def entries(self) -> Sequence[FileEntry]:
        """All files so far, as they were written, sorted by path."""
        ...

    @property
    def blakes(self) -> Mapping[str, Digest]:
        """BLAKE3 of the large files so far, by path."""
        ...

    def secrets(self) -> Iterator[str]:
        """A sentence for everything that looks like a secret."""
        ...

    def bundle(self, artifact: Name) -> AbstractContextManager[Evident]:
        """Write the bundle of an artifact, and open it."""
        ...

    def load(self, export: Export) -> Mapping[str, Json]:
        """What comes of loading the weights with the library that they are for: sentences by what was tried."""
        ...

    def read_back(self) -> Sequence[FileEntry]:
        """All files, hashed now."""
        ...

    def sign(self) -> None:
        """Sign all files."""
        ...


class Seal(Protocol):
    """A key that signs statements."""

    @property
    def key(self) -> str:
        """The id of the key."""
        ...

    def envelope(self, payload: bytes) -> bytes:
        """The payload in a signed envelope."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What somebody wants released. ``time`` is None for now; ``accept_taint`` says why tainted data is let through."""

    artifact: Name
    identity: Identity
    template: bytes
    accept_taint: str | None = None
    time: str | None = None

    def __post_init__(self) -> None:
        check_words(self.time, self.accept_taint)


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A release that was built and recorded."""

    record: Digest
    release: Release
    statement: ReleaseStatement


@dataclass(frozen=True, slots=True, kw_only=True)
class Builder:
    """Builds releases of one archive.

    ``audit`` audits at the depth ``bytes``; ``check`` holds an export against its checkpoint, both by their paths, and
    raises what is wrong.
    """

    records: RecordStore
    ledger: Ledger
    repository: Repository
    host: Host
    audit: Callable[[Name], tuple[Audit, Evidence]]
    check: Callable[[str, str], Export]
    read_template: Callable[[bytes], Template]
    write_card: WriteCard

    def build(self, request: Request, seal: Seal, draft: Callable[[], AbstractContextManager[Draft]]) -> Built:
        """Check everything, build the folder and record it. Raises a sentence of its own for each refusal."""
        template = self.read_template(request.template)
        parent = self._parent(request.identity)
        revision = self.repository.revision()
        if revision.dirty:
            raise Refused(
                "The working tree has changes that no commit holds, so that nobody could say what built the release.",
                remedy="Commit them first.",
            )
        held = self._held(request.artifact)
        with draft() as folder:
            export = self.check(held.output.path, self._checkpoint(held))
            self._require_releasable(request, held)
            terms = Terms(
                identity=request.identity,
                parent=parent,
                artifact=held.output.name,
                product=held.product_digest,
                weights=Weights(checkpoint=export.source.name, checkpoint_root=export.source.root, root=export.root),
                commit=revision.commit,
                time=request.time or self.host.now(),
                accepted_taint=request.accept_taint,
            )
            making = _Making(self, terms, export, template, folder)
            statement = making.make(request.template, held, seal)
            release = making.finished(statement, seal.key)
            self._require_same(release)
            folder.sign()
        return Built(record=self.records.put(Release.KIND, record_bytes(release)), release=release, statement=statement)

    def _releases(self) -> Releases:
        digests = self.records.digests(Release.KIND)
        return Releases.build((digest, self.records.get(Release.KIND, digest)) for digest in digests)

    def _parent(self, identity: Identity) -> Digest | None:
        """The release before this one. Raises ``Refused`` when a higher version is on record."""
        mine = [one for one in self._releases().records if one.identity.name == identity.name]
        higher = [one for one in mine if one.identity.numbers > identity.numbers]
        if higher:
            raise Refused(
                f"{higher[-1].identity} is released already, and versions do not go back to {identity.version}.",
                remedy="Choose a higher version.",
            )
        before = [one for one in mine if one.identity.numbers < identity.numbers]
        return before[-1].release if before else None

    def _require_same(self, release: Release) -> None:
        """Building a version again is fine if it gives the same release."""
        known = self._releases().find(release.identity.name, release.identity.version)
        if known is not None and record_bytes(known) != record_bytes(release):
            raise Refused(
                f"{release.identity} is on record as {known.release.short}; this would be {release.release.short}.",
                remedy=f"Choose another version. (The same evidence with --time {known.terms.time} gives the same.)",
            )

    def _held(self, name: Name) -> Held:
        held = artifact(self.ledger, name)
        if "checkpoint" not in held.output.contents:
            raise Refused(f"{name} is no export, and only exports are released.", remedy="Name one, such as 'export'.")
        return held

    def _checkpoint(self, held: Held) -> str:
        """Where the checkpoint of an export lies."""
        told = held.output.contents["checkpoint"]
        name = str(told.get("name")) if isinstance(told, Mapping) else ""
        return artifact(self.ledger, Name.parse(name)).output.path

    def _require_releasable(self, request: Request, held: Held) -> None:
        """Refuse what the records speak against; the cheap look at records comes before the audit of all bytes."""
        audit, evidence = self.audit(request.artifact)
        clean = releasable.dirty(evidence)
        if clean:
            raise Refused(
                f"Code that no commit holds made a part of this: {releasable.told(clean)}",
                remedy="Commit the code and run the stage again: a dirty execution is never released.",
            )
        disputed = releasable.contradictions(evidence)
        if disputed:
            raise DoesNotHold(
                f"The lineage contradicts itself: {releasable.told(disputed)}",
                remedy="See 'reckon log', and find out why one recipe gave two products.",
            )
        _require_taint(request, releasable.taints(evidence, held.product_digest))
        unlicensed = releasable.without_licence(evidence)
        if unlicensed:
            raise Refused(
                f"A source has no licence: {releasable.told(unlicensed)}",
                remedy="State the licence of every source in params.yaml, and run its stage again.",
            )
        unmet = releasable.unmet(audit)
        if unmet:
            raise DoesNotHold(
                f"The audit of {request.artifact} does not hold: {releasable.told(unmet)}",
                remedy=f"See 'reckon audit {request.artifact}'.",
            )


@dataclass(frozen=True, slots=True)
class _Making:
    """One release while its folder is made."""

    builder: Builder
    terms: Terms
    export: Export
    template: Template
    folder: Draft

    def make(self, template: bytes, held: Held, seal: Seal) -> ReleaseStatement:
        """Fill the folder up to its statement."""
        for name in (*self.export.files, *self.export.weights, EXPORT):
            self.folder.take(f"{held.output.path}/{name}", name)
        taken = tree_digest(self.folder.entries)
        if taken != held.output.digest:
            raise DoesNotHold(f"{held.output.path} changed while it was released.", remedy="Try again.")
        self._require_small(self.folder.entries)
        loading = self.folder.load(self.export)
        self.folder.write(LOADING, canonical.encode(loading) + b"\n")
        self.folder.write(TEMPLATE, template)
        with self.folder.bundle(Name.parse(held.output.name)) as evident:
            self._explain(evident, loading, seal)
        statement = ReleaseStatement(terms=self.terms, files=self._stated(), extra={"form": FORM})
        self.folder.write(STATEMENT, seal.envelope(statement.payload))
        return statement

    def _require_small(self, entries: Sequence[FileEntry]) -> None:
        """A download that breaks begins its file anew, so that no file is larger than a hub's clients advise."""
        large = [entry.path for entry in entries if entry.size_bytes > LARGEST_FILE]
        if large:
            raise Refused(
                f"{', '.join(large)}: over {LARGEST_FILE} bytes, too large for one file of a release.",
                remedy="Lower export.shard_bytes in params.yaml, and run 'dvc repro export'.",
            )

    def finished(self, statement: ReleaseStatement, key: str) -> Release:
        """The record, once every byte was read back from the disk."""
        if list(self.folder.read_back()) != list(self.folder.entries):
            raise DoesNotHold("The disk gives back other bytes than were written.", remedy="Check it; try again.")
        stated = [entry for entry in self.folder.entries if entry.path not in UNSTATED]
        return Release(terms=self.terms, release=statement.digest, files=tree_digest(stated), key=key)

    def _explain(self, evident: Evident, loading: Mapping[str, Json], seal: Seal) -> None:
        explainer = Explainer(
            terms=self.terms,
            evident=evident,
            export=self.export,
            loading=loading,
            template=self.template,
            write=self.builder.write_card,
        )
        attested = envelopes(evident.evidence)
        stages = explainer.stages()
        written = {
            **explainer.files(),
            **{f"{ATTESTATIONS}/{name}": data for name, data in attested.items()},
            **{path: seal.envelope(payload) for path, payload in stages.items()},
        }
        for path, data in written.items():
            self.folder.write(path, data)
        if self.folder.blakes:
            self.folder.write(twins.FILE, twins.encode(self.folder.blakes))
        self.folder.write(CRATE, explainer.crate(self.folder.entries))
        self._require_no_secrets(stages)

    def _require_no_secrets(self, payloads: Mapping[str, bytes]) -> None:
        """Payloads are searched beside the files, since an envelope holds them in another spelling."""
        inside = (f"{path} holds {one.kind}." for path, data in payloads.items() for one in secrets_in([data]))
        found = [*self.folder.secrets(), *inside]
        if found:
            raise Refused(
                f"Something in the release looks like a secret: {releasable.told(found)}",
                remedy="Take it out of what the stage is given, revoke it, and run the stage again.",
            )

    def _stated(self) -> dict[str, Digest]:
        return {entry.path: entry.digest for entry in self.folder.entries}


def _require_taint(request: Request, taints: Sequence[str]) -> None:
    if taints and request.accept_taint is None:
        raise Refused(
            f"Tainted data reaches {request.artifact}: {releasable.told(taints)}",
            remedy="Train without it, or say why it may go out: --accept-taint REASON is printed on the card.",
        )
    if not taints and request.accept_taint is not None:
        raise Refused(f"No taint reaches {request.artifact}.", remedy="Leave --accept-taint out.")
