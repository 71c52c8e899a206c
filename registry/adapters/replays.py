"""Running a recorded command, and watching it: how far it came, how fast, and stopping it after some steps.

The process gets a clean environment: nothing of the caller's that steers Python, git, JAX or a tracker, nor anything
that looks like a secret. It dies with us, and the processes of its group die with it; a child that calls setsid
escapes. What it says is kept in a file, never written to a terminal as it is. Refuses nothing by itself: whoever calls
has shown the command and got consent.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from registry.core.records import Environment
from registry.errors import MalformedRecord, OutsideFailed

_DIE_WITH_PARENT: Final = 1  # PR_SET_PDEATHSIG
_LOOK_SECONDS: Final = 0.05
_PATIENCE_SECONDS: Final = 300.0
_TAIL_BYTES: Final = 4000
_LARGEST_ANSWER: Final = 8 * 2**20
_SECRET: Final = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|API_?KEY|ACCESS_KEY|PRIVATE", re.IGNORECASE)
_STEERING: Final = re.compile(
    r"(PYTHON|GIT_|JAX|XLA|TF_|WANDB|MLFLOW|HF_|OMP_|MKL_|OPENBLAS|RAGGED|DVC|_RECKON|LEVANTER|NPROC$|COVERAGE|PYTEST).*"
)
_CALM: Final = {
    "PYTHONNOUSERSITE": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DVC_NO_ANALYTICS": "true",
    "WANDB_MODE": "disabled",
    "WANDB_SILENT": "true",
}
_PROBE: Final = """\
import importlib.metadata as m, importlib.util as u, json, os, platform, sys
from hashlib import sha256
def told(name):
    try: found = m.distribution(name)
    except m.PackageNotFoundError: return None
    record = found.read_text("RECORD")
    digest = record and "sha256:" + sha256(record.encode()).hexdigest()
    scripts = "../bin/" in (record or "").replace("Scripts", "bin")
    return {"name": name, "version": found.version, "record": digest, "scripts": scripts}
asked = json.load(sys.stdin)
places = {}
for name in asked["modules"]:
    spec = u.find_spec(name)
    places[name] = spec and os.path.realpath(spec.origin or "")
json.dump({"distributions": [one for one in map(told, asked["names"]) if one], "python": platform.python_version(),
  "platform": {"system": platform.system(), "release": platform.release(), "machine": platform.machine(),
    "libc": "-".join(platform.libc_ver())}, "places": places}, sys.stdout)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How a process ended: its id, its status (negative: a signal), whether we stopped it, and its last words."""

    pid: int
    status: int
    stopped: bool
    tail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A command to run in the folder ``root``; ``log`` takes what it says. ``variables`` are set on top."""

    root: Path
    log: Path
    variables: Mapping[str, str]

    def probe(self, names: Sequence[str], modules: Sequence[str]) -> tuple[Environment, Mapping[str, str]]:
        """The distributions of those names in the interpreter that will run, and where it finds ``modules``.

        Without modules the interpreter is isolated: no code of the folder runs, so that it can be asked before consent.
        Raises ``OutsideFailed`` when it cannot be asked.
        """
        done = subprocess.run(
            ["python", *([] if modules else ["-I"]), "-c", _PROBE],
            cwd=self.root,
            env=self._environment(),
            input=json.dumps({"names": list(names), "modules": list(modules)}).encode(),
            capture_output=True,
            check=False,
        )
        if done.returncode or len(done.stdout) > _LARGEST_ANSWER:
            raise OutsideFailed(f"The interpreter cannot be asked: {done.stderr.decode(errors='replace')[-300:]}")
        told = json.loads(done.stdout)
        environment = Environment(
            python=told["python"], platform=told["platform"], accelerator={}, distributions=tuple(told["distributions"])
        )
        return environment, {name: place or "" for name, place in told["places"].items()}

    def run(self, command: Sequence[str], look: Callable[[int], bool]) -> Ran:
        """Run ``command``. ``look`` is told its id every so often; when it says so, the process is asked to stop."""
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                list(command),
                cwd=self.root,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_die_with_parent,  # noqa: PLW1509  # one thread, one system call
            )
            try:
                stopped = _watched(process, look)
            finally:
                _end(process)
        return Ran(pid=process.pid, status=process.returncode, stopped=stopped, tail=self._tail())

    def start_and_kill(self, command: Sequence[str], ready: Callable[[], bool]) -> None:
        """Run ``command`` until ``ready``, and kill it. Raises ``OutsideFailed`` when it ends or never gets there."""
        began = time.monotonic()

        def look(_: int) -> bool:
            if ready() or time.monotonic() - began > _PATIENCE_SECONDS:
                raise _Ready
            return False

        try:
            self.run(command, look)
        except _Ready:
            if ready():
                return
        raise OutsideFailed(f"The stage did not begin as expected: {self._tail()}")

    def _environment(self) -> dict[str, str]:
        kept = {
            key: value for key, value in os.environ.items() if not _SECRET.search(key) and not _STEERING.fullmatch(key)
        }
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        return {**kept, **_CALM, "PATH": path, "PYTHONPATH": str(self.root), **self.variables}

    def _tail(self) -> str:
        if not self.log.is_file():
            return ""
        with self.log.open("rb") as file:
            file.seek(max(0, self.log.stat().st_size - _TAIL_BYTES))
            return file.read().decode("utf-8", "replace").strip()


class Progress:
    """How far a stage came, by the transcripts that it writes below ``root``."""

    def __init__(self, root: Path, stage: str) -> None:
        self._root = root
        self._stage = stage

    def transcript(self) -> Path | None:
        """The transcript that the stage writes, or has written."""
        found = [path for path in self._places() if path.is_file()]
        return max(found, key=lambda path: path.stat().st_mtime_ns, default=None)

    def step(self) -> int | None:
        """The last step told so far."""
        path = self.transcript()
        if path is None:
            return None
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 4096))
            lines = file.read().split(b"\n")[:-1]
        return _step(lines[-1]) if lines else None

    def scratch(self) -> Path | None:
        """The folder that lets the stage resume, once it is there."""
        owners = sorted((self._root / "artifacts/scratch" / self._stage).glob("*/owners.json"))
        return owners[0].parent if len(owners) == 1 else None

    def _places(self) -> Iterator[Path]:
        yield self._root / "artifacts" / self._stage / "transcript.jsonl"
        yield from (self._root / "artifacts/scratch" / self._stage).glob("*/*/transcript.jsonl")


def processor_flags() -> frozenset[str]:
    """Instruction sets of this processor as the kernel names them; empty where it does not."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
    told = next((line.partition(":")[2] for line in lines if line.startswith("flags")), "")
    return frozenset(told.split())


class _Ready(Exception):
    """What was waited for is there: no error, a way out."""


def _watched(process: subprocess.Popen[bytes], look: Callable[[int], bool]) -> bool:
    """Wait for the end. Whether the process was asked to stop."""
    stopped, since = False, 0.0
    while process.poll() is None:
        if not stopped and look(process.pid):
            process.send_signal(signal.SIGTERM)
            stopped, since = True, time.monotonic()
        if stopped and time.monotonic() - since > _PATIENCE_SECONDS:
            process.kill()
        time.sleep(_LOOK_SECONDS)
    return stopped


def _end(process: subprocess.Popen[bytes]) -> None:
    """No process of the group outlives this, whether its leader ended or not. A child that left it by setsid does."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)


def _step(line: bytes) -> int | None:
    try:
        step = json.loads(line)["step"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise MalformedRecord("A line of the transcript is malformed.") from error
    return step if isinstance(step, int) else None
