"""The places that a clean-up may empty: DVC's cache, a remote that is a folder, scratch, and attempts.

Everything here is found by walking folders, never by a name that a record or a setting gives, and no link is followed:
a folder that is a link, or leads out of the archive, is left alone and told. What does not look like an object of DVC
is left alone too. Deleting goes through open folders, so that a link that is put in the way leads nowhere.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Final

from registry.core.deletion import File, Place, Unit
from registry.core.names import checked_path
from registry.errors import OutsideFailed, Refused

SCRATCH: Final = "artifacts/scratch"
RUNS: Final = "artifacts/runs"
LEFTOVERS: Final = "artifacts/.gc"
_ALLOWED: Final = ((".dvc",), ("artifacts",))
_PAIR: Final = re.compile(r"[0-9a-f]{2}")
_REST: Final = re.compile(r"[0-9a-f]{30}(?:\.dir)?")
_ATTEMPT: Final = re.compile(r"[0-9]{8}t[0-9]{6}z-[0-9a-f]{8}")


class Places:
    """The places of the archive at ``root``. ``stores`` are the object folders of cache and remote."""

    def __init__(self, root: Path, stores: dict[Place, Path]) -> None:
        self._given, self._root = Path(os.path.normpath(root)), root.resolve()
        self._stores = stores
        self.notes: list[str] = []

    def units(self, stages: Sequence[str]) -> Iterator[Unit]:
        """Everything that could go. ``stages`` tell where scratch of a stage begins."""
        by_path = {unit.path: unit for place, folder in self._stores.items() for unit in self._objects(place, folder)}
        yield from by_path.values()
        yield from self._attempts()
        yield from self._scratch(stages)
        yield from self._folders(Place.LEFTOVER, LEFTOVERS)

    def remove(self, unit: Unit) -> None:
        """Take a unit away, whole or, if it is interrupted, so that the next clean-up finds the rest.

        Raises ``Refused`` for a path outside of the places and ``OutsideFailed`` when it changed since it was found or
        the disk does not take it away.
        """
        path = PurePosixPath(checked_path(unit.path))
        if unit.place in self._stores:
            self._unlink(path, unit.files[0])
            return
        home = {Place.SCRATCH: SCRATCH, Place.RUNS: RUNS, Place.LEFTOVER: LEFTOVERS}[unit.place]
        if not path.is_relative_to(home) or path == PurePosixPath(home):
            raise Refused(f"{path} is no part of {home}.")
        self._unchanged(unit)
        _removed(self._root, path if unit.place is Place.LEFTOVER else self._aside(path))

    def _objects(self, place: Place, folder: Path) -> Iterator[Unit]:
        """The objects of a store, each a unit of its own."""
        inside = self._inside(folder)
        if inside is None:
            return
        for pair in _entries(folder):
            if pair.is_dir(follow_symlinks=False) and _PAIR.fullmatch(pair.name):
                for entry in _entries(Path(pair.path)):
                    if _REST.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                        path = f"{inside}/{pair.name}/{entry.name}"
                        file = _file(path, entry.stat(follow_symlinks=False))
                        name, when = pair.name + entry.name, file.modified_ns
                        yield Unit(place=place, name=name, path=path, files=(file,), modified_ns=when)

    def _inside(self, folder: Path) -> str | None:
        """A folder's path in the archive; None, and a note, for one that is a link or lies elsewhere."""
        if not folder.is_dir():
            return None
        named = Path(os.path.normpath(folder))
        inside = named.is_relative_to(self._given) and named.relative_to(self._given).parts[:1] in _ALLOWED
        if not inside or folder.resolve() != self._root / named.relative_to(self._given):
            self.notes.append("A store of DVC lies outside of the archive, behind a link, or among code: left alone.")
            return None
        return named.relative_to(self._given).as_posix()

    def _attempts(self) -> Iterator[Unit]:
        for path in self._walk(RUNS):
            if _ATTEMPT.fullmatch(path.name):
                yield self._unit(Place.RUNS, path)

    def _scratch(self, stages: Sequence[str]) -> Iterator[Unit]:
        """One unit for each thing in a stage's scratch; what belongs to no stage is one by its first folder."""
        homes = {PurePosixPath(SCRATCH) / stage for stage in stages}
        inner = {parent for home in homes for parent in (home, *home.parents)}
        for path in self._walk(SCRATCH, inner):
            yield self._unit(Place.SCRATCH, path)

    def _folders(self, place: Place, home: str) -> Iterator[Unit]:
        for path in self._walk(home, {PurePosixPath(home)}):
            yield self._unit(place, path)

    def _walk(self, home: str, inner: set[PurePosixPath] | None = None) -> Iterator[PurePosixPath]:
        """Folders and files below ``home``: those not in ``inner`` themselves, of those in it what they hold.

        Without ``inner`` every folder down to an attempt is entered.
        """
        if self._inside(self._root / home) is None:
            return
        pending = [PurePosixPath(home)]
        while pending:
            folder = pending.pop()
            for entry in _entries(self._root / folder):
                path = folder / entry.name
                into = path in inner if inner is not None else not _ATTEMPT.fullmatch(entry.name)
                if entry.is_dir(follow_symlinks=False) and into:
                    pending.append(path)
                elif entry.is_dir(follow_symlinks=False) or inner is not None:
                    yield path

    def _unit(self, place: Place, path: PurePosixPath) -> Unit:
        home = {Place.SCRATCH: SCRATCH, Place.RUNS: RUNS}.get(place, LEFTOVERS)
        files = tuple(sorted(_files(self._root, path), key=lambda file: file.path))
        newest = max((file.modified_ns for file in files), default=(self._root / path).lstat().st_mtime_ns)
        name = path.relative_to(home).as_posix()
        return Unit(place=place, name=name, path=path.as_posix(), files=files, modified_ns=newest)

    def _unchanged(self, unit: Unit) -> None:
        found = tuple(sorted(_files(self._root, PurePosixPath(unit.path)), key=lambda file: file.path))
        if found != unit.files:
            raise OutsideFailed(
                f"{unit.path} changed since it was looked at; it was left alone.", remedy="Run the clean-up again."
            )

    def _unlink(self, path: PurePosixPath, file: File) -> None:
        folder = _opened(self._root, path.parent)
        try:
            if _file(path.as_posix(), os.stat(path.name, dir_fd=folder, follow_symlinks=False)) != file:
                raise OutsideFailed(f"{path} changed since it was looked at; it was left alone.")
            os.unlink(path.name, dir_fd=folder)
        finally:
            os.close(folder)
        with suppress(OSError):
            (self._root / path.parent).rmdir()

    def _aside(self, path: PurePosixPath) -> PurePosixPath:
        """Move a folder or file away under another name, so that nobody resumes from half of it."""
        (self._root / LEFTOVERS).mkdir(exist_ok=True)
        aside = PurePosixPath(LEFTOVERS) / secrets.token_hex(8)
        source, target = _opened(self._root, path.parent), _opened(self._root, aside.parent)
        try:
            os.rename(path.name, aside.name, src_dir_fd=source, dst_dir_fd=target)
        finally:
            os.close(source)
            os.close(target)
        return aside


