"""The git repository that the code is in, through the ``git`` command.

Read only. What stages and recorders write (``manifests/``, ``artifacts/``, ``dvc.lock``) never makes a tree dirty.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from registry.core.digests import Algorithm, Digest, sha256
from registry.core.records import Revision
from registry.errors import OutsideFailed, Refused

_WRITTEN_BY_STAGES = (
    ":(exclude)manifests",
    ":(exclude)artifacts",
    ":(exclude)dvc.lock",
)


class GitRepository:
    """A repository by its root folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def revision(self) -> Revision:
        """Commit, tree and the digest of uncommitted changes. Raises ``Refused`` when there is no commit yet."""
        found = self._git("rev-parse", "--verify", "HEAD", "HEAD^{tree}", allow_failure=True).split()
        if len(found) != 2:
            raise Refused(
                "This folder has no git commit.",
                remedy="Run reckon in a clone, or commit first.",
            )
        return Revision(commit=found[0].decode(), tree=found[1].decode(), patch=self._patch())

    def blobs(self, paths: Sequence[str]) -> Mapping[str, Digest]:
        """Git object ids of files as they are now. Raises ``Refused`` for a missing one."""
        for path in paths:
            if not (self._root / path).is_file():
                raise Refused(
                    f"The code file {path} does not exist.",
                    remedy="Correct the deps in dvc.yaml.",
                )
        if not paths:
            return {}
        ids = self._git("hash-object", "--", *paths).decode().split()
        return {path: Digest(Algorithm.GIT, one) for path, one in zip(paths, ids, strict=True)}

    def altered(self, folder: str) -> Sequence[str]:
        """Files under ``folder`` that HEAD holds and that are now missing or have other bytes."""
        names = self._git(
            "diff", "--name-only", "-z", "--no-ext-diff", "--no-renames", "--diff-filter=MDT", "HEAD", "--", folder
        )
        return tuple(sorted(name.decode("utf-8", "replace") for name in names.split(b"\0")[:-1]))

    def _patch(self) -> Digest | None:
        """SHA-256 over the binary diff to HEAD and the untracked files that git does not ignore; None when clean."""
        where = ("--", ".", *_WRITTEN_BY_STAGES)
        changes = self._git(
            "diff",
            "--binary",
            "--no-ext-diff",
            "--no-color",
            "--full-index",
            "HEAD",
            *where,
        )
        untracked = self._git("ls-files", "-z", "--others", "--exclude-standard", *where).split(b"\0")[:-1]
        names = [name.decode("utf-8", "surrogateescape") for name in sorted(untracked)]
        blobs = self._git("hash-object", "--", *names) if names else b""
        return sha256(changes + b"\0".join(sorted(untracked)) + blobs) if changes or untracked else None

    def _git(self, *arguments: str, allow_failure: bool = False) -> bytes:
        try:
            done = subprocess.run(["git", *arguments], cwd=self._root, capture_output=True, check=False)
        except FileNotFoundError as error:
            raise OutsideFailed("The program git was not found.", remedy="Install git.") from error
        if done.returncode and not allow_failure:
            raise OutsideFailed(f"git {arguments[0]} failed: {done.stderr.decode(errors='replace').strip()}.")
        return done.stdout
