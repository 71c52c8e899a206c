"""Files and trees of files as digests: SHA-256 of every byte, on all cores.

One file is one SHA-256 stream, which cannot be cut; so files are hashed side by side, the largest first. DVC's md5 can
be taken in the same pass. Digests always come from the bytes, unless the caller hands over a cache of earlier ones.
Refuses special files, links that leave their tree, links to folders, and names that are not UTF-8.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from registry.adapters.hashing.files import FileHash
from registry.adapters.hashing.locators import folder_locator
from registry.adapters.hashing.released import ReleaseFolder
from registry.adapters.hashing.remembered import Remembered
from registry.adapters.hashing.trees import TreeHasher
from registry.adapters.hashing.walking import Found, found_file, found_tree
from registry.core.digests import Digest, FileEntry
from registry.core.names import checked_path
from registry.errors import Refused

__all__ = ["Disk", "FileHash", "ReleaseFolder", "Remembered", "TreeHasher", "folder_locator", "hash_file", "hash_tree"]


def hash_file(path: Path) -> tuple[int, Digest]:
    """Size in bytes and SHA-256 of one file, links followed. Raises ``Refused`` unless it is a regular file."""
    [(_, hashed)] = TreeHasher(workers=1).hashes([found_file(path)])
    return hashed.size_bytes, hashed.digest


def hash_tree(root: Path, *, remembered: Remembered | None = None) -> tuple[FileEntry, ...]:
    """All files of a folder, paths relative to it, sorted by path.

    With ``remembered``, a file whose size, times and inode are as they were is not read again.
    """
    return TreeHasher(remembered=remembered).entries(root)


class Disk:
    """Files and folders below ``root``, named by relative paths.

    With ``remembered``, unchanged files are not read again: for a quick look, never for a verification.
    """

    def __init__(self, root: Path, *, remembered: Remembered | None = None) -> None:
        self._root = root
        self._remembered = remembered

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder."""
        return self._at(path).exists()

    def is_folder(self, path: str) -> bool:
        """Whether it is a folder."""
        return self._at(path).is_dir()

    def files(self, path: str) -> Sequence[FileEntry]:
        """Hash all files of a folder (paths relative to it), or one file (its own name)."""
        return tuple(
            FileEntry(path=found.path, size_bytes=hashed.size_bytes, digest=hashed.digest)
            for found, hashed in TreeHasher(remembered=self._remembered).hashes(self._found(path))
        )

    def locator(self, path: str) -> str:
        """DVC's md5 of a file, or of a folder with ``.dir``."""
        hasher = TreeHasher(remembered=self._remembered, with_md5=True)
        named = [(found.path, hashed.md5 or "") for found, hashed in hasher.hashes(self._found(path))]
        return folder_locator(named) if self.is_folder(path) else named[0][1]

    def read(self, path: str) -> bytes:
        """The bytes of a small file. Raises ``Refused`` when it is missing or no regular file."""
        return found_file(self._existing(path), within=self._root).read()

    def _found(self, path: str) -> list[Found]:
        target = self._existing(path)
        return found_tree(target) if target.is_dir() else [found_file(target, within=self._root)]

    def _existing(self, path: str) -> Path:
        target = self._at(path)
        if not target.exists():
            raise Refused(
                f"{path} does not exist.", remedy="Run 'dvc repro' or 'dvc pull' for the stage that makes it."
            )
        return target

    def _at(self, path: str) -> Path:
        return self._root / checked_path(path)
