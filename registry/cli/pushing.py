"""Where publishing meets its adapters. Like ``wiring``, inside functions only. No rule of the archive lives here."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from registry.cli import auditing, release_audit, trusting, wiring
from registry.cli.render import progress, talk
from registry.core.names import Name
from registry.errors import DoesNotHold, ReckonError, Refused, UnknownName

if TYPE_CHECKING:
    from registry.adapters.signing import Key
    from registry.core.ledger import Ledger
    from registry.core.publications import Publication, Publications
    from registry.core.pushing import Parcel
    from registry.core.records import Output
    from registry.core.release import ReleaseStatement
    from registry.ports import RegisteredModels
    from registry.workflows.push.checkpoints import Kept, Trajectory
    from registry.workflows.push.notice import Announcer, Wish
    from registry.workflows.push.release import Pusher
    from registry.workflows.push.staging import Site


def release_folder(name: str) -> Path:
    """The folder of a release: the one that is named, or that of a release on record. Raises ``UnknownName``."""
    found = release_audit.folder_of(name)
    if found is None:
        remedy = "Name it as NAME@X.Y.Z or by its folder; see 'reckon release list'."
        raise UnknownName(f"{name} is no release that lies here.", remedy=remedy)
    return found


def parcel(folder: Path, repository: str, trust_file: Path | None) -> Parcel:
    """The files of a release, hashed now, after its signatures were checked. Raises ``DoesNotHold``."""
    from registry.adapters.hashing import ReleaseFolder, hash_file
    from registry.core.digests import FileEntry
    from registry.core.pushing import Parcel
    from registry.core.release import SIGNATURE
    from registry.workflows.trusted import Expected

    sized = ReleaseFolder(root=folder)
    with progress("Hashing", sized.size_bytes, in_bytes=True) as advance:
        entries = ReleaseFolder(root=folder, advance=advance).entries()
    trusted = trusting.checker(trust_file).check(entries, sized.read, Expected(repository=repository))
    if not trusted.holds:
        told = " ".join(finding.text for finding in trusted.verdict.findings[:3])
        raise DoesNotHold(f"{folder} is not fit to be published: {told}", remedy="See 'reckon release verify'.")
    size_bytes, digest = hash_file(folder / SIGNATURE)
    signature = FileEntry(path=SIGNATURE, size_bytes=size_bytes, digest=digest)
    unsigned = [entry for entry in entries if entry.path != SIGNATURE]
    return Parcel.of([*unsigned, signature], folder, lambda path: (folder / path).read_bytes())


def site(repository: str, advance: Callable[[int], None] = lambda _: None) -> Site:
    """The repository on the hub of HF_ENDPOINT, with the client's own token."""
    from registry.adapters.hub_push import HubRepository, endpoint
    from registry.core.publications import Place
    from registry.workflows.push.staging import Site

    outlet = HubRepository(Place(endpoint=endpoint(), repository=repository))
    from registry.adapters.hub_read import HubReader

    return Site(outlet=outlet, origin=HubReader.at(outlet.place.endpoint), advance=advance, say=talk)


def publications(archive: Path) -> Publications:
    """All publication records; damaged ones are told."""
    from registry.core.publications import Publication, Publications

    raw = wiring.raw(wiring.record_store(archive), (Publication.KIND,))
    found = Publications.build((digest, data) for _, digest, data in raw)
    for damage in found.damages:
        talk(f"The publication record {damage}")
    return found


def pusher(archive: Path, at: Site) -> Pusher:
    """The workflow that publishes releases."""
    from registry.workflows.push.release import Pusher

    return Pusher(
        site=at,
        records=wiring.record_store(archive),
        publications=publications(archive),
        host=wiring.host(),
        room_bytes=shutil.disk_usage(archive).free,
    )


def announcer(archive: Path, at: Site, key: Key | None) -> Announcer:
    """The workflow that publishes notices, signed where there is a key."""
    from registry.workflows.push.notice import Announcer

    seal = None if key is None else lambda statement: trusting.signed(statement, key)
    return Announcer(site=at, records=wiring.record_store(archive), host=wiring.host(), seal=seal)