def _opened(root: Path, folder: PurePosixPath) -> int:
    """A folder of the archive, opened part by part; a link on the way is an error. The caller closes it."""
    handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    for part in folder.parts:
        try:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=handle)
        finally:
            os.close(handle)
        handle = inner
    return handle


def _removed(root: Path, path: PurePosixPath) -> None:
    """Remove a file, a link, or a folder with all in it, through open folders."""
    parent = _opened(root, path.parent)
    try:
        if stat.S_ISDIR(os.stat(path.name, dir_fd=parent, follow_symlinks=False).st_mode):
            shutil.rmtree(path.name, dir_fd=parent)
        else:
            os.unlink(path.name, dir_fd=parent)
    finally:
        os.close(parent)


def _files(root: Path, path: PurePosixPath) -> Iterator[File]:
    """The regular files at or below a path. Links are nothing that holds bytes."""
    pending = [path]
    while pending:
        one = pending.pop()
        facts = (root / one).lstat()
        if stat.S_ISREG(facts.st_mode):
            yield _file(one.as_posix(), facts)
        elif stat.S_ISDIR(facts.st_mode):
            pending.extend(one / entry.name for entry in _entries(root / one))


def _file(path: str, facts: os.stat_result) -> File:
    if not stat.S_ISREG(facts.st_mode):
        raise OutsideFailed(f"{path} is no longer a file; it was left alone.")
    return File(
        path=path,
        size_bytes=facts.st_size,
        inode=(facts.st_dev, facts.st_ino),
        names=facts.st_nlink,
        modified_ns=facts.st_mtime_ns,
    )


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        return sorted(entries, key=lambda entry: entry.name)
    return []
