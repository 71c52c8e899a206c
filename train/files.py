"""Writing of outputs: a clean folder, whole files or none.

Whatever stood in an output folder is removed first, as DVC does, so that a stage run by hand leaves what DVC would.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from registry.core import canonical
from registry.core.canonical import Json


def fresh_folder(folder: Path) -> Path:
    """Make ``folder`` anew, empty, and return it."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    return folder


def write_whole(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path`` so that the name never holds a part of it: written aside, synced, renamed."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            partial.unlink()


def write_json(path: Path, value: Json) -> None:
    """Write the canonical JSON of ``value``, with a final newline."""
    write_whole(path, canonical.encode(value) + b"\n")
