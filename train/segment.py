"""Stage ``hero/<n>``: one segment of the hero run. Run as ``python -m train.segment N``.

The first segment begins from fresh parameters, and only under a sealed forecast. Every later one begins from the
checkpoint that the settings name, after proving it; there is no way from there to fresh parameters. A refused start is
told in the run log like any other failure.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from registry.errors import ReckonError, Refused
from train import paths
from train.attempt import Attempt
from train.plan import Plan, segment_plan
from train.proof import Parent, prove_parent, require_sealed_forecast
from train.stage import told
from train.training import train


def main(arguments: list[str]) -> None:
    """Train the segment that the only argument numbers."""
    number = arguments[0] if len(arguments) == 1 else ""
    with told(Attempt(f"hero/{number or 'unknown'}")) as attempt:
        if not number:
            raise Refused("Number one segment.", remedy="Write it like 'python -m train.segment 1'.")
        plan = segment_plan(number)
        with _refusals_told(plan, attempt):
            parent = _proven(plan)
        train(plan, attempt, parent, careful=True)


def _proven(plan: Plan) -> Parent | None:
    """The proven parent, or None for a first segment, which needs a sealed forecast and an empty place."""
    if plan.parent is not None:
        return prove_parent(plan.parent)
    require_sealed_forecast()
    output = paths.ARTIFACTS / plan.stage
    if output.exists() and any(output.iterdir()):
        raise Refused(
            f"{output} holds a trained segment already.",
            remedy="Let DVC run the stage ('dvc repro hero@1'); it removes what it replaces.",
        )
    return None


@contextmanager
def _refusals_told(plan: Plan, attempt: Attempt) -> Iterator[None]:
    try:
        yield
    except ReckonError:
        attempt.start(plan.declared)
        raise


if __name__ == "__main__":
    main(sys.argv[1:])
