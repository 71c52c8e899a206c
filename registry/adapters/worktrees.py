"""A recorded commit in a git worktree of its own, under a temporary folder outside of the checkout.

The user's checkout and index are never touched: git only notes in ``.git/worktrees`` that the worktree is there, and
forgets it with the folder. A folder whose process died is known by its lock, which nobody holds any more; it is removed
when the next one is opened. No hook and no line-ending conversion runs. Bytes laid into a worktree are copies (shared
blocks where the file system can), hashed after they were copied. Refuses a commit that is not here, a temporary folder
inside the checkout, bytes that are not the recorded ones, and to lay or remove anything through a link of the commit.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import yaml

from registry.core.canonical import Json
from registry.core.digests import Digest, FileEntry
from registry.core.names import checked_path
from registry.errors import DoesNotHold, OutsideFailed, Refused, UnknownName

PREFIX: Final = "reckon-rederive-"
_LOCK: Final = "lock"
_TREE: Final = "tree"
_CLONE: Final = 0x40049409  # FICLONE: share the blocks of another file
_TRUST: Final = "reckon.trust"
_PLAIN: Final = ("-c", "core.hooksPath=/dev/null", "-c", "core.autocrlf=false", "-c", "core.fsmonitor=false")
_OF_A_HOOK: Final = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_PREFIX",
    "GIT_OBJECT_DIRECTORY",
    "GIT_COMMON_DIR",
)

HashFile = Callable[[Path], tuple[int, Digest]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Worktree:
    """An open worktree at ``root``; ``folder`` holds it and whatever else is to vanish with it."""

    folder: Path
    root: Path
    hash_file: HashFile

    def lay(self, path: str, entry: FileEntry, candidates: Iterable[Path]) -> None:
        """Put a recorded file at ``path``, from the first candidate whose copy has the recorded bytes.

        Raises ``UnknownName`` when there is no candidate, ``DoesNotHold`` when all have other bytes.
        """
        self.put(self.root / checked_path(path), entry, candidates)

    def put(self, target: Path, entry: FileEntry, candidates: Iterable[Path]) -> None:
        """As :meth:`lay`, at any place in the folder."""
        self._unlinked(target, itself=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        seen = False
        for place in candidates:
            if place.is_file() and place.stat().st_size == entry.size_bytes:
                seen = True
                _copy(place, target)
                if self.hash_file(target) == (entry.size_bytes, entry.digest):
                    return
                target.unlink()
        if seen:
            raise DoesNotHold(
                f"No copy of {entry.path} here has the recorded bytes.", remedy="Bring it back with 'dvc pull'."
            )
        raise UnknownName(
            f"{entry.path} ({entry.digest.short}) lies neither in artifacts/, nor in DVC's cache, nor in its remote.",
            remedy="Run 'dvc pull', or 'dvc fetch', then try again.",
        )

    def write(self, path: str, data: bytes) -> None:
        """Put bytes into a file of the worktree."""
        target = self.root / checked_path(path)
        self._unlinked(target, itself=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)

    def clear(self, path: str) -> None:
        """Remove a file or folder of the worktree, so that nothing stands where something is to be made."""
        target = self.root / checked_path(path)
        self._unlinked(target, itself=False)
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)

    def change(self, changes: Mapping[str, str]) -> Mapping[str, Json]:
        """Give settings of ``params.yaml`` another value, of the type that they have; returns ``[before, after]``.

        Raises ``Refused`` for a key that is not there and a value of another type.
        """
        path = self.root / "params.yaml"
        self._unlinked(path, itself=True)
        params = yaml.safe_load(path.read_bytes())
        done: dict[str, Json] = {}
        for key, text in changes.items():
            *parents, last = key.split(".")
            section = params
            for name in parents:
                section = section.get(name) if isinstance(section, dict) else None
            if not isinstance(section, dict) or last not in section:
                raise Refused(f"There is no setting {key!r} at that commit.", remedy="Write it like determinism.nproc.")
            before = section[last]
            section[last] = _typed(key, before, text)
            done[key] = [str(before), str(section[last])]
        path.write_text(json.dumps(params, indent=1), encoding="utf-8")
        return done

    def patch(self, file: Path) -> None:
        """Apply the changes that a dirty execution ran with. Raises ``Refused`` when they do not apply."""
        done = _git(self.root, "apply", "--whitespace=nowarn", str(file.resolve()), check=False)
        if done.returncode:
            raise Refused(f"The patch does not apply to the commit: {done.stderr.decode(errors='replace')[:300]}")

    def borrowed(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Outputs that are no files of their own: links, or files that also lie somewhere else."""
        found = []
        for path in paths:
            target = self.root / checked_path(path)
            above = [one for one in target.parents if one.is_relative_to(self.root)][:-1]
            files = [*above, target, *target.rglob("*")] if target.is_dir() else [*above, target]
            for file in files:
                facts = file.lstat() if file.exists() or file.is_symlink() else None
                if facts is not None and (file.is_symlink() or (file.is_file() and facts.st_nlink > 1)):
                    found.append(file.relative_to(self.root).as_posix())
        return tuple(found)

    def keep(self, source: Path, target: Path) -> None:
        """Copy a result out of the folder before it vanishes. Raises ``Refused`` when ``target`` exists."""
        if target.exists():
            raise Refused(f"{target} exists already.", remedy="Name a folder that does not.")
        shutil.copytree(source, target, symlinks=True) if source.is_dir() else shutil.copy2(source, target)

    def _unlinked(self, target: Path, *, itself: bool) -> None:
        """Raise ``Refused`` where a folder above ``target``, or ``target`` itself, is a link, or it lies elsewhere."""
        if not target.is_relative_to(self.folder) or ".." in target.parts:
            raise Refused(f"{target.name} does not lie in the worktree.")
        inside = [one for one in target.parents if one != self.folder and one.is_relative_to(self.folder)]
        for place in (*reversed(inside), *([target] if itself else [])):
            if place.is_symlink():
                name = place.relative_to(self.folder).as_posix().removeprefix(f"{_TREE}/")
                raise Refused(f"{name} is a link at that commit.", remedy="Nothing is laid through links.")


