"""The machine that we are on: facts for executions, and what of it can change bits.

Reads the standard library, ``/proc`` and the metadata of installed distributions; imports none of them.
"""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from registry.core.canonical import Json

_NUMERIC = ("jax", "jaxlib", "marin-levanter")


class LocalHost:
    """This machine."""

    def facts(self) -> Mapping[str, Json]:
        """Host name, processor, cores that this process may use, memory, kernel."""
        return {
            "name": socket.gethostname(),
            "machine": platform.machine(),
            "processor": _processor(),
            "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "system": f"{platform.system()} {platform.release()}",
        }

    def numerics(self) -> Mapping[str, Json]:
        """The machine's kind and the installed versions of the numeric libraries (null when not installed)."""
        return {"machine": platform.machine(), **{name: _version(name) for name in _NUMERIC}}

    def now(self) -> str:
        """UTC with microseconds."""
        return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _processor() -> str:
    """The processor's model as the kernel names it."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or "unknown")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
