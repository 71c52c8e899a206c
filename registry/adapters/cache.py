"""DVC's cache on this disk, read as files: ``<cache>/files/md5/<two digits>/<the rest>``.

DVC finds an object by its md5 and does not look at its bytes again; here they are hashed. The list of a folder is a
hostile byte like any other: its size and paths are checked. Refuses locators that are not md5.
"""

from __future__ import annotations

import configparser
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from registry.core.digests import Digest, FileEntry
from registry.errors import DoesNotHold, Refused, UnknownName

_LOCATOR = re.compile(r"(?:md5:)?([0-9a-f]{32})(\.dir)?")
_MD5 = re.compile(r"[0-9a-f]{32}")
_MAXIMUM_BYTES = 512 * 2**20


class DvcCache:
    """The cache of the repository at ``root``. ``hash_file`` gives size and SHA-256 of one file."""

    def __init__(self, root: Path, *, hash_file: Callable[[Path], tuple[int, Digest]]) -> None:
        self._folder = cache_folder(root) / "files" / "md5"
        self._hash_file = hash_file

    def files(self, locator: str, name: str) -> Sequence[FileEntry]:
        """Hash the objects behind a locator that the cache has."""
        match = _LOCATOR.fullmatch(locator)
        if match is None:
            raise Refused(f"{locator!r} is not a locator of DVC.")
        if match[2] is None:
            return tuple(self._present(name, self._object(match[1])))
        listed = self._listed(self._object(match[1] + ".dir"))
        return tuple(entry for path, md5 in listed for entry in self._present(path, self._object(md5)))

    def _listed(self, path: Path) -> Sequence[tuple[str, str]]:
        """Relative path and md5 of the files of a folder."""
        if not path.is_file():
            raise UnknownName(f"The DVC cache has no folder {path.name}.", remedy="Run 'dvc pull', then try again.")
        if path.stat().st_size > _MAXIMUM_BYTES:
            raise DoesNotHold(f"The list {path.name} in the DVC cache is over {_MAXIMUM_BYTES} bytes.")
        try:
            return [_row(row) for row in json.loads(path.read_bytes())]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise DoesNotHold(
                f"The list {path.name} in the DVC cache is damaged: {error}.",
                remedy="Remove that file and run 'dvc pull'.",
            ) from error

    def _present(self, name: str, path: Path) -> Iterator[FileEntry]:
        if path.is_file():
            size_bytes, digest = self._hash_file(path)
            yield FileEntry(path=name, size_bytes=size_bytes, digest=digest)

    def _object(self, md5: str) -> Path:
        return self._folder / md5[:2] / md5[2:]


def cache_folder(root: Path) -> Path:
    """Where DVC keeps its cache: as its configuration says, or ``.dvc/cache``."""
    settings = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        settings.read([root / ".dvc" / "config", root / ".dvc" / "config.local"], encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError) as error:
        raise Refused("The configuration of DVC cannot be read.", remedy="See 'dvc config --list'.") from error
    return root / ".dvc" / settings.get("cache", "dir", fallback="cache")


def broken_lock(root: Path) -> Path | None:
    """The file in which DVC notes who works on what, where a killed DVC left it as no JSON: none will start again."""
    file = root / ".dvc" / "tmp" / "rwlock"
    try:
        json.loads(file.read_bytes())
    except OSError:
        return None
    except ValueError:
        return file
    return None


def _row(row: dict[str, object]) -> tuple[str, str]:
    path, md5 = str(row["relpath"]), str(row["md5"])
    if not _MD5.fullmatch(md5):
        raise ValueError(f"{md5!r} is not an md5")
    return path, md5
