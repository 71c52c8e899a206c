"""Finding the files of a tree, with what the file system says of each.

Refuses special files, links that leave the tree or are broken, links to folders, and names that are not UTF-8.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from registry.errors import Refused

LARGEST_READ = 256 * 2**20
_INODE_BITS = 2**63 - 1
Facts: TypeAlias = tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A regular file: its path in the tree, where it is, and ``facts_of`` it when it was found."""

    path: str
    location: str
    facts: Facts

    @property
    def size_bytes(self) -> int:
        """Its size when it was found."""
        return self.facts[2]

    def read(self) -> bytes:
        """All bytes of a small file. Raises ``Refused`` for a large one."""
        if self.size_bytes > LARGEST_READ:
            raise Refused(f"{self.location} has {self.size_bytes} bytes, too many to be read at once.")
        return Path(self.location).read_bytes()


def facts_of(status: os.stat_result) -> Facts:
    """Device, inode (63 bits), size, times of change of bytes and inode (ns). If none differs, a file is unchanged."""
    return status.st_dev, status.st_ino & _INODE_BITS, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def found_file(path: Path, *, within: Path | None = None) -> Found:
    """One file under its own name. With ``within``, a link may not lead out of that folder."""
    location = os.fspath(path)
    if within is not None and path.is_symlink():
        _check_link(location, os.path.realpath(within))
    return Found(path=path.name, location=location, facts=_regular(location, path.stat()))


def found_tree(root: Path, *, within: Path | None = None, leave_out: Collection[str] = ()) -> list[Found]:
    """All files below ``root``, sorted by path. Empty folders leave no trace.

    Links may lead to where ``within`` is, else below ``root``. Names in ``leave_out`` at the top are passed by.
    """
    return sorted(_walk(os.fspath(root), os.path.realpath(within or root), leave_out), key=lambda found: found.path)


def _walk(root: str, allowed: str, leave_out: Collection[str]) -> Iterator[Found]:
    pending = [""]
    while pending:
        inside = pending.pop()
        with os.scandir(os.path.join(root, inside)) as entries:  # noqa: PTH118  # a Path a file costs too much here
            for entry in entries:
                path = inside + entry.name
                _check_name(path)
                if path in leave_out:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    pending.append(f"{path}/")
                    continue
                if entry.is_symlink():
                    _check_link(entry.path, allowed)
                yield Found(path=path, location=entry.path, facts=_regular(entry.path, entry.stat()))


def _check_name(path: str) -> None:
    try:
        path.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Refused(f"The file name {path!a} is not UTF-8.", remedy="Rename it.") from error


def _check_link(location: str, real_root: str) -> None:
    target = os.path.realpath(location)
    if not target.startswith(os.path.join(real_root, "")):  # noqa: PTH118  # adds the separator
        raise Refused(
            f"The link {location} leaves its tree.",
            remedy="Put the file itself there. If DVC made the link, run 'dvc config cache.type reflink,copy' first.",
        )
    if not os.path.exists(target):  # noqa: PTH110
        raise Refused(f"The link {location} is broken.", remedy="Remove it, or put the file itself there.")


def _regular(location: str, status: os.stat_result) -> Facts:
    if not stat.S_ISREG(status.st_mode):
        raise Refused(f"{location} is not a regular file.", remedy="Take it away, or name a tree without it.")
    return facts_of(status)
