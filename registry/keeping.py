"""Putting bytes into a folder: whole or not at all, whoever else writes and whenever we are killed."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from registry.errors import DoesNotHold, OutsideFailed


def keep_whole(path: Path, data: bytes) -> None:
    """Put ``data`` at ``path``, whole or not at all. The same bytes there already are fine, others are not.

    Raises ``DoesNotHold`` when other bytes stand at ``path`` and ``OutsideFailed`` when the disk refuses or returns
    other bytes.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            _write_and_link(path, data)
        found = path.read_bytes()
    except OSError as error:
        raise OutsideFailed(
            f"{path.name} could not be kept: {error.strerror or error}.",
            remedy="Free some space or make the folder writable, then run the same command again.",
        ) from error
    if found != data:
        raise DoesNotHold(
            f"{path.name} exists with other bytes.",
            remedy=f"Restore it: git checkout -- {path.parent.name}",
        )


def _write_and_link(path: Path, data: bytes) -> None:
    temporary = path.parent / f".{path.name}.{secrets.token_hex(4)}.tmp"
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, path)
        except FileExistsError:
            return  # Another recorder was quicker; the caller compares the bytes.
        _sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
