"""The git repository that the code is in, through the ``git`` command.

Read only. What stages and recorders write (``manifests/``, ``artifacts/``, ``dvc.lock``) never makes a tree dirty.
Answers do not depend on the user's configuration of git, nor on a hook that we may run in. Refuses folders without a
commit.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from registry.core.canonical import Json
from registry.core.digests import Algorithm, Digest, record_digest, sha256
from registry.core.records import Revision
from registry.errors import OutsideFailed, Refused

_WRITTEN_BY_STAGES: Final = (":(exclude)manifests", ":(exclude)artifacts", ":(exclude)dvc.lock")
# A hook's variables would point git at another index or repository.
_OF_A_HOOK: Final = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_PREFIX",
    "GIT_OBJECT_DIRECTORY",
    "GIT_COMMON_DIR",
)
# One difference, one text: whatever diff.* says in a user's configuration.
_PLAIN_DIFF: Final = (
    *("--binary", "--full-index", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", "--no-relative"),
    *("--src-prefix=a/", "--dst-prefix=b/", "-U3", "--inter-hunk-context=0", "--diff-algorithm=myers"),
    *("--no-indent-heuristic", "--submodule=short", "-O/dev/null"),
)
_FILES_AT_ONCE: Final = 500


class GitRepository:
    """A repository by its root folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def revision(self) -> Revision:
        """Commit, tree and the digest of uncommitted changes. Raises ``Refused`` when there is no commit yet."""
        commit, tree = (self._named(name) for name in ("HEAD^{commit}", "HEAD^{tree}"))
        if not commit or not tree:
            raise Refused("This folder has no git commit.", remedy="Run reckon in a clone, or commit first.")
        return Revision(commit=commit, tree=tree, patch=self._patch())

    def blobs(self, paths: Sequence[str]) -> Mapping[str, Digest]:
        """Git object ids of files as they are now. Raises ``Refused`` for a missing one."""
        for path in paths:
            if not (self._root / path).is_file():
                raise Refused(f"The code file {path} does not exist.", remedy="Correct the deps in dvc.yaml.")
        ids: list[str] = []
        for start in range(0, len(paths), _FILES_AT_ONCE):
            ids += self._git("hash-object", "--", *paths[start : start + _FILES_AT_ONCE]).decode().split()
        return {path: Digest(Algorithm.GIT, one) for path, one in zip(paths, ids, strict=True)}

    def altered(self, folder: str) -> Sequence[str]:
        """Files under ``folder`` that HEAD holds and that are now missing or altered; none without a commit."""
        if not self._named("HEAD^{commit}"):
            return ()
        options = ("--name-only", "-z", "--no-ext-diff", "--no-renames", "--no-relative", "--diff-filter=MDT")
        names = self._git("diff", *options, "HEAD", "--", folder).split(b"\0")[:-1]
        return tuple(sorted(name.decode("utf-8", "replace") for name in names))

    def uncommitted(self, folder: str) -> Sequence[str]:
        """Files under ``folder`` that git does not ignore and that HEAD does not hold: new ones, staged or not."""
        options = ("--porcelain=v1", "-z", "--untracked-files=all", "--no-renames", "--ignore-submodules=all")
        entries = self._git("status", *options, "--", folder).split(b"\0")[:-1]
        return tuple(sorted(one[3:].decode("utf-8", "replace") for one in entries if one[:1] in b"?A"))

    def _named(self, name: str) -> str:
        return self._git("rev-parse", "--quiet", "--verify", name, allow_failure=True).decode().strip()

    def _patch(self) -> Digest | None:
        """The digest of the binary diff to HEAD and of untracked files that git does not ignore; None when clean."""
        where = ("--", ".", *_WRITTEN_BY_STAGES)
        changes = self._git("diff", *_PLAIN_DIFF, "HEAD", *where)
        untracked = self._git("ls-files", "-z", "--others", "--exclude-standard", *where).split(b"\0")[:-1]
        if not changes and not untracked:
            return None
        files: list[Json] = [self._untracked(name) for name in sorted(untracked)]
        return record_digest({"kind": "patch", "schema": 1, "diff": str(sha256(changes)), "untracked": files})

    def _untracked(self, name: bytes) -> Json:
        """Name and content of an untracked file; of a link where it leads, of a repository inside only its name."""
        path = self._root / os.fsdecode(name)
        digest = str(sha256(os.fsencode(path.readlink()) if path.is_symlink() else b""))
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                digest = f"{Algorithm.SHA256}:{hashlib.file_digest(file, 'sha256').hexdigest()}"
        return [name.decode("utf-8", "backslashreplace"), digest]

    def _git(self, *arguments: str, allow_failure: bool = False) -> bytes:
        environment = {key: value for key, value in os.environ.items() if key not in _OF_A_HOOK}
        try:
            done = subprocess.run(
                ["git", "-c", "core.quotePath=true", "-c", "diff.suppressBlankEmpty=false", *arguments],
                cwd=self._root,
                env={**environment, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"},
                capture_output=True,
                check=False,
            )
        except FileNotFoundError as error:
            raise OutsideFailed("The program git was not found.", remedy="Install git.") from error
        if done.returncode and not allow_failure:
            raise OutsideFailed(f"git {arguments[0]} failed: {done.stderr.decode(errors='replace').strip()}.")
        return done.stdout
