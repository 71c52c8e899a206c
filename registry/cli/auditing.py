"""Where the audit's ports meet their adapters, for an archive and for a bundle. Like ``wiring``, inside functions only.

No rule of the archive lives here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from registry.cli import trusting, wiring
from registry.core.names import Name
from registry.errors import MalformedRecord, Refused

LARGEST_TABLE = 512 * 2**20

if TYPE_CHECKING:
    from registry.core.bundle import Cover
    from registry.core.inclusion import Inclusion
    from registry.ports import Columns, Commits, Papers
    from registry.workflows.audit import AtHand, Auditor, Live
    from registry.workflows.bundle import Bundle, Bundler
    from registry.workflows.withhold import Withholder


def columns(archive: Path) -> Columns:
    """The tables under ``manifests/``, by the column."""
    from registry.adapters.columns import TableColumns

    return TableColumns(lambda name: _table(archive, name))


@contextmanager
def auditor(archive: Path, advance: Callable[[int], None], *, weights: Path | None = None) -> Iterator[Auditor]:
    """The workflow that audits artifacts of an archive."""
    from registry.adapters.commits import GitStore
    from registry.adapters.papers import DiskPapers
    from registry.workflows.audit import Auditor

    with GitStore(archive) as commits:
        yield Auditor(
            records=wiring.record_store(archive),
            ledger=wiring.ledger(archive),
            columns=columns(archive),
            papers=DiskPapers(archive),
            settings=settings,
            commits=commits,
            signed=trusting.checker().attested,
            live=_live(archive, advance),
            at_hand=None if weights is None else _at_hand(weights),
        )


@contextmanager
def bundle_auditor(file: Path, *, weights: Path | None = None) -> Iterator[tuple[Cover, Auditor]]:
    """The workflow that audits a bundle, with nothing else at hand, and what the bundle is about."""
    from registry.adapters.bundles import BundleCommits, BundleFile, BundlePapers, BundleRecords
    from registry.adapters.columns import TableColumns
    from registry.core.ledger import KINDS, Ledger
    from registry.workflows.audit import Auditor

    with BundleFile(file) as bundle:
        records = BundleRecords(bundle)
        yield (
            bundle.cover,
            Auditor(
                records=records,
                ledger=Ledger.build(wiring.raw(records, KINDS)),
                columns=TableColumns(lambda name: bundle.read(f"manifests/{name}")),
                papers=BundlePapers(bundle),
                settings=settings,
                commits=BundleCommits(bundle),
                with_history=False,
                signed=trusting.checker().attested,
                at_hand=None if weights is None else _at_hand(weights),
            ),
        )


@contextmanager
def bundler(archive: Path) -> Iterator[Bundler]:
    """The workflow that gathers a bundle."""
    from registry.adapters.commits import GitStore
    from registry.adapters.papers import DiskPapers
    from registry.workflows.audit import Auditor
    from registry.workflows.bundle import Bundler

    records, ledger = wiring.record_store(archive), wiring.ledger(archive)

    def reading(columns: Columns, papers: Papers, commits: Commits) -> Auditor:
        return Auditor(
            records=records, ledger=ledger, columns=columns, papers=papers, settings=settings, commits=commits
        )

    with GitStore(archive) as commits:
        yield Bundler(
            records=records,
            columns=columns(archive),
            papers=DiskPapers(archive),
            commits=commits,
            table=lambda name: _table(archive, name),
            reading=reading,
        )


def withholder(archive: Path) -> Withholder:
    """The workflow that declares what may not be published."""
    from registry.workflows.withhold import Withholder

    return Withholder(records=wiring.record_store(archive), columns=columns(archive), ledger=wiring.ledger(archive))


def refuse_placeless(file: Path) -> None:
    """Raises ``Refused`` unless the folder of a file that will be written is there."""
    if not file.parent.is_dir():
        raise Refused(
            f"{file} cannot be written: there is no folder {file.parent}.", remedy="Make it, or name another."
        )


def write_bundle(file: Path, bundle: Bundle) -> int:
    """Write a bundle; its size in bytes."""
    from registry.adapters.bundles import write_bundle as write

    return write(file, bundle.cover, bundle.members)


def proof(archive: Path, name: Name) -> Inclusion:
    """The proof that the file ``name`` belongs to its artifact."""
    from registry.core.inclusion import prove
    from registry.core.resolving import artifact

    held = artifact(wiring.ledger(archive), name)
    return prove(name.artifact, columns(archive).files(held.output.digest), name.path or "")


def write_proof(file: Path, made: Inclusion) -> None:
    """Write a proof."""
    from registry.core.codec import record_bytes

    file.write_bytes(record_bytes(made))


def checked_proof(proof: Path, *, tree: str | None, file: Path | None) -> Inclusion:
    """A proof that holds: of the tree that is given, else of the one on record here, and of the file if it is given."""
    from registry.adapters.hashing import hash_file
    from registry.core import canonical
    from registry.core.digests import Digest
    from registry.core.inclusion import Inclusion
    from registry.core.resolving import artifact
    from registry.errors import DoesNotHold

    if proof.stat().st_size > canonical.MAXIMUM_BYTES:
        raise Refused(f"{proof} is too large for a proof.")
    try:
        made = Inclusion.from_json(canonical.decode(proof.read_bytes()))
    except MalformedRecord as error:
        raise MalformedRecord(
            f"{proof} is no proof: {error.message}", remedy="'reckon prove NAME:PATH -o' makes one."
        ) from error
    if tree is not None:
        made.verify(Digest.parse(tree))
    else:
        made.verify(artifact(wiring.ledger(wiring.root()), Name.parse(made.name)).output.digest)
    if file is not None and hash_file(file) != (made.entry.size_bytes, made.entry.digest):
        raise DoesNotHold(f"{file} is not the file that the proof speaks of.")
    return made


@lru_cache(maxsize=64)
def settings(data: bytes) -> object:
    """``params.yaml`` of some commit as plain values; None when it is nothing that can be compared."""
    from registry.adapters.settings import read_settings

    return read_settings(data)


def _table(archive: Path, name: str) -> bytes | None:
    """The bytes of a table, if there is one and it is not over the limit of a bundle's member."""
    path = archive / "manifests" / name
    if not path.is_file() or path.is_symlink() or path.stat().st_size > LARGEST_TABLE:
        return None
    return path.read_bytes()


