"""Small artifacts of the working tree by path and digest. Refuses files over a limit, links and other bytes."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from registry.core.digests import Digest, sha256
from registry.core.names import checked_path
from registry.errors import DoesNotHold, UnknownName

LARGEST_BYTES = 2**30


class DiskPapers:
    """Files below ``root``."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()

    def read(self, path: str, digest: Digest) -> bytes:
        """The bytes of ``digest`` at ``path``. Raises ``UnknownName`` when no file is there, else ``DoesNotHold``."""
        file = self._root / checked_path(path)
        if not file.resolve().is_relative_to(self._root) or not file.is_file():
            raise UnknownName(f"There is no file {path}.", remedy="Run 'dvc checkout' or 'dvc pull'.")
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as opened:
            facts = os.fstat(descriptor)
            if not stat.S_ISREG(facts.st_mode) or facts.st_size > LARGEST_BYTES:
                raise DoesNotHold(f"{path} is no regular file of at most {LARGEST_BYTES} bytes.")
            data = opened.read(LARGEST_BYTES)
        found = sha256(data)
        if found != digest:
            raise DoesNotHold(f"{path} has other bytes than recorded: {found}, not {digest}.")
        return data
