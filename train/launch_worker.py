"""One process of a launch: it joins the others, trains the window of steps with them, and keeps states with them.

Run as ``python -m train.launch_worker PLAN --coordinator HOST:PORT --process I --output FOLDER`` in the run's folder.
The first process writes the transcript and checkpoints of gathered arrays (``gathered/``, by one); every process writes
its own shards of the same state (``sharded/``, by all). Started again, it goes on from the last gathered state, and
does nothing where all steps are done. What JAX reports of devices and of other processes, and a disk that fails, is an
outside failure (3), so that a watchdog starts it again. Refuses parents that no transcript tells the step of.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from registry.core import transcript
from registry.errors import DoesNotHold, OutsideFailed, ReckonError, Refused
from train.determinism import Determinism
from train.launch_spec import Spec, read_spec

if TYPE_CHECKING:
    from levanter.trainer_state import TrainerState

    from train.engine import Engine

# Flags of XLA beside those of the settings, for a cluster's devices.
FLAGS: Final = "RECKON_XLA_FLAGS"
RESULT: Final = "result.json"


def main(arguments: list[str]) -> None:
    """Be the process that the arguments say."""
    parser = argparse.ArgumentParser(prog="python -m train.launch_worker", description="One process of a launch.")
    parser.add_argument("plan", type=Path)
    parser.add_argument("--coordinator")
    parser.add_argument("--process", type=int, default=0)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--begin", type=Path, help="Folder of a gathered state to begin from, not the plan's parent.")
    parser.add_argument("--until", type=int, help="Stop after this step.")
    read = parser.parse_args(arguments)
    try:
        spec = read_spec(read.plan)
        until = read.until or spec.last_step
        begin = read.begin or spec.parent
        if reached(read.output) != until:
            _join(spec, read.coordinator, read.process)
            train(spec, begin, until, read.output)
    except ReckonError as error:
        sys.stderr.write(f"process {read.process}: {error}\n")
        raise SystemExit(error.exit_code) from error
    except OSError as error:
        sys.stderr.write(f"process {read.process}: {error}\n")
        raise SystemExit(OutsideFailed.exit_code) from error


def reached(output: Path) -> int | None:
    """The last step whose state and transcript lie whole under ``output``; None when there is none."""
    path = output / RESULT
    return int(json.loads(path.read_bytes())["step"]) if path.is_file() else None


def _join(spec: Spec, coordinator: str | None, process: int) -> None:
    """Make the settings that change bits, then meet the other processes."""
    settings = Determinism.from_settings(spec.plan().sections["determinism"])
    flags = (*settings.xla_flags, *os.environ.get(FLAGS, "").split())
    dataclasses.replace(settings, platform=spec.platform, devices=spec.devices_per_process, xla_flags=flags).apply()
    import jax

    if spec.processes > 1:
        if coordinator is None:
            raise Refused("Several processes need a coordinator.", remedy="Give --coordinator HOST:PORT.")
        with _outside():
            jax.distributed.initialize(coordinator, num_processes=spec.processes, process_id=process)


@contextmanager
def _outside() -> Iterator[None]:
    """Raises ``OutsideFailed`` for what JAX says of a device, a network or another process."""
    import jax

    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        raise OutsideFailed(f"A device or another process failed: {str(error)[:800]}") from error


def train(spec: Spec, begin: Path | None, until: int, output: Path) -> None:
    """Train from ``begin`` (None: fresh) to the step ``until`` and keep what came of it under ``output``.

    Goes on from the last gathered state under ``output`` where there is one. Raises ``OutsideFailed`` when the
    processes do not all see the same one there.
    """
    import jax

    from train.launch_layout import LaidOutEngine
    from train.launch_states import gathered, placed, save_sharded

    engine = LaidOutEngine(spec.plan(), layout=spec.layout)
    first, every = jax.process_index() == 0, int(spec.facts["window"]["keep_every_steps"])
    output.mkdir(parents=True, exist_ok=True)
    begin, lines = _latest(output, begin)
    if first:
        _drop_unfinished(output, lines[-1].step if lines else 0)
    with engine.mesh(), _outside():
        state = engine.fresh() if begin is None else placed(engine, begin)
        for line, after in _steps(engine, state, until, begin, lines):
            lines.append(line)
            if first:
                _write(output / "transcript.jsonl", lines)
            if line.step % every == 0 or line.step == until:
                save_sharded(after, line.step, output / "sharded" / f"step-{line.step}")
                whole = gathered(after)
                if first:
                    _keep(whole, output, line.step, spec)
    if first and reached(output) != until:  # it was ended between the state and what is told of it
        _tell(output, until, spec)


def _latest(output: Path, begin: Path | None) -> tuple[Path | None, list[transcript.Line]]:
    """The newest gathered state that the transcript tells, with the lines up to it; else the begin that was given."""
    path = output / "transcript.jsonl"
    told = transcript.parse(path.read_bytes()).lines if path.is_file() else ()
    for line in reversed(told):
        folder = output / "gathered" / f"step-{line.step}"
        if folder.is_dir():
            return folder, [one for one in told if one.step <= line.step]
    return begin, []


def _drop_unfinished(output: Path, step: int) -> None:
    """Remove shards of steps whose gathered state was never finished: all processes write them anew."""
    for folder in (output / "sharded").glob("step-*"):
        if int(folder.name.removeprefix("step-")) > step:
            shutil.rmtree(folder)


def _steps(
    engine: Engine, state: TrainerState, until: int, begin: Path | None, before: list[transcript.Line]
) -> Iterator[tuple[transcript.Line, TrainerState]]:
    """Each step's line of the transcript and the state after it."""
    import jax
    import numpy as np
    from jax.experimental import multihost_utils

    from train import fingerprint
    from train.launch_states import batches, bits, gathered

    step = int(gathered(state.step))
    told = multihost_utils.process_allgather(np.asarray([len(before)]))
    if len(set(told.ravel().tolist())) > 1:
        raise OutsideFailed(
            "The processes do not see the same transcript.", remedy="Give all of them one folder for the output."
        )
    order = before[-1].order if before else _order_before(engine, begin, step)
    for number, (tokens, ids, host) in enumerate(batches(engine, step, until), start=step + 1):
        state, stepped = engine.step(state, tokens)
        order = transcript.chain(order, ids, host)
        told = jax.device_get(gathered(stepped))
        yield (
            transcript.Line(
                step=number,
                loss=bits(told.loss),
                gradient_norm=bits(told.gradient_norm),
                order=order,
                state=fingerprint.text(told.lanes),
            ),
            state,
        )


