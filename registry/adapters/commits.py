"""Git's objects and history, read through the ``git`` command: nothing is checked out, nothing is written.

Objects come as the bytes that git hashes, so that a reader can hash them again. Replacement refs, grafts and lazy
fetching are off: what is not in this repository is not here. Refuses objects over a limit.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Final, Self, cast

from registry.core.digests import Digest
from registry.core.gitobjects import LARGEST_BYTES
from registry.errors import DoesNotHold, OutsideFailed

_HEADER = re.compile(rb"([0-9a-f]{40}) (commit|tree|blob|tag) ([0-9]+)\n")
_OF_A_HOOK: Final = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR")
_COMMIT = re.compile(r"[0-9a-f]{40}")


class GitStore:
    """Objects and history of the repository at ``root``. Close it, or use it in a ``with`` statement."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._reader: subprocess.Popen[bytes] | None = None
        self._ancestors: dict[tuple[str, str], bool] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the reading process."""
        if self._reader is not None:
            self._reader.communicate()
            self._reader = None

    @property
    def here(self) -> bool:
        """Whether the folder is in a repository with a commit, and git can be run."""
        try:
            return self._run("rev-parse", "--quiet", "--verify", "HEAD^{commit}").returncode == 0
        except OutsideFailed:
            return False

    def read(self, name: Digest) -> bytes | None:
        """An object as git hashes it (``blob 12\\0…``), or None when the repository has none of that name."""
        process = self._started()
        stdin, stdout = cast(IO[bytes], process.stdin), cast(IO[bytes], process.stdout)
        stdin.write(name.hex.encode() + b"\n")
        stdin.flush()
        answer = stdout.readline(256)
        match = _HEADER.fullmatch(answer)
        if match is None:
            if answer.endswith(b" missing\n"):
                return None
            raise OutsideFailed(f"git cat-file said {answer[:80]!r}.", remedy="Run 'git fsck'.")
        size = int(match[3])
        if size > LARGEST_BYTES:
            self.close()
            raise DoesNotHold(f"The git object {name.hex} has {size} bytes, more than {LARGEST_BYTES}.")
        content = stdout.read(size)
        stdout.read(1)
        return match[2] + b" %d\0" % size + content

    def additions(self, folder: str) -> Mapping[str, str]:
        """For each file ever added under ``folder``: the first commit that added it."""
        options = (
            "--diff-filter=A",
            "--name-only",
            "--no-renames",
            "--no-relative",
            "--no-show-signature",
            "--format=%x00%H",
            "-z",
            "--topo-order",
        )
        done = self._run("log", "-m", *options, "HEAD", "--", folder)
        found: dict[str, str] = {}
        commit = ""
        for piece in done.stdout.split(b"\0") if done.returncode == 0 else ():
            text = piece.decode("utf-8", "backslashreplace").strip("\n")
            if _COMMIT.fullmatch(text):
                commit = text
            elif text:
                found[text] = commit  # The log goes back in time, so that the first one stays.
        return found

    def precedes(self, earlier: str, later: str) -> bool:
        """Whether ``earlier`` is ``later`` or an ancestor of it. False when one of them is not here."""
        if not _COMMIT.fullmatch(earlier) or not _COMMIT.fullmatch(later):
            return False
        key = (earlier, later)
        if key not in self._ancestors:
            self._ancestors[key] = self._run("merge-base", "--is-ancestor", *key).returncode == 0
        return self._ancestors[key]

    def _started(self) -> subprocess.Popen[bytes]:
        if self._reader is None:
            try:
                self._reader = subprocess.Popen(
                    ["git", "cat-file", "--batch"],
                    cwd=self._root,
                    env=self._environment(),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                )
            except FileNotFoundError as error:
                raise OutsideFailed("The program git was not found.", remedy="Install git.") from error
        return self._reader

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        try:
            return subprocess.run(
                ["git", "-c", "core.quotePath=false", *arguments],
                cwd=self._root,
                env=self._environment(),
                capture_output=True,
                check=False,
            )
        except FileNotFoundError as error:
            raise OutsideFailed("The program git was not found.", remedy="Install git.") from error

    def _environment(self) -> Mapping[str, str]:
        kept = {key: value for key, value in os.environ.items() if key not in _OF_A_HOOK}
        settings = {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
        return {**kept, **settings, "GIT_GRAFT_FILE": os.devnull}
