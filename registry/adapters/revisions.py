"""Commits by the names that people give them, what lies between two of them, and the code that they hold.

Read only, through the ``git`` command. Refuses names that are no commit.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from registry.core.digests import Algorithm, Digest
from registry.core.gitobjects import LARGEST_BYTES
from registry.errors import OutsideFailed, Refused

_ADDRESS: Final = re.compile(r"(https://|ssh://)(?:[^@/]*@)?([^\s?#]+)")
_OF_A_HOOK: Final = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR")


class Revisions:
    """The commits of the repository at ``root``."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._blobs: dict[Digest, bytes] = {}

    def resolve(self, name: str) -> str:
        """The full id of a commit. Raises ``Refused`` for a name that git does not know, or that is an option."""
        done = self._run("rev-parse", "--quiet", "--verify", "--end-of-options", f"{name}^{{commit}}")
        found = done.stdout.decode().strip()
        if done.returncode or not found:
            raise Refused(f"git knows no commit {name!r}.", remedy="See: git log --oneline")
        return found

    def origin(self) -> str | None:
        """Where the code is fetched from, without user and password; None for none, and for a folder of a machine."""
        found = self._run("config", "--get", "remote.origin.url").stdout.decode(errors="replace").strip()
        match = _ADDRESS.fullmatch(found)
        return None if match is None else f"{match[1]}{match[2]}"

    def between(self, start: str, end: str, paths: Sequence[str]) -> Sequence[tuple[str, str]]:
        """Commits after ``start`` up to ``end`` that touch one of ``paths``, oldest first, with their first lines."""
        options = ("-z", "--no-show-signature", "--reverse", "--topo-order", "--no-merges", "--format=%H %s")
        done = self._run("log", *options, f"{start}..{end}", "--", *paths)
        if done.returncode:
            raise OutsideFailed(f"git log failed: {done.stderr.decode(errors='replace').strip()[:300]}")
        lines = done.stdout.decode(errors="replace").split("\0")
        return tuple((line[:40], line[41:]) for line in lines if line)

    def files(self, commit: str, folders: Sequence[str]) -> Mapping[str, Digest]:
        """Git object ids of the files of a commit under ``folders``, by path."""
        done = self._run("ls-tree", "-r", "-z", "--full-tree", commit, "--", *folders)
        if done.returncode:
            raise OutsideFailed(f"git ls-tree failed: {done.stderr.decode(errors='replace').strip()[:300]}")
        found = {}
        for entry in done.stdout.decode(errors="surrogateescape").split("\0")[:-1]:
            facts, _, path = entry.partition("\t")
            _, kind, name = facts.split()
            if kind == "blob":
                found[path] = Digest(Algorithm.GIT, name)
        return found

    def content(self, blob: Digest) -> bytes:
        """The bytes of a file by its object id."""
        if blob not in self._blobs:
            done = self._run("cat-file", "blob", blob.hex)
            if done.returncode or len(done.stdout) > LARGEST_BYTES:
                raise OutsideFailed(f"git has no readable file {blob.hex}.")
            self._blobs[blob] = done.stdout
        return self._blobs[blob]

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        kept = {key: value for key, value in os.environ.items() if key not in _OF_A_HOOK}
        try:
            return subprocess.run(
                ["git", *arguments],
                cwd=self._root,
                env={**kept, "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_REPLACE_OBJECTS": "1", "LC_ALL": "C"},
                capture_output=True,
                check=False,
            )
        except FileNotFoundError as error:
            raise OutsideFailed("The program git was not found.", remedy="Install git.") from error
