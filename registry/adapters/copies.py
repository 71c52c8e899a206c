"""The copies of a recorded file on this disk: in the working tree, in DVC's cache, and in a remote that is a folder.

DVC names an object by its md5 and does not look at its bytes again. Here a copy counts only when its bytes have the
recorded SHA-256. Lists of folders are hostile like any other byte: they must hash to their own name. Refuses locators
that are not md5, and hands out no bytes but the recorded ones.
"""

from __future__ import annotations

import configparser
import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

from registry.core.digests import Digest, FileEntry, sha256
from registry.core.names import checked_path
from registry.core.records import Output
from registry.errors import DoesNotHold, Refused, UnknownName

LARGEST_READ = 4 * 2**30
LARGEST_LIST = 512 * 2**20
_LOCATOR = re.compile(r"(?:md5:)?([0-9a-f]{32}(?:\.dir)?)")
_MD5 = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class ObjectStore:
    """Objects by md5 in a folder: ``<folder>/<two digits>/<the rest>``."""

    name: str
    folder: Path
    _lists: dict[str, Mapping[str, str] | None] = field(default_factory=dict, repr=False, compare=False)

    def path(self, md5: str) -> Path:
        """Where an object lies, if it does; of a folder's list with ``.dir``."""
        return self.folder / md5[:2] / md5[2:]

    def listing(self, locator: str) -> Mapping[str, str] | None:
        """Relative path → md5 of the files behind a folder's locator. None when its list is missing or damaged."""
        if locator not in self._lists:
            self._lists[locator] = _listing(self.path(locator), locator)
        return self._lists[locator]


class Copies:
    """Looks for copies of recorded files below ``root`` and in ``stores``. ``hash_file`` gives size and SHA-256."""

    def __init__(
        self, root: Path, stores: Sequence[ObjectStore], hash_file: Callable[[Path], tuple[int, Digest]]
    ) -> None:
        self._root = root
        self._stores = tuple(stores)
        self._hash_file = hash_file

    def read(self, output: Output, entry: FileEntry) -> bytes:
        """The bytes of a recorded file, from the first copy that has them.

        Raises ``UnknownName`` when there is no copy, ``DoesNotHold`` when all of them have other bytes.
        """
        if entry.size_bytes > LARGEST_READ:
            raise Refused(f"{entry.path} of {output.name} has {entry.size_bytes} bytes, too many to be read at once.")
        seen = False
        for _, path in self.places(output, entry):
            if path.is_file():
                seen = True
                data = path.read_bytes() if path.stat().st_size == entry.size_bytes else b""
                if len(data) == entry.size_bytes and sha256(data) == entry.digest:
                    return data
        if seen:
            raise DoesNotHold(
                f"{entry.path} of {output.name} has other bytes here than recorded.",
                remedy=f"See 'reckon verify {output.name}'; bring it back with 'dvc checkout' or 'dvc pull'.",
            )
        raise UnknownName(
            f"{entry.path} of {output.name} lies nowhere here with its recorded bytes.", remedy="Run 'dvc pull'."
        )

    def places(self, output: Output, entry: FileEntry) -> Iterator[tuple[str, Path]]:
        """Where copies of a recorded file can lie: the working tree first."""
        yield "workspace", self._in_workspace(output, entry)
        md5 = (self.listing(output) or {}).get(entry.path)
        for store in self._stores if md5 is not None else ():
            yield store.name, store.path(md5 or "")

    def listing(self, output: Output) -> Mapping[str, str] | None:
        """Relative path → md5 of the files of an output; None when no list that holds tells it."""
        match = _LOCATOR.fullmatch(output.locator or "")
        if match is None:
            return None
        return self.members(match[1]) if match[1].endswith(".dir") else {output.path.rpartition("/")[2]: match[1]}

    def members(self, locator: str) -> Mapping[str, str] | None:
        """Relative path → md5 of the files behind a folder's locator; None when no list that holds tells it."""
        lists = (store.listing(locator) for store in self._stores)
        return next((found for found in lists if found is not None), None)

    def holds(self, output: Output, entry: FileEntry, away: Set[str]) -> bool:
        """Whether a copy with the recorded bytes, hashed now, lies in a place whose path is not ``away``.

        A link holds no bytes of its own: only regular files count.
        """
        for _, path in self.places(output, entry):
            if self._counts(path, entry, away) and self._hash_file(path)[1] == entry.digest:
                return True
        return False

    def digest(self, path: str) -> Digest:
        """The SHA-256 of a file in the archive."""
        return self._hash_file(self._root / checked_path(path))[1]

    def _counts(self, path: Path, entry: FileEntry, away: Set[str]) -> bool:
        """A regular file of the recorded size, reached through no link, that does not go away."""
        named = Path(os.path.normpath(path))
        if named.is_relative_to(self._root) and named.relative_to(self._root).as_posix() in away:
            return False
        try:
            facts = path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        real = (
            Path(os.path.realpath(self._root)) / named.relative_to(self._root)
            if named.is_relative_to(self._root)
            else named
        )
        return stat.S_ISREG(facts.st_mode) and facts.st_size == entry.size_bytes and path.resolve() == real

    def _in_workspace(self, output: Output, entry: FileEntry) -> Path:
        own = self._root / checked_path(output.path)
        return own if own.is_file() else own / entry.path


def remote_folder(root: Path) -> Path | None:
    """The default remote of DVC where that is a folder, else None. Raises ``Refused`` for a malformed configuration."""
    settings = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        settings.read([root / ".dvc" / "config", root / ".dvc" / "config.local"], encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError) as error:
        raise Refused("The configuration of DVC cannot be read.", remedy="See 'dvc config --list'.") from error
    name = settings.get("core", "remote", fallback=None)
    url = None if name is None else settings.get(f"'remote \"{name}\"'", "url", fallback=None)
    if url is None or "://" in url:
        return None
    return Path((root / ".dvc" / url).resolve())


def _listing(path: Path, locator: str) -> Mapping[str, str] | None:
    try:
        data = path.read_bytes() if path.stat().st_size <= LARGEST_LIST else b""
        rows = json.loads(data)
        found = {str(row["relpath"]): str(row["md5"]) for row in rows}
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    true = hashlib.md5(data, usedforsecurity=False).hexdigest() + ".dir" == locator
    return found if true and all(_MD5.fullmatch(md5) for md5 in found.values()) else None
