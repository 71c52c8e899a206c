"""W&B: the history in a run's own log (``run-ID.wandb``) on this disk, through W&B's own reader.

The reader (``wandb leet inspect``) runs in a process of its own, offline, with a time limit, in a folder of its own. It
checks the checksums of the log and skips what fails them; that, and a log that ends in the middle, come back as damage.
Refuses files over a size limit, folders without exactly one log, and files that are no W&B log.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, TypeVar

from registry.core.adopted.foreign import read_json
from registry.core.canonical import Json
from registry.core.history import Copy, Fidelity, History
from registry.core.names import checked_path
from registry.core.pointers import scrubbed
from registry.errors import DoesNotHold, MalformedRecord, OutsideFailed, UnknownName

T = TypeVar("T")
_MAXIMUM_BYTES = 8 * 2**30
_MAXIMUM_LINE_BYTES = 64 * 2**20
_SECONDS = 300.0
_READER = ["-P", "-m", "wandb", "leet", "inspect", "--json"]
_HISTORY = b'"type":"history"'
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_COMPLAINT = "wandb leet inspect:"


class WandbFiles:
    """Logs under the repository ``root``."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()

    def read(self, location: str) -> Copy:
        """The history of the log at ``location``, without the sign of zero, which its JSON does not keep."""
        history, damage = self._inspect(location, lambda lines: History.of(_points(lines)))
        return Copy(history=history, fidelity=Fidelity.JSON, damage=damage)

    def facts(self, location: str) -> Mapping[str, Json]:
        """What the log tells of its run beside the history: project, name, settings, commit and how it ended."""
        return self._inspect(location, _told)[0]

    def _inspect(self, location: str, gather: Callable[[IO[bytes]], T]) -> tuple[T, tuple[str, ...]]:
        """What ``gather`` makes of the reader's lines, and the damage that the reader tells of."""
        log = self._log(location)
        command = [sys.executable, *_READER, str(log)]
        if find_spec("wandb") is None:
            raise OutsideFailed("wandb is not installed.", remedy="Install deadreckon with its extra 'lab'.")
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as complaints:
            status, gathered = _run(command, Path(folder), complaints, gather)
            complaints.seek(0)
            said = complaints.read(_MAXIMUM_LINE_BYTES).decode("utf-8", "replace").splitlines()
        if status != 0:
            reason = scrubbed(next((line for line in said if line.strip()), f"status {status}"))
            raise DoesNotHold(
                f"{location} is not a W&B log that can be read: {reason}.", remedy="It is a copy; the history is ours."
            )
        damage = tuple(scrubbed(line.removeprefix(_COMPLAINT)) for line in said if line.startswith(_COMPLAINT))
        return gathered, damage

    def _log(self, location: str) -> Path:
        place = self._root / checked_path(location)
        logs = sorted(place.glob("run-*.wandb")) if place.is_dir() else [place]
        if len(logs) != 1 or not logs[0].is_file():
            raise UnknownName(
                f"There is no W&B log at {location}.",
                remedy="It lies where the run was made; nothing is lost without it.",
            )
        log = logs[0].resolve()
        if not log.is_relative_to(self._root) or log.suffix != ".wandb" or log.stat().st_size > _MAXIMUM_BYTES:
            raise DoesNotHold(f"{location} is not a W&B log inside this repository of at most {_MAXIMUM_BYTES} bytes.")
        return log


def _run(command: list[str], folder: Path, complaints: IO[bytes], gather: Callable[[IO[bytes]], T]) -> tuple[int, T]:
    """Run the reader in ``folder`` and gather what it writes. Its exit status and what was gathered."""
    location = Path(command[-1]).name
    settings = {"WANDB_MODE": "offline", "WANDB_ERROR_REPORTING": "false", "WANDB_DIR": str(folder)}
    with subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, **settings},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=complaints,
        start_new_session=True,
    ) as reader:
        timer = threading.Timer(_SECONDS, _kill, (reader.pid,))
        timer.start()
        try:
            gathered = gather(reader.stdout or io.BytesIO())
            status = reader.wait()
        except (MalformedRecord, ValueError, OverflowError, RecursionError) as error:
            _kill(reader.pid)
            raise DoesNotHold(f"What W&B's reader says of {location} is no history: {error}.") from error
        finally:
            timer.cancel()
    if status == -signal.SIGKILL:
        raise OutsideFailed(f"W&B's reader did not finish {location} in {_SECONDS:.0f} seconds.")
    return status, gathered


def _kill(pid: int) -> None:
    """End the reader and the program that it starts: they are a session of their own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _lines(stream: IO[bytes], wanted: bytes) -> Iterator[bytes]:
    """The records of one type. Raises ``MalformedRecord`` for a line without an end."""
    while line := stream.readline(_MAXIMUM_LINE_BYTES):
        if not line.endswith(b"\n"):
            raise MalformedRecord("a line has no end")
        if wanted in line[:64]:
            yield line


def _told(stream: IO[bytes]) -> Mapping[str, Json]:
    """Project, name, settings, commit and ending, as far as the log tells them; places and hosts are left out."""
    found: dict[str, Json] = {}
    for line in _lines(stream, b'"type":"'):
        kind = next((kind for kind in _KINDS if f'"type":"{kind}"'.encode() in line[:64]), None)
        record = read_json(line, "a record of the log") if kind is not None else None
        inner = record.get(kind) if isinstance(record, Mapping) and kind is not None else None
        if isinstance(inner, Mapping) and kind is not None:
            found.update(_KINDS[kind](inner))
    return found


def _of_run(record: Mapping[str, Json]) -> Mapping[str, Json]:
    config = _inside(record, "config", "update")
    settings = {key: one for key, one in config.items() if not key.startswith("_")}
    return {"project": record.get("project"), "display_name": record.get("display_name"), "config": settings}


def _of_environment(record: Mapping[str, Json]) -> Mapping[str, Json]:
    commit = _inside(record, "git").get("commit")
    return {"commit": commit} if isinstance(commit, str) else {}


def _of_exit(record: Mapping[str, Json]) -> Mapping[str, Json]:
    return {"state": "FINISHED" if record.get("exit_code", 0) == 0 else "FAILED"}


def _inside(record: Mapping[str, Json], *path: str) -> Mapping[str, Json]:
    for key in path:
        inner = record.get(key)
        record = inner if isinstance(inner, Mapping) else {}
    return record


_KINDS: Mapping[str, Callable[[Mapping[str, Json]], Mapping[str, Json]]] = {
    "run": _of_run,
    "environment": _of_environment,
    "exit": _of_exit,
}


def _points(stream: IO[bytes]) -> Iterator[tuple[int, str, float]]:
    """Step, metric and value of every number in the history records. W&B's own keys begin with an underscore."""
    for line in _lines(stream, _HISTORY):
        item, step = _item(json.loads(line))
        for metric, said in item.items():
            value = _number(said)
            if value is not None and not metric.startswith("_"):
                yield step, metric, value


def _item(record: Any) -> tuple[Mapping[str, object], int]:
    history = record.get("history") if isinstance(record, dict) else None
    item = history.get("item") if isinstance(history, dict) else None
    step = item.get("_step") if isinstance(item, dict) else None
    if not isinstance(item, dict) or not isinstance(step, int):
        raise MalformedRecord("a history record has no items or no step")
    return item, step


def _number(said: object) -> float | None:
    if isinstance(said, str):
        return _SPECIAL.get(said)
    return float(said) if isinstance(said, int | float) and not isinstance(said, bool) else None
