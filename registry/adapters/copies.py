"""The copies of a recorded file on this disk: in the working tree, in DVC's cache, and in a remote that is a folder.

DVC names an object by its md5 and does not look at its bytes again. Here a copy counts only when its bytes have the
recorded SHA-256. Lists of folders are hostile like any other byte: they must hash to their own name. Refuses locators
that are not md5, and hands out no bytes but the recorded ones.
"""

from __future__ import annotations

import configparser
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from registry.core.digests import FileEntry, sha256
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
    """Looks for copies of recorded files below ``root`` and in ``stores``."""

    def __init__(self, root: Path, stores: Sequence[ObjectStore]) -> None:
        self._root = root
        self._stores = tuple(stores)

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
        for store in self._stores:
            md5 = self.md5(output, entry.path)
            if md5 is not None:
                yield store.name, store.path(md5)

    def md5(self, output: Output, path: str) -> str | None:
        """DVC's name of a file of an output, None where no list tells it."""
        match = _LOCATOR.fullmatch(output.locator or "")
        if match is None:
            return None
        if not match[1].endswith(".dir"):
            return match[1]
        lists = (store.listing(match[1]) for store in self._stores)
        return next((found.get(path) for found in lists if found is not None), None)

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
