"""The repositories of a hub: bare git folders under ``repositories/``, made and removed in one step each.

A repository appears with its first commit in it, or not at all: it is built aside and renamed into place. Writers of
one repository take turns; the turn is a lock of this process, the only one that may serve the folder.
"""

from __future__ import annotations

import json
import secrets
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pygit2
from pygit2.enums import FileMode, Option

from registry.adapters.hub_server.incoming import Incoming, sync_folder
from registry.adapters.hub_server.naming import Kind, RepositoryName
from registry.adapters.hub_server.problems import Conflict, RepositoryMissing
from registry.adapters.hub_server.tokens import USER

MAIN: Final = "main"
_FACTS: Final = "hub.json"
_LARGE: Final = (
    "7z", "arrow", "bin", "ckpt", "ftz", "gz", "h5", "joblib", "lz4", "mds", "model", "msgpack", "npy", "npz", "onnx",
    "ot", "parquet", "pb", "pickle", "pkl", "pt", "pth", "rar", "safetensors", "tar", "tflite", "tgz", "wasm", "xz",
    "zip", "zst",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the hub knows of a repository beside its git history. ``created`` is in seconds since 1970."""

    private: bool
    created: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """One open repository. ``turn`` is held by whoever moves one of its refs."""

    name: RepositoryName
    facts: Facts
    git: pygit2.Repository
    turn: threading.Lock


class Repositories:
    """All repositories of the hub in ``root``."""

    def __init__(self, root: Path) -> None:
        self._root = root / "repositories"
        self._aside = root / "aside"
        self._turns: dict[RepositoryName, threading.Lock] = {}
        self._guard = threading.Lock()
        pygit2.option(Option.ENABLE_FSYNC_GITDIR, True)
        for folder in (self._root, self._aside):
            folder.mkdir(parents=True, exist_ok=True)

    def path(self, name: RepositoryName) -> Path:
        """Where the repository lies, or would lie."""
        return self._root / name.kind / name.owner / f"{name.name}.git"

    def create(self, name: RepositoryName, *, private: bool) -> None:
        """Make a repository with its first commit. Raises ``Conflict`` when it is there."""
        target = self.path(name)
        building = self._aside / secrets.token_hex(8)
        with self._turn(name):
            if target.exists():
                raise Conflict("You already created this repository")
            try:
                _build(building, Facts(private=private, created=int(time.time())))
                target.parent.mkdir(parents=True, exist_ok=True)
                building.rename(target)
                sync_folder(target.parent)
            finally:
                shutil.rmtree(building, ignore_errors=True)

    def delete(self, name: RepositoryName) -> None:
        """Remove a repository. Its large files stay: another one may have them too."""
        leaving = self._aside / secrets.token_hex(8)
        with self._turn(name):
            self._require(name).rename(leaving)
        shutil.rmtree(leaving, ignore_errors=True)

    def open(self, name: RepositoryName) -> Repository:
        """Raises ``RepositoryMissing``."""
        path = self._require(name)
        facts = Facts(**json.loads((path / _FACTS).read_bytes()))
        return Repository(name=name, facts=facts, git=pygit2.Repository(str(path)), turn=self._turn(name))

    def set_private(self, name: RepositoryName, *, private: bool) -> None:
        """Hide a repository from callers without a token, or show it."""
        with self._turn(name):
            known = self.open(name).facts
            _write_facts(self._require(name), Facts(private=private, created=known.created))

    def names(self, kind: Kind) -> Iterator[RepositoryName]:
        """All repositories of a kind, sorted."""
        for path in sorted((self._root / kind).glob("*/*.git")):
            yield RepositoryName(kind=kind, owner=path.parent.name, name=path.name.removesuffix(".git"))

    def tidy(self) -> None:
        """Remove what a killed server left: half-made repositories, locks of refs, objects without a name."""
        for folder in self._aside.iterdir():
            shutil.rmtree(folder)
        for pattern in ("*/*/*.git/**/*.lock", "*/*/*.git/objects/**/tmp_obj_*"):
            for leftover in list(self._root.glob(pattern)):
                leftover.unlink()

    def _require(self, name: RepositoryName) -> Path:
        path = self.path(name)
        if not path.is_dir():
            raise RepositoryMissing
        return path

    def _turn(self, name: RepositoryName) -> threading.Lock:
        with self._guard:
            return self._turns.setdefault(name, threading.Lock())


def signature() -> pygit2.Signature:
    """The author of a commit that is made now."""
    return pygit2.Signature(USER, f"{USER}@hub.invalid", int(time.time()), 0)


def _build(folder: Path, facts: Facts) -> None:
    git = pygit2.init_repository(str(folder), bare=True, initial_head=MAIN)
    shutil.rmtree(folder / "hooks", ignore_errors=True)
    lines = "".join(f"*.{suffix} filter=lfs diff=lfs merge=lfs -text\n" for suffix in _LARGE)
    index = pygit2.Index()
    index.add(pygit2.IndexEntry(".gitattributes", git.create_blob(lines.encode()), FileMode.BLOB))
    author = signature()
    git.create_commit(f"refs/heads/{MAIN}", author, author, "initial commit", index.write_tree(git), [])
    _write_facts(folder, facts)


def _write_facts(folder: Path, facts: Facts) -> None:
    data = json.dumps({"private": facts.private, "created": facts.created}).encode("ascii")
    with Incoming(folder, len(data)) as arriving:
        arriving.write(data)
        arriving.settle(folder / _FACTS)
