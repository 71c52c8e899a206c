"""Where ports meet adapters for the data order, incidents and clean-up. Like ``wiring``, inside functions only.

No rule of the archive lives here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.cli import wiring

if TYPE_CHECKING:
    from registry.adapters.copies import Copies
    from registry.core.course import Navigator
    from registry.core.digests import FileEntry
    from registry.core.records import Output
    from registry.workflows.batch import Batcher
    from registry.workflows.incident import Annotator
    from registry.workflows.order import Orderly
    from registry.workflows.seen import Finder


def copies(archive: Path) -> Copies:
    """Copies of recorded files: in the working tree, DVC's cache, and a remote that is a folder."""
    from registry.adapters.cache import cache_folder
    from registry.adapters.copies import Copies, ObjectStore, remote_folder

    remote = remote_folder(archive)
    folders = {"cache": cache_folder(archive), **({} if remote is None else {"remote": remote})}
    return Copies(archive, [ObjectStore(name, folder / "files" / "md5") for name, folder in folders.items()])


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


def runs() -> list[str]:
    """Runs and segments on record, for completion."""
    chart = navigator(wiring.root())
    return sorted({*chart.runs(), *chart.ledger.stages()})
