"""Where ports meet adapters: the only module that imports ``registry.adapters``, and only inside functions.

One function builds one adapter and returns it as its port, so that a command names what it needs and pays for nothing
else::

    def record_store(root: Path) -> RecordStore:
        from registry.adapters.records import RecordFiles

        return RecordFiles(root / "manifests")

A command calls these functions and hands the results to one workflow. No rule of the archive lives here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from registry.errors import ReckonError, Refused

if TYPE_CHECKING:
    from registry.adapters.pipeline import DvcPipeline
    from registry.core.canonical import Json
    from registry.core.digests import Digest
    from registry.core.happened import Happened
    from registry.core.incidents import Incidents
    from registry.core.ledger import Ledger
    from registry.core.pointers import Pointers
    from registry.observing import Workshop
    from registry.ports import (
        Attempts,
        Bytes,
        Cache,
        Host,
        Observer,
        Openings,
        RecordStore,
        Repository,
        TableStore,
        Tensors,
        Tracker,
    )
    from registry.workflows.curves import CurveChecker
    from registry.workflows.record import Recorder
    from registry.workflows.show import Shower
    from registry.workflows.status import Surveyor
    from registry.workflows.sync import Syncer
    from registry.workflows.tree import Grower
    from registry.workflows.verify import Verifier
    from registry.workflows.verify_records import RecordVerifier


def root() -> Path:
    """The archive's root: this folder or the nearest above with a ``dvc.yaml``. Raises ``Refused`` outside of one."""
    here = Path.cwd()
    found = next((folder for folder in (here, *here.parents) if (folder / "dvc.yaml").is_file()), None)
    if found is None:
        raise Refused(
            "This folder is in no archive: there is no dvc.yaml here or above.", remedy="Go into a clone first."
        )
    return found


def broken_lock(root: Path) -> Path | None:
    """A file of DVC's that keeps it from starting, if there is one."""
    from registry.adapters.cache import broken_lock as found

    return found(root)


def names() -> Iterable[str]:
    """Stages and kept checkpoints for completion: the declared ones and those with a record.

    Records can be looked at although the pipeline cannot be read.
    """
    archive = root()
    with suppress(Refused):
        yield from pipeline(archive).stages()
    for product in ledger(archive).products.values():
        yield from (output.name for output in product.outputs)
    yield from foreign_names(archive)


def foreign_names(archive: Path) -> Iterator[str]:
    """The names that foreign records tell of, and those above them."""
    from registry.core.adopted.record import Adopted
    from registry.core.adopted.shelf import Shelf

    raw_records = raw(record_store(archive), (Adopted.KIND,))
    yield from Shelf.build((digest, data) for _, digest, data in raw_records).names()


def record_store(archive: Path) -> RecordStore:
    """Records under ``manifests/``."""
    from registry.adapters.records import FileRecordStore

    return FileRecordStore(archive / "manifests")


def table_store(archive: Path) -> TableStore:
    """File tables and leaf tables under ``manifests/``."""
    from registry.adapters.tables import TableFolder

    return TableFolder(archive / "manifests")


def pipeline(archive: Path) -> DvcPipeline:
    """The declared stages and DVC's lock."""
    from registry.adapters.pipeline import DvcPipeline

    return DvcPipeline(archive)


def repository(archive: Path) -> Repository:
    """The git repository around the archive."""
    from registry.adapters.git import GitRepository

    return GitRepository(archive)


def attempts(archive: Path) -> Attempts:
    """Run logs of stage processes."""
    from registry.adapters.attempts import RunFolder

    return RunFolder(archive / "artifacts/runs")


def openings(archive: Path) -> Openings:
    """Openings of stages, beside the run logs."""
    from registry.adapters.openings import OpeningFolder

    return OpeningFolder(archive / "artifacts/runs")


def host() -> Host:
    """This machine."""
    from registry.adapters.host import LocalHost

    return LocalHost()


def disk(archive: Path) -> Bytes:
    """Files and folders of the working tree, hashed on all cores."""
    from registry.adapters.hashing import Disk

    return Disk(archive)


def observer(archive: Path) -> Observer:
    """Tensors and contents of artifacts, read back from their bytes."""
    from registry.adapters import checkpoints, observers
    from registry.adapters.observer import LocalObserver

    observe = partial(observers.observe, open_tensors=checkpoints.open_checkpoint)
    return LocalObserver(archive, read_leaves=checkpoints.read_leaves, observe=observe)


def tensors(path: Path) -> Tensors:
    """The tensors at a path: safetensors, OCDBT or zarr."""
    from registry.adapters.checkpoints import open_checkpoint

    return open_checkpoint(path)


def workshop(archive: Path) -> Workshop:
    """The working tree as recipes and products."""
    from registry.observing import Workshop

    return Workshop(
        pipeline=pipeline(archive),
        repository=repository(archive),
        disk=disk(archive),
        observer=observer(archive),
        host=host(),
    )


def recorder(archive: Path) -> Recorder:
    """The workflow that records stages."""
    from registry.workflows.record import Recorder

    return Recorder(
        workshop=workshop(archive),
        records=record_store(archive),
        tables=table_store(archive),
        attempts=attempts(archive),
        openings=openings(archive),
    )


def hypothesis(archive: Path, stage: str) -> Mapping[str, Json] | None:
    """What ``params.yaml`` expects of a stage before it runs, or None."""
    from registry.core.pipeline import decimals

    stated = pipeline(archive).params().get("hypotheses")
    expected = stated.get(stage) if isinstance(stated, dict) else None
    plain = decimals(expected)
    return plain if isinstance(plain, Mapping) else None


