"""How a stage's process begins and ends: settings in, a run log beside, exit status out, faults told in words.

A fault of the error tree ends with its exit code (1 does not hold, 2 refused, 3 an outside system failed). A fault of
the disk counts as an outside system. Anything else is a bug and keeps its traceback.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from registry.core.canonical import Json
from registry.core.pipeline import decimals
from registry.errors import OutsideFailed, ReckonError
from train.attempt import Attempt
from train.settings import section


def run(stage: str, body: Callable[[Mapping[str, Json]], object], *, settings: str | None = None) -> None:
    """Run ``body`` with the section ``settings`` (by default the one named as the stage) and exit with its status."""
    name = settings or stage
    with told(Attempt(stage)) as attempt:
        found = section(name)
        attempt.start({name: decimals(found)})
        body(found)


@contextmanager
def told(attempt: Attempt) -> Iterator[Attempt]:
    """Run a stage's work so that the attempt's log tells how it ended. Exits the process when it failed."""
    began = time.monotonic()
    try:
        with attempt, _disk_faults():
            yield attempt
    except ReckonError as error:
        sys.stderr.write(f"{attempt.stage}: {error}\n")
        raise SystemExit(error.exit_code) from error
    sys.stderr.write(f"{attempt.stage}: done in {time.monotonic() - began:.1f} s\n")


@contextmanager
def _disk_faults() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutsideFailed(
            f"The disk or the system refused: {error}.", remedy="Free some space or mend the path, then run it again."
        ) from error
