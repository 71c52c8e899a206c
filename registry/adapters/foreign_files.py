"""Foreign files on this disk: the bytes of one, bounded, and what kind of record lies at a place.

Refuses links, devices, folders that hold nothing known, and files over a limit.
"""

from __future__ import annotations

import os
import stat
from enum import StrEnum
from pathlib import Path

from registry.core.adopted.foreign import LARGEST_BYTES
from registry.errors import OutsideFailed, Refused


class Shape(StrEnum):
    """What kind of foreign record it is."""

    JSON = "json"
    WANDB = "wandb"


SIDECARS = (".artifact.json", ".executor_info")
STATUS = ".executor_status"


def locate(place: Path) -> tuple[Shape, Path]:
    """The kind of record at a file or folder, and the file to read. Raises ``Refused`` when it is none."""
    if place.is_dir():
        logs = sorted(place.glob("run-*.wandb"))
        named = [place / name for name in SIDECARS if (place / name).exists()]
        if len(logs) == 1:
            return Shape.WANDB, logs[0]
        if named:
            return Shape.JSON, named[0]
        raise Refused(
            f"The folder {place.name} holds no foreign record that is known here.",
            remedy="Name a document of facts, a W&B run folder, or a folder with .artifact.json or .executor_info.",
        )
    return (Shape.WANDB if place.suffix == ".wandb" else Shape.JSON), place


def read_bytes(path: Path) -> bytes:
    """The bytes of a regular file of at most ``LARGEST_BYTES``. Raises ``Refused`` for anything else."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError as error:
        raise Refused(f"{path.name} cannot be read: {error.strerror}.", remedy="Name a file that is there.") from error
    with os.fdopen(descriptor, "rb") as opened:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > LARGEST_BYTES:
            raise Refused(f"{path.name} is no regular file of at most {LARGEST_BYTES} bytes.")
        try:
            return opened.read(LARGEST_BYTES + 1)[: LARGEST_BYTES + 1]
        except OSError as error:
            raise OutsideFailed(f"{path.name} cannot be read: {error.strerror}.") from error


def status_beside(path: Path) -> bytes | None:
    """The status file beside a sidecar, if there is one."""
    beside = path.parent / STATUS
    return read_bytes(beside) if beside.is_file() and not beside.is_symlink() else None
