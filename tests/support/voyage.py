"""The stage program of the toy archive: what ``train.*`` is to the real one, in the standard library.

``python -m train.voyage STAGE`` in a toy repository, or :class:`Voyage` in a test. It writes outputs and a run log and
never a record. Stages: ``chart`` (text), ``plot/east`` and ``plot/west`` (from the chart), ``note`` (one file),
``leg/1`` and ``leg/2`` (steps with kept checkpoints; the second begins from the first), ``hull`` (an export of it).
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import socket
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from secrets import token_hex

import yaml

from registry.core import canonical, runlog
from registry.core.pipeline import decimals, lookup

KEEP_EVERY = 2


class Killed(BaseException):
    """The process dies here, without a word."""


@dataclass(kw_only=True)
class Voyage:
    """One attempt of one stage in the repository at ``root``. ``stop_after`` steps it dies, or fails if ``failing``."""

    root: Path
    stage: str
    attempt: str = ""
    host: str = ""
    numerics: dict[str, str | None] | None = None
    time: list[str] = field(default_factory=list)
    stop_after: int | None = None
    failing: bool = False
    step: int | None = None

    def sail(self) -> None:
        """Run the stage. Raises ``Killed`` or ``RuntimeError`` when told to stop."""
        self.host = self.host or socket.gethostname()
        self.attempt = self.attempt or f"{datetime.now(UTC):%Y%m%dt%H%M%Sz}-{token_hex(4)}"
        kind, _, item = self.stage.partition("/")
        self._tell_start()
        try:
            getattr(self, f"_{kind}")(item)
        except Exception as error:
            cause = {"error": type(error).__name__, "message": str(error)}
            self._tell(runlog.Finished(time=self._now(), outcome=runlog.Outcome.FAILED, cause=cause, step=self.step))
            raise
        self._tell(runlog.Finished(time=self._now(), outcome=runlog.Outcome.COMPLETE, cause=None, step=self.step))

    @property
    def log(self) -> Path:
        return self.root / "artifacts/runs" / self.stage / self.attempt / "run.jsonl"

    @property
    def out(self) -> Path:
        return self.root / "artifacts" / self.stage

    @property
    def scratch(self) -> Path:
        return self.root / "artifacts/scratch" / self.stage

    def _chart(self, _: str) -> None:
        lines = self._params()["chart"]["lines"]
        for side in ("east", "west"):
            text = "".join(f"{side} {number * 7919 % 997}\n" for number in range(lines))
            _write(self.out / side / "text.txt", text.encode())
        self._fail_if_told()

    def _plot(self, item: str) -> None:
        text = (self.root / "artifacts/chart" / item / "text.txt").read_text()
        numbers = [int(line.split()[1]) for line in text.splitlines()]
        _write(self.out / "points.bin", struct.pack(f"<{len(numbers)}I", *numbers))
        self._fail_if_told()

    def _note(self, _: str) -> None:
        _write(self.root / "artifacts/note.json", canonical.encode(self._params()["note"]))
        self._fail_if_told()

    def _hull(self, _: str) -> None:
        (last,) = (self.root / "artifacts/leg/2/checkpoints").glob("step-*")
        _write(self.out / "model.safetensors", (last / "state.safetensors").read_bytes())
        _write(self.out / "config.json", b"{}\n")
        self._fail_if_told()

    def _leg(self, item: str) -> None:
        settings = self._params()["legs"][item]
        first, state = self._beginning()
        shutil.rmtree(self.out, ignore_errors=True)
        shutil.copytree(self.scratch, self.out) if self.scratch.exists() else self.out.mkdir(parents=True)
        for step in range(first, settings["last"]):
            if self.stop_after is not None and step >= self.stop_after:
                self._stop()
            state = [value * settings["pull"] % 97 + step for value in state]
            self.step = step + 1
            with (self.out / "transcript.jsonl").open("ab") as file:
                file.write(canonical.encode({"step": self.step, "sum": sum(state)}) + b"\n")
            if self.step % KEEP_EVERY == 0:
                self._keep(state)
        shutil.rmtree(self.scratch, ignore_errors=True)

    def _keep(self, state: list[int]) -> None:
        """A kept checkpoint, and the scratch copy that a next attempt resumes from."""
        folder = self.out / f"checkpoints/step-{self.step}"
        _write(folder / "state.safetensors", safetensors(state))
        _write(folder / "checkpoint.json", canonical.encode({"schema": 1, "completed_steps": self.step}))
        shutil.rmtree(self.scratch, ignore_errors=True)
        shutil.copytree(self.out, self.scratch)
        (self.scratch / "attempt").write_text(self.attempt)
        self._tell(runlog.Checkpoint(step=self.step, location=folder.relative_to(self.root).as_posix()))

    def _beginning(self) -> tuple[int, list[int]]:
        """The step and state to begin from: scratch of a killed attempt, else the parent's checkpoint, else nothing."""
        resumed, parent = self._resumed(), self._parent()
        if resumed is not None:
            return resumed["step"], _state(self.scratch / f"checkpoints/step-{resumed['step']}")
        if parent is not None:
            return parent["step"], _state(self.root / f"artifacts/leg/1/checkpoints/step-{parent['step']}")
        return 0, [1, 2, 3, 4, 5, 6]

    def _resumed(self) -> dict | None:
        kept = [int(folder.name[5:]) for folder in self.scratch.glob("checkpoints/step-*")]
        return {"attempt": (self.scratch / "attempt").read_text(), "step": max(kept)} if kept else None

    def _parent(self) -> dict | None:
        begun = self._params()["legs"].get(self.stage[4:], {}) if self.stage.startswith("leg/") else {}
        if not begun.get("from", "").startswith("artifacts/leg/1/checkpoints/"):
            return None
        return {
            "name": "leg/1",
            "step": int(begun["from"].rpartition("-")[2]),
            "root": str(root_of(self.root / begun["from"])),
        }

    def _stop(self) -> None:
        self._fail_if_told()
        raise Killed

    def _fail_if_told(self) -> None:
        if self.failing:
            raise RuntimeError("the mast broke")

    def _tell_start(self) -> None:
        settings = self._settings()
        numerics = self.numerics if self.numerics is not None else _numerics()
        determinism = {**settings["determinism"], **numerics} if "determinism" in settings else {}
        self._tell(
            runlog.Started(
                stage=self.stage,
                attempt=self.attempt,
                time=self._now(),
                pid=os.getpid(),
                host=self.host,
                argv=("python", "-m", "train.voyage", self.stage),
                settings=settings,
                determinism=determinism,
                resumed=self._resumed(),
                parent=self._parent(),
            )
        )
        self._tell(
            runlog.Environment(
                distributions=({"name": "sextant", "version": "1.0", "record": "sha256:" + "7" * 64},),
                python="3.11.7",
                platform={"machine": "x86_64"},
                accelerator={"kind": "cpu"},
            )
        )
        self._tell(
            runlog.Tracker(
                system="wandb", state=runlog.TrackerState.OFFLINE, run_id="abc", location="wandb/run-abc", reason=None
            )
        )

    def _tell(self, event: runlog.Event) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as file:
            file.write(runlog.line(event))

    def _now(self) -> str:
        return self.time.pop(0) if self.time else f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"

    def _params(self) -> dict:
        return yaml.safe_load((self.root / "params.yaml").read_text())

    def _settings(self) -> dict:
        kind, _, item = self.stage.partition("/")
        keys = {"leg": ("determinism", f"legs.{item}"), "hull": ()}.get(kind, (kind,))
        return {key: decimals(lookup(self._params(), key)) for key in keys}


