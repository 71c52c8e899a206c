"""The md5 by which DVC finds a folder: not an identity here, only a way to ask DVC for bytes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable


def folder_locator(files: Iterable[tuple[str, str]]) -> str:
    """DVC's name of a folder, from the relative POSIX path and md5 of each file: md5 of its list, and ``.dir``."""
    rows = sorted(({"md5": md5, "relpath": path} for path, md5 in files), key=lambda row: row["relpath"])
    return hashlib.md5(json.dumps(rows, sort_keys=True).encode(), usedforsecurity=False).hexdigest() + ".dir"
