"""Openings of stages as files beside the run logs: ``<root>/<stage>/opening-<time>.json``."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from pathlib import Path

from registry.core import canonical
from registry.core.codec import record_bytes
from registry.core.openings import Opening
from registry.errors import MalformedRecord, OutsideFailed


class OpeningFolder:
    """Openings by stage under the folder of attempts."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def add(self, opening: Opening) -> None:
        """Keep an opening. Raises ``OutsideFailed`` when the disk refuses."""
        folder = self._root / opening.stage
        name = f"opening-{re.sub('[^0-9]', '', opening.time)}.json"
        temporary = folder / f".{name}.{secrets.token_hex(4)}.tmp"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(record_bytes(opening))
            temporary.replace(folder / name)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise OutsideFailed(
                f"The opening of {opening.stage} could not be written: {error.strerror or error}.",
                remedy="Free some space or make artifacts/ writable, then run the stage again.",
            ) from error

    def of_stage(self, stage: str) -> Sequence[Opening]:
        """All openings of a stage, oldest first. Raises ``MalformedRecord`` naming the one that cannot be read."""
        found = sorted((self._root / stage).glob("opening-*.json"))
        return tuple(sorted((_read(path, stage) for path in found), key=lambda opening: opening.time))


def _read(path: Path, stage: str) -> Opening:
    try:
        if path.stat().st_size > canonical.MAXIMUM_BYTES:
            raise MalformedRecord("it is over the size limit.")
        opening = Opening.from_json(canonical.decode(path.read_bytes()))
        if opening.stage != stage:
            raise MalformedRecord(f"it is one of {opening.stage}.")
    except MalformedRecord as error:
        raise MalformedRecord(
            f"The file {path.name} of {stage} is not an opening of it: {error.message}",
            remedy="Move it out of artifacts/runs/ and keep it as evidence.",
        ) from error
    return opening
