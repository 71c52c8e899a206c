"""Where ports meet adapters for the data order, incidents and clean-up. Like ``wiring``, inside functions only.

No rule of the archive lives here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.cli import wiring
from registry.errors import ReckonError

if TYPE_CHECKING:
    from registry.adapters.copies import Copies
    from registry.core.canonical import Json
    from registry.core.course import Navigator
    from registry.core.digests import Digest, FileEntry
    from registry.core.reaching import Known
    from registry.core.records import Output
    from registry.core.retention import Marks
    from registry.workflows.batch import Batcher
    from registry.workflows.gc import Cleaner
    from registry.workflows.incident import Annotator
    from registry.workflows.keep import Keeper
    from registry.workflows.order import Orderly
    from registry.workflows.seen import Finder


def copies(archive: Path) -> Copies:
    """Copies of recorded files: in the working tree, DVC's cache, and a remote that is a folder."""
    from registry.adapters.cache import cache_folder
    from registry.adapters.copies import Copies, ObjectStore, remote_folder
    from registry.adapters.hashing import hash_file

    remote = remote_folder(archive)
    folders = {"cache": cache_folder(archive), **({} if remote is None else {"remote": remote})}
    stores = [ObjectStore(name, folder / "files" / "md5") for name, folder in folders.items()]
    return Copies(archive, stores, hash_file)


def navigator(archive: Path) -> Navigator:
    """Courses of runs, from records and copies that have the recorded bytes."""
    from registry.adapters.token_streams import read_columns
    from registry.core.course import Navigator
    from registry.core.lineage import Lineage

    known, tables, shelf = wiring.ledger(archive), wiring.table_store(archive), copies(archive)

    def columns(output: Output, entry: FileEntry, names: Mapping[str, type]) -> Mapping[str, Sequence[Any]]:
        return read_columns(shelf.read(output, entry), names, f"{output.name}:{entry.path}")

    return Navigator(known, Lineage(known, tables.get_files), tables.get_files, shelf.read, columns)


def batcher(archive: Path) -> Batcher:
    """The workflow that tells batches."""
    from registry.workflows.batch import Batcher

    return Batcher(navigator=navigator(archive))


def finder(archive: Path) -> Finder:
    """The workflow that says when something was trained on."""
    from registry.workflows.seen import Finder

    return Finder(navigator=navigator(archive))


def orderly(archive: Path) -> Orderly:
    """The workflow that tells and proves orders."""
    from registry.adapters.token_streams import TokenStreams
    from registry.workflows.order import Orderly

    return Orderly(navigator=navigator(archive), disk=wiring.disk(archive), streams=TokenStreams(archive))


def annotator(archive: Path) -> Annotator:
    """The workflow that writes incidents down."""
    from registry.workflows.incident import Annotator

    return Annotator(
        records=wiring.record_store(archive),
        tables=wiring.table_store(archive),
        ledger=wiring.ledger(archive),
        host=wiring.host(),
        stages=tuple(wiring.pipeline(archive).stages()),
    )


def cleaner(archive: Path) -> Cleaner:
    """The workflow that plans and carries out a clean-up."""
    from registry.adapters.cache import cache_folder
    from registry.adapters.copies import remote_folder
    from registry.adapters.places import Places
    from registry.core.deletion import Place
    from registry.workflows.gc import Cleaner

    known, doubts = _reachable(archive)
    remote = remote_folder(archive)
    stores = {Place.CACHE: cache_folder(archive), **({} if remote is None else {Place.REMOTE: remote})}
    attempts = wiring.attempts(archive)
    return Cleaner(
        known=known,
        records=wiring.record_store(archive),
        shelves=copies(archive),
        places=Places(archive, {place: folder / "files" / "md5" for place, folder in stores.items()}),
        attempts=attempts,
        host=wiring.host(),
        stages=sorted({*known.declared, *known.ledger.stages(), *attempts.stages()}),
        doubts=doubts,
    )


def keeper(archive: Path) -> Keeper:
    """The workflow that gives artifacts a class."""
    from registry.workflows.keep import Keeper

    return Keeper(records=wiring.record_store(archive), ledger=wiring.ledger(archive), host=wiring.host())


def marks(archive: Path) -> Marks:
    """The classes of artifacts."""
    from registry.core.retention import Marks, Retention

    raw = wiring.raw(wiring.record_store(archive), (Retention.KIND,))
    return Marks.build((digest, data) for _, digest, data in raw)


def _reachable(archive: Path) -> tuple[Known, list[str]]:
    """What reachability is computed from, and reasons to doubt that it is complete."""
    from registry.adapters.tracked import tracked
    from registry.core.lineage import Lineage
    from registry.core.reaching import Known, young_products
    from registry.core.retention import Policy

    ledger, files, pipeline = wiring.ledger(archive), wiring.table_store(archive).get_files, wiring.pipeline(archive)
    mentions, doubts = _mentions(archive)
    classes, policy = marks(archive), Policy.from_settings(pipeline.params())
    told = wiring.incidents(wiring.record_store(archive), ledger)
    doubts += [f"The {one.kind} record {one.name} is damaged." for one in ledger.damages]
    doubts += [f"A record is damaged: {one}" for one in (*told.damages, *classes.damages)]
    if (archive / ".git").exists():
        altered = wiring.repository(archive).altered("manifests")
        doubts += [f"{path} was committed and is missing or altered." for path in altered]
    known = Known(
        ledger=ledger,
        lineage=Lineage(ledger, files),
        files=files,
        happened=wiring.happened(archive, ledger),
        marks=classes,
        policy=policy,
        declared=frozenset(pipeline.stages()),
        tracked=tracked(archive),
        mentions=mentions,
        young=young_products(ledger, wiring.host().now(), policy.superseded_days),
    )
    return known, doubts


def _mentions(archive: Path) -> tuple[list[tuple[str, Digest, Json]], list[str]]:
    """Records that are no part of the lineage, read without knowing their kind; and those that cannot be read."""
    from registry.core import canonical
    from registry.core.reaching import LINEAGE

    store = wiring.record_store(archive)
    found: list[tuple[str, Digest, Json]] = []
    doubts = []
    for kind, digest, data in wiring.raw(store, [kind for kind in store.kinds() if kind not in LINEAGE]):
        try:
            if isinstance(data, ReckonError):
                raise data
            found.append((kind, digest, canonical.decode(data)))
        except ReckonError as error:
            doubts.append(f"The {kind} record {digest} cannot be read: {error.message}")
    return found, doubts


def runs() -> list[str]:
    """Runs and segments on record, for completion."""
    chart = navigator(wiring.root())
    return sorted({*chart.runs(), *chart.ledger.stages()})
