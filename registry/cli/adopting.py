"""Where foreign records meet their adapters. Like ``wiring``, inside functions only, and without a rule."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from registry.cli import wiring
from registry.cli.references import ReferenceType
from registry.cli.render import talk
from registry.core.names import Name
from registry.errors import ReckonError, Refused

if TYPE_CHECKING:
    from registry.core.adopted.record import Adopted
    from registry.core.adopted.shelf import Shelf
    from registry.core.canonical import Json
    from registry.workflows.adopt import Adopter

MLFLOW: Final = "mlflow:"


def shelf(archive: Path) -> Shelf:
    """All foreign records of an archive."""
    from registry.core.adopted.record import Adopted
    from registry.core.adopted.shelf import Shelf

    store = wiring.record_store(archive)
    return Shelf.build((digest, data) for _, digest, data in wiring.raw(store, (Adopted.KIND,)))


def shelf_with(name: str) -> Shelf | None:
    """The foreign records of this archive, if something foreign is told under ``name``; None otherwise.

    Damaged ones are told on stderr, whatever the name is.
    """
    found: Shelf | None = None
    with suppress(ReckonError):
        found = shelf(wiring.root())
    for damage in found.damages if found is not None else ():
        talk(f"A foreign record is damaged: {damage}")
    return found if found is not None and found.holds(name) else None


def refuse_foreign(name: Name) -> None:
    """Raises ``Refused`` for what only others tell of."""
    if shelf_with(name.stage) is not None:
        told = f"{name.stage} is told of by others: none of its bytes are on record here."
        raise Refused(told, remedy=f"See 'reckon audit {name.stage}'.")


def refuse_unknown(*words: str) -> None:
    """Look at words that are names, digests or paths here. Raises ``UnknownName`` and ``Refused`` for bad names."""
    for word in words:
        if word.startswith((".", "/", "~")) or Path(word).exists():
            continue
        named = ReferenceType(wiring.names).convert(word, None, None)
        if isinstance(named, Name):
            refuse_foreign(named)


def adopter(archive: Path) -> Adopter:
    """The workflow that adopts records."""
    from registry.workflows.adopt import Adopter

    own = set(wiring.ledger(archive).stages())
    with suppress(Refused):
        own |= set(wiring.pipeline(archive).stages())
    return Adopter(records=wiring.record_store(archive), stages=frozenset(own))


def read(place: str, name: str | None) -> tuple[Adopted, ...]:
    """The foreign records at ``place``: a file, a folder, or ``mlflow:RUN``. Raises ``Refused`` for what is none."""
    time = wiring.host().now()
    if place.startswith(MLFLOW):
        return (_mlflow(place.removeprefix(MLFLOW), name, time),)
    from registry.adapters.foreign_files import Shape, locate

    shape, file = locate(Path(place))
    if shape is Shape.WANDB:
        return (_wandb(file, name, time),)
    found = _json(file, time)
    if name is not None:
        raise Refused("Only a run of a tracker can be renamed.", remedy="Leave --as out: the file names its things.")
    return found


def refit(archive: Path, target: Path) -> Mapping[str, Json]:
    """Fit the law of the adopted ladder again, in the training side's own process; it writes to ``target``."""
    from registry.adapters.refits import refit as run

    return run(archive / "manifests/adopted", target.resolve(), archive)


def _json(file: Path, time: str) -> tuple[Adopted, ...]:
    from registry.adapters.foreign_files import read_bytes, status_beside
    from registry.adapters.ladder_facts import document, is_collection
    from registry.adapters.marin_files import records
    from registry.core.adopted.document import is_document, records_of
    from registry.core.adopted.foreign import read_json
    from registry.core.digests import sha256

    data = read_bytes(file)
    value = read_json(data, file.name)
    if is_document(value):
        return records_of(value, sha256(data), time)
    if isinstance(value, Mapping) and is_collection(value):
        return records_of(document(value), sha256(data), time)
    return records(data, status_beside(file), time)


def _wandb(file: Path, name: str | None, time: str) -> Adopted:
    from registry.adapters.hashing import hash_file
    from registry.adapters.wandb_files import WandbFiles
    from registry.core.adopted.histories import of_run

    logs = WandbFiles(file.parent)
    copy, facts = logs.read(file.name), logs.facts(file.name)
    run = ("wandb", file.stem.removeprefix("run-"), hash_file(file)[1])
    return of_run(run, copy, facts, name=name, time=time)


def _mlflow(run_id: str, name: str | None, time: str) -> Adopted:
    from registry.adapters.mlflow_store.foreign import read_run
    from registry.core.adopted.histories import of_run

    copy, facts = read_run(wiring.root(), os.environ.get("MLFLOW_TRACKING_URI") or None, run_id)
    return of_run(("mlflow", run_id, copy.history.digest), copy, facts, name=name, time=time)