def trajectory(archive: Path, at: Site, ledger: Ledger) -> Trajectory:
    """The workflow that publishes checkpoints."""
    from registry.core.pushing import Parcel
    from registry.workflows.push.checkpoints import Trajectory

    disk = wiring.disk(archive)

    def files(kept: Kept) -> Parcel:
        path = recorded(ledger, kept).path
        if not disk.exists(path):
            raise UnknownName(f"{kept.name} does not lie here.", remedy=f"Run 'dvc pull {path}' first.")
        return Parcel.of(disk.files(path), archive / path, lambda name: disk.read(f"{path}/{name}"))

    return Trajectory(
        site=at,
        records=wiring.record_store(archive),
        publications=publications(archive),
        host=wiring.host(),
        parcel=files,
    )


def recorded(ledger: Ledger, kept: Kept) -> Output:
    """A checkpoint as it is on record. Raises ``UnknownName`` when it is not."""
    from registry.core.resolving import artifacts_with

    found = [output for _, output in artifacts_with(ledger, kept.files) if output.name == str(kept.name)]
    if not found:
        raise UnknownName(f"{kept.name} with these files is not on record here.", remedy="See 'reckon log'.")
    return found[0]


def kept(archive: Path, ledger: Ledger, name: str) -> Sequence[Kept]:
    """The checkpoints to publish: those that a release lists, or all that led to ``hero/2@step-N``."""
    from registry.core import canonical, trajectory
    from registry.core.release import CHECKPOINTS
    from registry.core.resolving import artifact, root_of
    from registry.workflows.push.checkpoints import read_list

    checkpoint = _checkpoint(name)
    if checkpoint is None:
        return read_list((release_folder(name) / CHECKPOINTS).read_bytes())
    root = root_of(artifact(ledger, checkpoint).output)
    if root is None:
        raise DoesNotHold(f"{checkpoint} has no tensor root on record.")
    with auditing.auditor(archive, lambda _: None) as auditor:
        _, evidence = auditor.gather(checkpoint)
    run = trajectory.segments(evidence, checkpoint, root)
    return read_list(canonical.encode(trajectory.checkpoints(run, {})))


def _checkpoint(name: str) -> Name | None:
    """The checkpoint that is named, None for the name or the folder of a release."""
    try:
        found = Name.parse(name)
    except Refused:
        return None
    if found.step is None and "/" in name and not Path(name).is_dir():
        raise UnknownName(f"{name} is no checkpoint.", remedy=f"Name one, such as {name}@step-450.")
    return found if found.step is not None else None


def wish(archive: Path, name: str, repository: str, words: tuple[str, str | None, str | None]) -> Wish:
    """What is to be said of a published release: reason, erratum, and the successor that makes it a replacement."""
    from registry.cli.releasing import releases
    from registry.core.notices import Change
    from registry.core.release import Identity, parse_reference
    from registry.workflows.push.notice import Wish

    reason, erratum, successor = words
    stem, version = parse_reference(name)
    if version is None:
        raise Refused(f"{name} is no version.", remedy=f"Name one, such as {stem}@1.0.0.")
    known = releases(archive).find(stem, version)
    return Wish(
        what=Change.YANK if successor is None else Change.SUPERSEDE,
        identity=Identity(name=stem, version=version, repository=repository),
        successor=successor,
        reason=reason,
        erratum=erratum,
        known=None if known is None else known.release,
    )


def registered_models(archive: Path) -> RegisteredModels:
    """MLflow's registered versions: of the server or store of MLFLOW_TRACKING_URI, else of the repository's own."""
    from registry.adapters.mlflow_store import MlflowModels

    return MlflowModels(archive, os.environ.get("MLFLOW_TRACKING_URI") or None)


def tell_tracker(archive: Path, statement: ReleaseStatement, publication: Publication) -> str | None:
    """Tell MLflow's registered version where it was published; returns its name, or None when none stands for it.

    A tracker that fails is told of, not raised: the record is complete without it.
    """
    from registry.core.resolving import artifacts_with

    ledger = wiring.ledger(archive)
    weights = statement.weights
    products = [
        product
        for product, output in artifacts_with(ledger, weights.checkpoint_root)
        if output.name == str(weights.checkpoint)
    ]
    try:
        tracker = registered_models(archive)
        found = [tracker.mark(product, publication) for product in products]
    except ReckonError as error:
        talk(f"Published, but the tracker was not told: {error.message}")
        return None
    named = [one for one in found if one is not None]
    return named[-1] if named else None
