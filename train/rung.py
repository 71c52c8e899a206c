"""Stage ``rung/<name>``: one rung of the ladder, trained from fresh parameters.

Run as ``python -m train.rung NAME``. Refuses a name that the settings do not have.
"""

from __future__ import annotations

import sys

from registry.errors import Refused
from train.attempt import Attempt
from train.plan import rung_plan
from train.stage import told
from train.training import train


def main(arguments: list[str]) -> None:
    """Train the rung that the only argument names."""
    name = arguments[0] if len(arguments) == 1 else ""
    with told(Attempt(f"rung/{name or 'unknown'}")) as attempt:
        if not name:
            raise Refused("Name one rung.", remedy="Write it like 'python -m train.rung d48'.")
        train(rung_plan(name), attempt)


if __name__ == "__main__":
    main(sys.argv[1:])