class Worktrees:
    """Opens worktrees of the repository at ``root``. ``hash_file`` gives size and SHA-256 of one file."""

    def __init__(self, root: Path, hash_file: HashFile) -> None:
        self._root = root
        self._hash_file = hash_file

    @contextmanager
    def open(self, commit: str) -> Iterator[Worktree]:
        """A worktree of ``commit``, gone afterwards whatever happens."""
        self.sweep()
        parent = Path(tempfile.gettempdir()).resolve()
        if parent.is_relative_to(self._root.resolve()):
            raise Refused("The temporary folder lies inside the checkout.", remedy="Set TMPDIR to another place.")
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        with (folder / _LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                _git(self._root, "worktree", "add", "--quiet", "--detach", str(folder / _TREE), commit)
                yield Worktree(folder=folder, root=folder / _TREE, hash_file=self._hash_file)
            finally:
                self._remove(folder)

    def sweep(self) -> tuple[Path, ...]:
        """Remove the worktrees of processes that died. Returns their folders."""
        gone = []
        for folder in self._folders():
            with suppress(OSError), _unheld(folder):
                self._remove(folder)
                gone.append(folder)
        if gone:
            _git(self._root, "worktree", "prune", check=False)
        return tuple(gone)

    def subject(self, commit: str) -> str:
        """The first line of a commit's message with its author and time. Raises ``Refused`` when it is not here."""
        told = _git(self._root, "log", "-1", "--no-show-signature", "--format=%s (%an, %cI)", commit, "--", check=False)
        if told.returncode:
            raise Refused(
                f"The commit {commit[:12]} is not in this clone.",
                remedy="Fetch it, for instance: git fetch --unshallow",
            )
        return told.stdout.decode(errors="replace").strip()

    def trusted(self, commit: str) -> str | None:
        """The entry of the user's own ``git config reckon.trust`` that allows a commit: itself, or a descendant.

        A clone cannot bring that setting along: git never copies configuration.
        """
        listed = _git(self._root, "config", "--get-all", _TRUST, check=False).stdout.decode(errors="replace").split()
        for entry in listed:
            if entry.startswith("-"):
                continue
            if not _git(self._root, "merge-base", "--is-ancestor", commit, entry, check=False).returncode:
                return entry
        return None

    def _folders(self) -> Iterator[Path]:
        """Folders of ours that git knows worktrees in, and those beside them that it never came to know."""
        listed = _git(self._root, "worktree", "list", "--porcelain", "-z").stdout.decode(errors="surrogateescape")
        places = (line.removeprefix("worktree ") for line in listed.split("\0") if line.startswith("worktree "))
        for place in map(Path, places):
            if place.name == _TREE and place.parent.name.startswith(PREFIX):
                yield place.parent

    def _remove(self, folder: Path) -> None:
        _git(self._root, "worktree", "remove", "--force", "--force", str(folder / _TREE), check=False)
        shutil.rmtree(folder, ignore_errors=True)
        _git(self._root, "worktree", "prune", check=False)


@contextmanager
def _unheld(folder: Path) -> Iterator[IO[str]]:
    """The lock of a folder that no process holds. Raises ``OSError`` when one does. A lock that is gone is unheld."""
    if not (folder / _LOCK).exists():
        folder.mkdir(parents=True, exist_ok=True)
    with (folder / _LOCK).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield lock


def _copy(source: Path, target: Path) -> None:
    """Copy a file's bytes, sharing blocks where the file system can. Never a link: what runs could write through it."""
    with source.open("rb") as reading, target.open("wb") as writing:
        try:
            fcntl.ioctl(writing.fileno(), _CLONE, reading.fileno())
        except OSError:
            shutil.copyfileobj(reading, writing, 2**20)


def _typed(key: str, before: object, text: str) -> object:
    """``text`` as a value of the type of ``before``."""
    if isinstance(before, bool):
        if text not in ("true", "false"):
            raise Refused(f"{key} is true or false, not {text!r}.")
        return text == "true"
    if isinstance(before, int | float):
        try:
            return type(before)(text)
        except ValueError as error:
            raise Refused(f"{key} is a {type(before).__name__}, not {text!r}.") from error
    if isinstance(before, str):
        return text
    raise Refused(f"{key} is no single value, so it cannot be changed here.")


def _git(where: Path, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[bytes]:
    environment = {key: value for key, value in os.environ.items() if key not in _OF_A_HOOK}
    try:
        done = subprocess.run(
            ["git", *_PLAIN, *arguments],
            cwd=where,
            env={**environment, "LC_ALL": "C"},
            capture_output=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise OutsideFailed("The program git was not found.", remedy="Install git.") from error
    if check and done.returncode:
        raise OutsideFailed(f"git {arguments[0]} failed: {done.stderr.decode(errors='replace').strip()[:500]}")
    return done