def safetensors(state: list[int]) -> bytes:
    """Three tensors of a state in the container's format: the same state, the same bytes."""
    header, data = {}, b""
    for name, dtype, shape, values in _tensors(state):
        packed = struct.pack(f"<{len(values)}{'f' if dtype == 'F32' else 'i'}", *values)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def root_of(folder: Path) -> object:
    """The tensor root of a kept checkpoint, from its bytes."""
    from registry.core.tensors import TensorSpec, leaf_of, tensor_root

    data = (folder / "state.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    kinds = {"F32": "float32", "I32": "int32"}
    leaves = []
    for name, told in json.loads(data[8 : 8 + length]).items():
        begin, end = (8 + length + offset for offset in told["data_offsets"])
        spec = TensorSpec(name=name, dtype=kinds[told["dtype"]], shape=tuple(told["shape"]))
        leaves.append(leaf_of(spec, data[begin:end]))
    return tensor_root(leaves)


def _tensors(state: list[int]) -> Iterator[tuple[str, str, list[int], list[int]]]:
    yield "model/keel", "F32", [2, 2], state[:4]
    yield "model/mast", "F32", [2], state[4:]
    yield "opt_state/count", "I32", [], [len(state)]


def _state(folder: Path) -> list[int]:
    data = (folder / "state.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    return [int(value) for value in struct.unpack("<6f", data[8 + length : 8 + length + 24])]


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _numerics() -> dict[str, str | None]:
    def installed(name: str) -> str | None:
        try:
            return version(name)
        except PackageNotFoundError:
            return None

    names = ("jax", "jaxlib", "marin-levanter")
    return {"machine": platform.machine(), **{name: installed(name) for name in names}}


if __name__ == "__main__":
    Voyage(root=Path.cwd(), stage=sys.argv[1]).sail()
