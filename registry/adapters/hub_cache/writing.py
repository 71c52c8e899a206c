"""A mirror of a repository, in the layout of the client's cache, with the list of every commit beside.

Blobs come first, then the links and the list of a commit, then branches and tags: a new name never stands before what
it names. Lists and names are replaced whole. The links of a commit that is there already are made anew in place, so
whoever reads a mirror through its links while it is refreshed may find some missing; 'reckon pull' reads the list
instead. Refuses folders that are links. What goes in was proven, and its names checked, by whoever brought it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from registry.adapters.hub_cache.reading import LISTS, TAGS, folder_name
from registry.core.pulling import Listing, Reference
from registry.errors import Refused


class MirrorFolder:
    """The repository of ``reference`` below ``root``."""

    def __init__(self, root: Path, reference: Reference) -> None:
        self._folder = root / folder_name(reference)
        for place in (self._folder, *(self._folder / name for name in (LISTS, TAGS, "refs", "snapshots"))):
            if place.is_symlink():
                raise Refused(f"{place} is no plain folder.", remedy="Take it away, or mirror into another folder.")
        self._folder.mkdir(parents=True, exist_ok=True)

    @property
    def folder(self) -> Path:
        """Where blobs land: ``blobs/<digest>`` below it."""
        return self._folder

    def publish(self, listing: Listing) -> None:
        """Make a commit whose blobs are all here visible."""
        rows = [[file.path, file.size_bytes, str(file.claimed)] for file in listing.files]
        snapshot = self._folder / "snapshots" / listing.commit
        if snapshot.exists():
            shutil.rmtree(snapshot)
        for file in listing.files:
            link = snapshot / file.path
            link.parent.mkdir(parents=True, exist_ok=True)
            up = "../" * (file.path.count("/") + 2)
            link.symlink_to(f"{up}blobs/{file.claimed.hex}")
        snapshot.mkdir(parents=True, exist_ok=True)
        text = json.dumps(rows, ensure_ascii=False, separators=(",", ":"))
        _write(self._folder / LISTS / f"{listing.commit}.json", text)

    def point(self, branches: Mapping[str, str], tags: Mapping[str, str]) -> None:
        """Give commits their names, and forget names that are no more."""
        every = (*(self._folder / "refs").rglob("*"), *(self._folder / TAGS).rglob("*"))
        for old in sorted(every, reverse=True):  # what lies in a folder comes before it
            name = old.relative_to(self._folder).as_posix().partition("/")[2]
            gone = name not in tags if old.is_relative_to(self._folder / TAGS) else name not in {**branches, **tags}
            if old.is_symlink() or (old.is_file() and gone):
                old.unlink()
            elif old.is_dir() and not any(old.iterdir()):
                old.rmdir()
        for name, commit in {**branches, **tags}.items():
            _write(self._folder / "refs" / name, commit)
        for name in tags:
            _write(self._folder / TAGS / name, "")


def _write(path: Path, text: str) -> None:
    """Put a small file in place, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    with fresh.open("x", encoding="utf-8") as file:  # never through a link
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
