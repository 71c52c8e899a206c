"""Runs one command line and tells how it went, as JSON on the file descriptor that it is given.

A process of its own, and a small one: a child starts with the peak memory of the process that started it.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time


def main() -> None:
    """``timed.py DESCRIPTOR PROGRAM ARGUMENT…``."""
    descriptor = int(sys.argv[1])
    started = time.perf_counter()
    status = subprocess.call(sys.argv[2:], stdout=subprocess.DEVNULL)  # what the caller wants timed
    seconds = time.perf_counter() - started
    peak_bytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    os.write(descriptor, json.dumps({"status": status, "seconds": seconds, "peak_bytes": peak_bytes}).encode())


if __name__ == "__main__":
    main()