def ledger(archive: Path) -> Ledger:
    """All records, read and indexed; damaged ones are listed in it."""
    from registry.core.ledger import KINDS, Ledger

    store = record_store(archive)
    return Ledger.build(raw(store, KINDS))


def raw(store: RecordStore, kinds: Iterable[str]) -> Iterator[tuple[str, Digest, bytes | ReckonError]]:
    for kind in kinds:
        for digest in store.digests(kind):
            try:
                yield kind, digest, store.get(kind, digest)
            except ReckonError as error:
                yield kind, digest, error


def incidents(store: RecordStore, known: Ledger) -> Incidents:
    """All incidents: those that people wrote down, and those that executions of ``known`` tell."""
    from registry.core.incidents import Incident, Incidents

    return Incidents.build(((digest, data) for _, digest, data in raw(store, (Incident.KIND,))), known)


def happened(archive: Path, known: Ledger) -> Happened:
    """What incidents say of every product of ``known``."""
    from registry.core.happened import happened as gather
    from registry.core.lineage import Lineage

    files = table_store(archive).get_files
    return gather(known, Lineage(known, files), files, incidents(record_store(archive), known))


def shower(archive: Path) -> Shower:
    """The workflow that looks up records."""
    from registry.workflows.show import Shower

    known = ledger(archive)
    return Shower(
        records=record_store(archive), tables=table_store(archive), ledger=known, happened=happened(archive, known)
    )


def grower(archive: Path) -> Grower:
    """The workflow that draws lineages."""
    from registry.core.lineage import Lineage
    from registry.workflows.tree import Grower

    known = ledger(archive)
    lineage = Lineage(known, table_store(archive).get_files)
    return Grower(ledger=known, lineage=lineage, happened=happened(archive, known))


def surveyor(archive: Path) -> Surveyor:
    """The workflow that tells the state of all stages."""
    from registry.workflows.status import Surveyor

    return Surveyor(
        workshop=workshop(archive),
        attempts=attempts(archive),
        openings=openings(archive),
        tables=table_store(archive),
        ledger=ledger(archive),
    )


def cache(archive: Path) -> Cache:
    """DVC's cache of this repository, hashed as it is read."""
    from registry.adapters.cache import DvcCache
    from registry.adapters.hashing import hash_file

    return DvcCache(archive, hash_file=hash_file)


def verifier(archive: Path, advance: Callable[[int], None], *, with_cache: bool) -> Verifier:
    """The workflow that verifies artifacts."""
    from registry.workflows.verify import Verifier

    return Verifier(
        disk=disk(archive),
        observer=observer(archive),
        tables=table_store(archive),
        pipeline=pipeline(archive),
        cache=cache(archive) if with_cache else None,
        advance=advance,
    )


def record_verifier(archive: Path) -> RecordVerifier:
    """The workflow that verifies the records themselves."""
    from registry.workflows.verify_records import RecordVerifier

    return RecordVerifier(
        records=record_store(archive),
        tables=table_store(archive),
        repository=repository(archive),
        attempts=attempts(archive),
        ledger=ledger(archive),
    )


def serve_hub(folder: Path, *, at: tuple[str, int], ready: Callable[[str, Path], None]) -> None:
    """Serve the hub in ``folder`` at host and port until a signal comes; ``ready`` gets its address and token file."""
    from registry.adapters.hub_server.serve import serve

    serve(folder, at=at, ready=lambda here: ready(here.endpoint, here.token))


def pointers(archive: Path) -> Pointers:
    """All pointer records; damaged ones are listed in it."""
    from registry.core.pointers import Pointer, Pointers

    return Pointers.build((digest, data) for _, digest, data in raw(record_store(archive), (Pointer.KIND,)))


def tracker(archive: Path) -> Tracker:
    """MLflow: the server or store of MLFLOW_TRACKING_URI, else the repository's own store under ``artifacts/``."""
    from registry.adapters.mlflow_store import MlflowTracker

    return MlflowTracker(archive, os.environ.get("MLFLOW_TRACKING_URI") or None)


def syncer(archive: Path) -> Syncer:
    """The workflow that tells the tracker of executions."""
    from registry.adapters.histories import ParquetHistories
    from registry.workflows.sync import Syncer

    return Syncer(
        tracker=tracker(archive),
        records=record_store(archive),
        tables=table_store(archive),
        histories=ParquetHistories(archive),
        host=host(),
    )


def publish(archive: Path, executions: Iterable[Digest], talk: Callable[[str], None]) -> None:
    """Tell the tracker of executions that were just recorded. A tracker that fails is told by ``talk``, not raised."""
    done = syncer(archive).sync(ledger(archive), pointers(archive), executions)
    for one in done.failed:
        talk(f"{one.stage} is recorded, but the tracker was not told: {one.pointer.reason} Later: reckon sync")


def curve_checker(archive: Path) -> CurveChecker:
    """The workflow that holds the trackers' histories against our own."""
    from registry.adapters.histories import ParquetHistories
    from registry.adapters.wandb_files import WandbFiles
    from registry.workflows.curves import CurveChecker
    from registry.workflows.sync import history_of

    tables, histories = table_store(archive), ParquetHistories(archive)
    return CurveChecker(
        history=lambda product: history_of(product, tables, histories),
        tracker=tracker(archive),
        files=WandbFiles(archive),
    )
