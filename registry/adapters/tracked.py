"""What DVC tracks: the locators in ``dvc.lock`` and ``*.dvc`` files of the working tree and of every git ref.

They are read as text, so that a file that a later DVC writes, or that is damaged, still protects what it names. Refuses
nothing; without git only the working tree speaks.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from registry.errors import OutsideFailed

_LOCATOR: Final = re.compile(rb"md5[\"']?\s*:\s*[\"']?([0-9a-f]{32}(?:\.dir)?)\b")
_LARGEST: Final = 256 * 2**20
_LOCK: Final = "dvc.lock"


def tracked(root: Path) -> dict[str, str]:
    """DVC locators, each with who tracks it. Raises ``OutsideFailed`` when git fails."""
    found: dict[str, str] = {}
    for who, data in (*_in_refs(root), *_in_tree(root)):
        found.update(dict.fromkeys((match[1].decode() for match in _LOCATOR.finditer(data)), who))
    return found


def _in_tree(root: Path) -> Iterator[tuple[str, bytes]]:
    files = [root / _LOCK, *root.glob("*.dvc"), *root.glob("artifacts/*.dvc")]
    for path in files:
        if path.is_file() and path.stat().st_size <= _LARGEST:
            yield path.relative_to(root).as_posix(), path.read_bytes()


def _in_refs(root: Path) -> Iterator[tuple[str, bytes]]:
    """The files of every ref, each content once."""
    if not (root / ".git").exists():
        return
    names = _git(root, "for-each-ref", "--format=%(refname)").decode().split()
    seen: set[str] = set()
    for name in names:
        for line in _git(root, "ls-tree", "-r", "-z", f"{name}^{{tree}}").decode("utf-8", "replace").split("\0"):
            facts, _, path = line.partition("\t")
            blob = facts.rpartition(" ")[2]
            if (path == _LOCK or path.endswith(".dvc")) and blob not in seen:
                seen.add(blob)
                yield f"{path} of {name}", _git(root, "cat-file", "blob", blob)


def _git(root: Path, *arguments: str) -> bytes:
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, check=False)
    if done.returncode:
        words = done.stderr.decode("utf-8", "replace").strip()
        raise OutsideFailed(f"git could not be asked what DVC tracks: {words}", remedy="See 'git status'.")
    return done.stdout
