"""What is told of this machine is what a record needs, in the form that records have."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from registry.adapters.host import LocalHost
from registry.core import canonical
from registry.core.runlog import Finished, Outcome


def test_the_facts_fit_into_a_record() -> None:
    facts = LocalHost().facts()
    assert canonical.decode(canonical.encode(facts)) == facts
    assert set(facts) == {"name", "machine", "processor", "cores", "memory_bytes", "system"}
    assert facts["memory_bytes"] > 2**20


def asked(setup: str, question: str) -> str:
    """What a fresh process answers."""
    program = f"import os, sys; {setup}; from registry.adapters.host import LocalHost; print({question})"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


def test_cores_are_those_that_this_process_may_use() -> None:
    one = min(os.sched_getaffinity(0))
    assert asked(f"os.sched_setaffinity(0, {{{one}}})", "LocalHost().facts()['cores']") == "1"


def test_numeric_libraries_are_told_without_importing_them() -> None:
    told = asked("pass", "(LocalHost().numerics(), 'jax' in sys.modules)")
    assert re.search(r"'jax': '\d.*'jaxlib': '\d.*False\)$", told)


def test_the_clock_is_that_of_run_logs_and_moves_on() -> None:
    first, second = LocalHost().now(), LocalHost().now()
    assert first <= second
    Finished(time=first, outcome=Outcome.COMPLETE, cause=None, step=None)
