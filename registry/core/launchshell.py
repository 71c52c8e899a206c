"""Pieces of shell that the scripts of every target share: the head, the worker, and work under the watchdog.

Everything that came from a record or a person is quoted. Refuses nothing.
"""

from __future__ import annotations

from shlex import quote
from typing import Final

from registry.core.launch import Launch

COORDINATOR_PORT: Final = 29500
HEAD: Final = "#!/usr/bin/env bash\n"
STRICT: Final = "set -euo pipefail\n"
# Programs of the run's own environment come first.
OWN_PATH: Final = 'export PATH="$PWD/.venv/bin:$PATH"\n'


def begin(text: str) -> str:
    """The head of a script that knows its own folder as ``here``."""
    return f'{HEAD}# {text}\n{STRICT}here="$(cd "$(dirname "${{BASH_SOURCE[0]}}")" && pwd)"\n'


def opening(launch: Launch) -> str:
    """What opens the record, where there is one."""
    return f"reckon record {quote(launch.stage)} --begin\n" if launch.recorded else ""


def worker(coordinator: str, process: str, output: str) -> str:
    """One process of the run; the arguments are shell words."""
    return (
        f'python -m train.launch_worker "$here/plan.json" --coordinator {coordinator} --process {process} '
        f"--output {output}"
    )


def watched(work: str, progress: str) -> str:
    """Work under the watchdog: a signal is handed on to it, and ``status`` is how it ended. Both are shell words."""
    return f"""\
status=0
# shellcheck disable=SC2016  # a worker's own shell reads its rank
python -m train.launch_watch --progress {progress} "$here/plan.json" -- \\
  {work} &
watch=$!
trap 'kill -TERM "$watch"' TERM INT HUP
wait "$watch" || status=$?
while kill -0 "$watch" 2>/dev/null; do
  status=0
  wait "$watch" || status=$?
done
"""
