"""Compiled programs kept between the processes of one module of tests: most of a miniature's time is XLA's.

JAX keys a program by its text, its options and the library, and what it loads is the machine code that it wrote: the
bits are the same. A test whose claim is about compiling must do without.
"""

from __future__ import annotations

from pathlib import Path


def kept_in(folder: Path) -> dict[str, str]:
    """The variables that make JAX keep every compiled program in ``folder``, and look for it there."""
    return {
        "JAX_COMPILATION_CACHE_DIR": str(folder),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
    }
