"""The stage program of the archive in ``hauled``: a training stage in the standard library, as quick as it is plain.

``python -m train.windlass STAGE``. ``rope`` writes a text; ``haul/1`` and ``haul/2`` train on it in steps, with a
transcript, kept checkpoints, scratch to go on from, and an end when it is asked to stop. Arithmetic depends on
``determinism.nproc`` from step 4 on, as a real one depends on its thread pool.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import struct
import sys
import time
from datetime import UTC, datetime
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import machine, python_version
from secrets import token_hex

import yaml

from registry.core import canonical, runlog, transcript
from registry.core.pipeline import decimals, lookup
from registry.core.tensors import TensorSpec, leaf_of, tensor_root

PULL = 3.0
KEEP_EVERY = 3
RUNS, SCRATCH = Path("artifacts/runs"), Path("artifacts/scratch")


def main(stage: str) -> None:
    params = yaml.safe_load(Path("params.yaml").read_text())
    kind, _, item = stage.partition("/")
    keys = {"haul": ("determinism", f"hauls.{item}")}.get(kind, (kind,))
    attempt = f"{datetime.now(UTC):%Y%m%dt%H%M%Sz}-{token_hex(4)}"
    log = RUNS / stage / attempt / "run.jsonl"
    settings = {key: decimals(lookup(params, key)) for key in keys}
    parent = _parent(settings.get(f"hauls.{item}", {}))
    scratch = SCRATCH / stage / sha256(canonical.encode(settings)).hexdigest()[:12]
    found = sorted(int(one.name[5:]) for one in scratch.glob("states/step-*"))
    owners = scratch / "owners.json"
    resumed = {"attempt": json.loads(owners.read_text())["last"], "step": found[-1]} if found else None
    log.parent.mkdir(parents=True)
    _tell(log, _started(stage, attempt, settings, (resumed, parent)))
    _tell(log, _environment())
    witness = os.environ.get("WINDLASS_RUNS")
    if witness:
        with Path(witness).open("a") as file:
            file.write(f"{stage} {attempt}\n")
    try:
        step = _rope(params) if kind == "rope" else _haul(stage, (scratch, attempt), settings, (resumed, parent))
    except SystemExit:
        stopped = {"error": "Stopped", "message": "it was asked to stop"}
        step = len(transcript.parse((scratch / "work/transcript.jsonl").read_bytes()).lines)
        step += parent["step"] if parent else 0
        _tell(log, runlog.Finished(time=_now(), outcome=runlog.Outcome.FAILED, cause=stopped, step=step))
        raise
    _tell(log, runlog.Finished(time=_now(), outcome=runlog.Outcome.COMPLETE, cause=None, step=step))


def _rope(params: dict) -> None:
    out = Path("artifacts/rope")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / "rope.txt").write_text("fathom\n" * params["rope"]["fathoms"])


def _haul(stage: str, place: tuple, settings: dict, begun: tuple) -> int:
    (scratch, attempt), (resumed, parent) = place, begun
    mine = settings[f"hauls.{stage.partition('/')[2]}"]
    work, first = scratch / "work", parent["step"] if parent else 0
    for folder in (scratch / "states", work / "checkpoints"):
        folder.mkdir(parents=True, exist_ok=True)
    (scratch / "owners.json").write_text(json.dumps({"last": attempt}))
    time.sleep(0.1)
    step, state = first, [1.0, 2.0, 3.0, 4.0]
    if parent is not None:
        state = _state(Path(f"artifacts/{parent['name']}/checkpoints/step-{first}"))
    lines = work / "transcript.jsonl"
    if resumed is not None:
        step, state = resumed["step"], _state(scratch / f"states/step-{resumed['step']}")
        assert transcript.parse(lines.read_bytes()).last == step
    asked = []
    signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    skew = (settings["determinism"]["nproc"] - 2) * 1e-3
    fathoms = len(Path("artifacts/rope/rope.txt").read_text().splitlines())
    order = sha256(b"rope").hexdigest()
    with lines.open("ab") as file:
        for number in range(first + 1, mine["last"] + 1):
            order = transcript.chain(order, bytes([number % 256]), bytes([number % 256]))
            if number <= step:
                continue
            state = [value * PULL % 97 + fathoms + (skew if number > 3 else 0.0) for value in state]
            loss = transcript.bits(3.0 + state[0] / 1000)
            told = sha256(struct.pack("<4d", *state)).hexdigest()[:16]
            file.write(
                transcript.line(transcript.Line(step=number, loss=loss, gradient_norm=loss, order=order, state=told))
            )
            file.flush()
            if number % KEEP_EVERY == 0 or number == mine["last"]:
                _keep(work / f"checkpoints/step-{number}", state, number)
            time.sleep(mine["pace"] / 1000)
            if asked:
                sys.exit(3)
    evaluation = {"macro": {"loss": f"{3 + state[0] / 1000:.6f}"}, "step": mine["last"]}
    (work / "evaluation.json").write_bytes(canonical.encode(evaluation) + b"\n")
    out = Path("artifacts") / stage
    shutil.rmtree(out, ignore_errors=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    work.rename(out)
    shutil.rmtree(scratch)
    return mine["last"]


def _keep(folder: Path, state: list[float], step: int) -> None:
    folder.mkdir(parents=True)
    data = struct.pack("<4d", *state)
    header = {
        "model/drum": {"dtype": "F64", "shape": [3], "data_offsets": [0, 24]},
        "model/pawl": {"dtype": "F64", "shape": [], "data_offsets": [24, 32]},
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    (folder / "state.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "checkpoint.json").write_bytes(canonical.encode({"completed_steps": step}))


def _state(folder: Path) -> list[float]:
    return list(struct.unpack("<4d", (folder / "state.safetensors").read_bytes()[-32:]))


def _parent(mine: dict) -> dict | None:
    named = mine.get("parent")
    if named is None:
        return None
    stage, _, step = named.partition("@step-")
    drum, pawl = (
        leaf_of(TensorSpec(name=name, dtype="float64", shape=shape), data)
        for name, shape, data in _tensors(Path(f"artifacts/{stage}/checkpoints/step-{step}"))
    )
    return {"name": stage, "step": int(step), "root": str(tensor_root([drum, pawl]))}


def _tensors(folder: Path) -> list:
    data = (folder / "state.safetensors").read_bytes()[-32:]
    return [("model/drum", (3,), data[:24]), ("model/pawl", (), data[24:])]


def _started(stage: str, attempt: str, settings: dict, begun: tuple) -> runlog.Started:
    numerics = {"machine": machine(), **{name: _version(name) for name in ("jax", "jaxlib", "marin-levanter")}}
    return runlog.Started(
        stage=stage,
        attempt=attempt,
        time=_now(),
        pid=os.getpid(),
        host=socket.gethostname(),
        argv=tuple(sys.orig_argv[1:]),
        settings=settings,
        determinism={**settings["determinism"], **numerics} if "determinism" in settings else {},
        resumed=begun[0],
        parent=begun[1],
    )


def _environment() -> runlog.Environment:
    told = ({"name": "pyyaml", "version": _version("pyyaml"), "record": None},)
    return runlog.Environment(
        distributions=told, python=python_version(), platform={"machine": machine()}, accelerator={"kind": "none"}
    )


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _tell(log: Path, event: runlog.Event) -> None:
    with log.open("ab") as file:
        file.write(runlog.line(event))


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


if __name__ == "__main__":
    main(sys.argv[1])
