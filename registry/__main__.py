"""``python -m registry`` is the same command as ``reckon``."""

from __future__ import annotations

import sys

from registry.cli.main import run

if __name__ == "__main__":
    sys.exit(run())
