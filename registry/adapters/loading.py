"""Loading a release with the library that it is for, in a process of its own.

The training stack is no part of this package: where it is not installed, that is what comes of it, said in a sentence.
Refuses a release that loads as something else than it was meant, and a process that does not end.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from registry.core import canonical
from registry.core.canonical import Json
from registry.errors import DoesNotHold, OutsideFailed

_PROOF: Final = "train.exporting.proving"
_SECONDS: Final = 3600
_LONGEST: Final = 2**20


def load(folder: Path, library: str) -> Mapping[str, Json]:
    """Sentences by what was tried. Raises ``DoesNotHold`` when it came out wrong."""
    absent = next((name for name in (library, "levanter") if find_spec(name) is None), None)
    if absent is not None:
        return {"loading": f"not proved here: {absent} is not installed"}
    # -P: what lies in the current folder is not imported.
    command = [sys.executable, "-P", "-m", _PROOF, str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise OutsideFailed(f"Loading the release did not end within {_SECONDS} seconds.") from error
    told = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2][:500]
    if done.returncode:
        raise DoesNotHold(f"The release does not load as it should: {told}", remedy="Mend the exporter of the family.")
    value = canonical.decode(done.stdout[:_LONGEST].removesuffix(b"\n"))
    if not isinstance(value, Mapping):
        raise OutsideFailed("The process that loads the release did not say what came of it.")
    return value
