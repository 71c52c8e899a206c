"""Stage ``corpus``: the pinned wheels, fetched, verified and checked for their licence.

Writes ``artifacts/corpus/<wheel>`` and, last, ``wheels.json`` with the pins. Wheels are kept in ``artifacts/scratch/``
too, verified by hash whenever they are used, so that a forced run needs no network. No wheel is imported or run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from registry.core.canonical import Json
from registry.errors import Refused
from train import paths
from train.data.fetch import copy_verified, fetch
from train.data.wheels import Wheel, open_wheel, verified_bytes
from train.files import fresh_folder, write_json
from train.settings import mappings

TABLE = "wheels.json"


def build(settings: Mapping[str, Json], target: Path, cache: Path) -> tuple[Wheel, ...]:
    """Fill ``target`` with the wheels that ``settings`` pin, by way of ``cache``; returns those fetched.

    Raises ``Refused`` for malformed settings, ``DoesNotHold`` for other bytes, another licence or a malformed wheel,
    and ``OutsideFailed`` when the index cannot be reached.
    """
    wheels = pinned(settings)
    folder = fresh_folder(target)
    fetched = fetch(wheels, cache)
    for wheel in wheels:
        open_wheel(wheel, verified_bytes(wheel, cache / wheel.file)).close()
        copy_verified(wheel, cache, folder)
    write_json(folder / TABLE, {"kind": "wheels", "schema": 1, "wheels": [wheel.to_json() for wheel in wheels]})
    return fetched


def pinned(settings: Mapping[str, Json]) -> Sequence[Wheel]:
    """The pins, sorted by domain and name. Raises ``Refused`` when one is malformed or a project stands twice."""
    wheels = sorted((Wheel.read(item) for item in mappings(settings, "wheels")), key=lambda one: (one.domain, one.name))
    if not wheels or len({wheel.name for wheel in wheels}) != len(wheels):
        raise Refused("The corpus pins no wheel, or one project twice.", remedy="Correct corpus.wheels in params.yaml.")
    return wheels


if __name__ == "__main__":
    from train.stage import run

    run("corpus", lambda settings: build(settings, paths.CORPUS, paths.SCRATCH / "corpus"))
