"""A tree while a commit changes it: folders that nobody touches stay as they are in git.

Git's own index is not used: with a file and a folder of one name in it, it writes a tree that lacks one of them and
says nothing. Here that is refused.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

import pygit2
from pygit2.enums import FileMode

from registry.adapters.hub_server.problems import Conflict, EntryMissing

_Item: TypeAlias = "tuple[pygit2.Oid, int] | Draft"


class What(StrEnum):
    """What a name in a folder is."""

    FILE = "file"
    FOLDER = "folder"


class Draft:
    """One folder in change. Folders in it are read when something below them changes."""

    def __init__(self, git: pygit2.Repository, tree: pygit2.Tree | None = None) -> None:
        self.items: dict[str, _Item] = {str(item.name): (item.id, item.filemode) for item in tree or ()}
        self._git = git

    def put(self, path: str, blob: pygit2.Oid) -> None:
        """Place a file. Raises ``Conflict`` where a folder is, or below a file."""
        here, name = self._at(path)
        if here.what(name) is What.FOLDER:
            raise Conflict(f"{path}: a file and a folder cannot have one name.")
        here.items[name] = (blob, FileMode.BLOB)

    def remove(self, path: str, what: What) -> None:
        """Remove a file, or a folder with all that is in it. Raises ``EntryMissing`` when there is none of its kind."""
        missing = EntryMissing(f"A {what} with this name doesn't exist: {path}")
        try:
            here, name = self._at(path)
        except Conflict as error:
            raise missing from error
        if here.what(name) is not what:
            raise missing
        del here.items[name]

    def write(self) -> pygit2.Oid | None:
        """Put the tree into git and return its id; None when no file is left in it."""
        builder = self._git.TreeBuilder()
        for name, item in self.items.items():
            oid, mode = (item.write(), FileMode.TREE) if isinstance(item, Draft) else item
            if oid is not None:
                builder.insert(name, oid, mode)
        return builder.write() if len(builder) else None

    def what(self, name: str) -> What | None:
        """What stands under a name here; a folder without files is nothing."""
        item = self.items.get(name)
        if isinstance(item, Draft):
            return What.FOLDER if any(item.what(one) for one in item.items) else None
        if item is None:
            return None
        return What.FOLDER if item[1] == FileMode.TREE else What.FILE

    def enter(self, name: str) -> Draft | None:
        """The folder of a name, begun when nothing stands there; None when that is a file."""
        item = self.items.get(name)
        if isinstance(item, Draft):
            return item
        if self.what(name) is What.FILE:
            return None
        tree = self._git[item[0]] if item else None
        begun = Draft(self._git, tree if isinstance(tree, pygit2.Tree) else None)
        self.items[name] = begun
        return begun

    def _at(self, path: str) -> tuple[Draft, str]:
        """The folder of a path and the last part of it. Raises ``Conflict`` below a file."""
        *folders, name = path.split("/")
        here = self
        for folder in folders:
            inner = here.enter(folder)
            if inner is None:
                raise Conflict(f"{path}: a file and a folder cannot have one name.")
            here = inner
        return here, name
