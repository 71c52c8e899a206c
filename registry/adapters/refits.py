"""Fitting the law of a foreign ladder again: ``python -m train.refit`` in a process of its own.

The fit is the training side's, which this package never imports. Refuses to wait past a time limit, and answers that
are no canonical JSON object.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from registry.core import canonical
from registry.core.canonical import Json
from registry.errors import OutsideFailed, Refused

LAW: Final = "law.json"
_SECONDS: Final = 600
_REFUSED: Final = 2


def refit(records: Path, target: Path, archive: Path) -> Mapping[str, Json]:
    """Fit the law of the foreign records in a folder and write it and its picture to ``target``.

    Raises ``Refused`` when the records carry no law, ``OutsideFailed`` when the training extra is not installed.
    """
    command = [sys.executable, "-m", "train.refit", str(records), str(target)]
    try:
        done = subprocess.run(command, cwd=archive, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise OutsideFailed(f"The fit did not end within {_SECONDS} seconds.") from error
    said = done.stderr.strip().splitlines()[-1:] or ["it said nothing"]
    if done.returncode == _REFUSED:
        raise Refused(said[0])
    if done.returncode != 0:
        raise OutsideFailed(f"The fit failed: {said[0]}", remedy="Install deadreckon with its extra 'train'.")
    found = canonical.decode((target / LAW).read_bytes())
    if not isinstance(found, Mapping):
        raise OutsideFailed(f"{LAW} is not what a fit writes.")
    return found
