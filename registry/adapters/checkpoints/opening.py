"""Which container lies at a path. Told from what is there, never from a marker of success.

Refuses a path that is not there, a folder without tensors, one with two kinds of containers, and one of many.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from registry.adapters.checkpoints import safetensors
from registry.adapters.checkpoints.layout import METADATA
from registry.adapters.checkpoints.source import Container, DamagedTensors, TensorSource
from registry.errors import ReckonError, Refused

MANIFEST = "manifest.ocdbt"
_SHOWN = 3
_PICKLED = {".bin", ".pt", ".pth", ".ckpt", ".pkl"}
_KNOWN = "Name a safetensors file or a folder of them, a Levanter checkpoint, or a tree of zarr version 3 arrays."


def open_tensors(path: Path) -> TensorSource:
    """Open the container at ``path``. Raises ``Refused`` or ``DamagedTensors`` with what is wrong."""
    if path.is_dir():
        return _folder(path)
    if not path.exists():
        raise Refused(f"{path} does not exist.", remedy=_KNOWN)
    if path.suffix in _PICKLED:
        raise Refused(f"{path} looks like a pickle, which can run code and is never read.", remedy=_KNOWN)
    return safetensors.open_file(path)


def _folder(folder: Path) -> TensorSource:
    odd: list[ReckonError] = []
    files = sorted(_files(folder, odd))
    arrays = sorted(name.rpartition("/")[0] for name in files if name.endswith(f"/{METADATA}"))
    shards = [name for name in files if name.endswith(safetensors.SUFFIX) and "/" not in name]
    kinds = {
        Container.OCDBT: MANIFEST in files,
        Container.SAFETENSORS: bool(shards),
        Container.ZARR3: bool(arrays) or METADATA in files,
    }
    found = [kind for kind, present in kinds.items() if present]
    inner = sorted({name.rpartition("/")[0] for name in files if name.endswith((f"/{MANIFEST}", safetensors.SUFFIX))})
    if len(found) != 1 or (found == [Container.ZARR3] and inner):
        raise _no_container(folder, found, files, inner)
    if odd:
        raise odd[0]
    if found == [Container.SAFETENSORS]:
        return safetensors.open_folder(folder, shards)
    from registry.adapters.checkpoints.arrays import ArraySource

    source = ArraySource(folder, found[0], None if found == [Container.OCDBT] else arrays)
    if not source.specs:
        raise Refused(f"{folder} holds no tensors.", remedy=_KNOWN)
    return source


def _no_container(folder: Path, found: list[Container], files: list[str], inner: list[str]) -> Refused:
    if len(found) > 1:
        return Refused(f"{folder} holds tensors in {' and in '.join(found)}.", remedy="Name one of them.")
    if inner:
        shown = ", ".join(str(folder / name) for name in inner[:_SHOWN])
        more = f" ({len(inner)} in all)" if len(inner) > _SHOWN else ""
        return Refused(f"{folder} holds no tensors itself.", remedy=f"Name a folder in it, such as {shown}{more}.")
    return Refused(f"{folder} is {'no container of tensors' if files else 'empty'}.", remedy=_KNOWN)


def _files(folder: Path, odd: list[ReckonError]) -> Iterator[str]:
    """Relative paths of all files below. No link is entered; what no container may hold joins ``odd``."""
    pending = [""]
    while pending:
        inside = pending.pop()
        with os.scandir(folder / inside) as entries:
            for entry in entries:
                relative = f"{inside}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    pending.append(f"{relative}/")
                elif (found := _oddity(entry)) is not None:
                    odd.append(found)
                else:
                    yield relative


def _oddity(entry: os.DirEntry[str]) -> ReckonError | None:
    """Why a container may not hold an entry that is no folder, or None."""
    try:
        regular = stat.S_ISREG(entry.stat().st_mode)
    except OSError as error:
        return DamagedTensors(f"{entry.path} cannot be looked at: {error.strerror}.")
    if regular:
        return None
    return Refused(f"{entry.path} is neither a file nor a folder.", remedy="Take it away, or name a folder without it.")
