"""How a stage's process begins and ends: settings in, exit status out, faults told in words.

A fault of the error tree ends with its exit code (1 does not hold, 2 refused, 3 an outside system failed). A fault of
the disk counts as an outside system. Anything else is a bug and keeps its traceback.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping

from registry.core.canonical import Json
from registry.errors import OutsideFailed, ReckonError
from train.settings import section


def run(stage: str, body: Callable[[Mapping[str, Json]], object], *, settings: str | None = None) -> None:
    """Run ``body`` with the section ``settings`` (by default the one named as the stage) and exit with its status."""
    began = time.monotonic()
    try:
        _attempt(body, settings or stage)
    except ReckonError as error:
        sys.stderr.write(f"{stage}: {error}\n")
        raise SystemExit(error.exit_code) from error
    sys.stderr.write(f"{stage}: done in {time.monotonic() - began:.1f} s\n")


def _attempt(body: Callable[[Mapping[str, Json]], object], name: str) -> None:
    try:
        body(section(name))
    except OSError as error:
        raise OutsideFailed(
            f"The disk or the system refused: {error}.", remedy="Free some space or mend the path, then run it again."
        ) from error