def _live(archive: Path, advance: Callable[[int], None]) -> Live:
    from registry.adapters.cache import cache_folder
    from registry.workflows.audit import Live
    from registry.workflows.witnesses import WitnessReader

    verifier = wiring.verifier(archive, advance, with_cache=False)
    cached = cache_folder(archive).is_dir()
    locked = (archive / "dvc.lock").is_file()
    store = os.environ.get("MLFLOW_TRACKING_URI") or (archive / "artifacts/mlflow/mlflow.db").is_file()
    return Live(
        repository=wiring.repository(archive),
        hash_product=verifier.product,
        hash_output=verifier.artifact,
        cache=wiring.cache(archive) if cached else None,
        consulted=_consulted(lock=locked, cache=cached),
        copies=lambda ledger, executions: WitnessReader(
            tracker=wiring.tracker(archive) if store else None,
            pointers=wiring.pointers(archive),
            ran_here=lambda one: (archive / "artifacts/runs" / one.stage / one.attempt).is_dir(),
            curves=wiring.curve_checker(archive).check,
        ).read(ledger, executions),
    )


def _consulted(*, lock: bool, cache: bool) -> Mapping[str, str]:
    return {
        "dvc.lock": "consulted" if lock else "not consulted: no dvc.lock here",
        "DVC cache": "consulted" if cache else "not consulted: no cache here",
    }


def _at_hand(folder: Path) -> AtHand:
    from registry.workflows.audit import AtHand

    place = folder.resolve()
    if not place.exists():
        raise Refused(f"{folder} does not exist.", remedy="Name the folder or file that holds the artifact.")
    return AtHand(disk=wiring.disk(place.parent), observer=wiring.observer(place.parent), path=place.name)