def _order_before(engine: Engine, begin: Path | None, step: int) -> str:
    """The order digest at the beginning: of the data's facts, or of the parent's last line."""
    if begin is None:
        if step:
            raise DoesNotHold(f"Fresh parameters are of step 0, not {step}.")
        return engine.order.genesis
    for folder in (begin.parent, begin.parent.parent):
        path = folder / "transcript.jsonl"
        line = transcript.parse(path.read_bytes()).at(step) if path.is_file() else None
        if line is not None:
            return line.order
    raise Refused(f"No transcript beside {begin} tells step {step}.", remedy="Pull the parent with its transcript.")


def _keep(state: Any, output: Path, step: int, spec: Spec) -> None:
    """The gathered state as one file, and what it is."""
    from train.checkpoint import save_state

    folder = output / "gathered" / f"step-{step}"
    folder.parent.mkdir(exist_ok=True)
    save_state(state, folder)
    _tell(output, step, spec)


def _tell(output: Path, step: int, spec: Spec) -> None:
    """What the gathered state of a step is: from its bytes."""
    from train.checkpoint import checkpoint_root

    folder = output / "gathered" / f"step-{step}"
    told = {"step": step, "root": str(checkpoint_root(folder)), "processes": spec.processes, "mesh": dict(spec.mesh)}
    aside = (output / RESULT).with_suffix(".partial")
    aside.write_text(json.dumps(told, sort_keys=True) + "\n", encoding="utf-8")
    aside.replace(output / RESULT)


def _write(path: Path, lines: list[transcript.Line]) -> None:
    aside = path.with_suffix(".partial")
    aside.write_bytes(b"".join(transcript.line(line) for line in lines))
    aside.replace(path)


if __name__ == "__main__":
    main(sys.argv[1:])
