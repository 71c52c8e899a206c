"""A training stage from its plan to its outputs: begin or resume, train, evaluate, write, publish.

``begin`` needs no JAX, so the run log tells the attempt before anything slow happens. Refuses to begin anew where it
should go on, and a restored state whose fingerprint is not the one that its transcript tells.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from registry.core.runlog import Incident
from registry.core.transcript import Line
from registry.errors import DoesNotHold
from train import scratch as scratches
from train.attempt import Attempt, environment
from train.determinism import Determinism
from train.plan import Plan
from train.proof import Parent
from train.scratch import Resume, Scratch
from train.settings import texts

if TYPE_CHECKING:
    from levanter.trainer_state import TrainerState

    from train.engine import Engine
    from train.loop import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where an attempt starts: fresh, from its parent, or from a state that an earlier attempt left."""

    plan: Plan
    parent: Parent | None
    scratch: Scratch
    resume: Resume | None

    @property
    def step(self) -> int:
        """Completed steps at the start."""
        return self.plan.first_step if self.resume is None else self.resume.step


def train(plan: Plan, attempt: Attempt, parent: Parent | None = None, *, careful: bool = False) -> None:
    """Do the whole stage. ``careful`` refuses to begin anew beside an unfinished run of another recipe."""
    start = begin(plan, attempt, parent, careful=careful)
    if start.scratch.finished:
        sys.stderr.write(f"{plan.stage}: all outputs are there already; putting them in their place\n")
        attempt.step = start.step
    else:
        start.scratch.own(attempt.name)
        _trained(start, attempt)
    start.scratch.publish()
    attempt.finish()
    start.scratch.remove()


def begin(plan: Plan, attempt: Attempt, parent: Parent | None, *, careful: bool) -> Start:
    """Make the settings that change bits, find out where to start, and tell both in the run log."""
    determinism = Determinism.from_settings(plan.sections["determinism"]).apply()
    domains = texts(plan.sections["order"], "components")
    inputs = scratches.input_digests(domains, None if parent is None else str(parent.root))
    scratch = scratches.scratch(plan.stage, plan.declared, inputs)
    if careful:
        scratches.refuse_others(scratch)
    resume = scratch.latest()
    attempt.start(
        plan.declared,
        determinism=determinism,
        resumed=None if resume is None else {"attempt": resume.attempt, "step": resume.step},
        parent=None if parent is None else parent.facts,
    )
    return Start(plan=plan, parent=parent, scratch=scratch, resume=resume)


def _trained(start: Start, attempt: Attempt) -> None:
    """Train and write all outputs into the scratch folder. Everything slow to import is imported here."""
    from train import outputs
    from train.engine import Engine

    engine = Engine(start.plan)
    with engine.mesh(), _running(start, attempt, engine) as run:
        attempt.tell(environment())
        run.train()
        losses = engine.evaluate(run.state)
        run.trackers.log({f"heldout/{name}": one.loss for name, one in losses.items()}, run.step)
        run.trackers.history.sync()
        outputs.write(run, start.parent, losses)


@contextmanager
def _running(start: Start, attempt: Attempt, engine: Engine) -> Iterator[Run]:
    """The run with its writers open; timings and trackers are closed whatever happens."""
    from train.history import cut
    from train.loop import Run
    from train.timings import Timings
    from train.tracking import Trackers
    from train.transcribing import open_transcript

    scratch = start.scratch
    cut(scratch.metrics, start.step)
    last = None if start.parent is None else start.parent.last
    writer, reached = open_transcript(scratch.work / "transcript.jsonl", step=start.step, before=last)
    _tell_restart(start, attempt, reached)
    trackers = Trackers(attempt, scratch.metrics, start.plan.declared, start.plan.run)
    timings = Timings()
    try:
        state = _state(start, engine, writer.last)
        yield Run(
            engine=engine,
            attempt=attempt,
            scratch=scratch,
            trackers=trackers,
            transcript=writer,
            timings=timings,
            state=state,
            step=start.step,
        )
    finally:
        trackers.finish()
        with suppress(OSError):
            writer.close()
            timings.write(attempt.folder / "timings.parquet")


def _state(start: Start, engine: Engine, last: Line | None) -> TrainerState:
    """The state to start from.

    Raises ``DoesNotHold`` for a restored one that is not of the step, or has not the fingerprint, that ``last`` tells.
    """
    from train.checkpoint import host_leaves
    from train.fingerprint import of_arrays, text

    folder = start.resume.folder if start.resume else start.parent.folder if start.parent else None
    if folder is None:
        return engine.fresh()
    state = engine.restored(folder)
    arrays = host_leaves(state)
    step, found = int(arrays["step"]), text(of_arrays(arrays))
    if last is None or (step, found) != (last.step, last.state):
        told = "nothing" if last is None else f"step {last.step} and {last.state}"
        raise DoesNotHold(
            f"The state in {folder} is of step {step} with the fingerprint {found}, but its transcript tells {told}.",
            remedy="One of them was altered. Remove the stage's scratch folder to begin anew.",
        )
    return state


def _tell_restart(start: Start, attempt: Attempt, reached: int) -> None:
    if start.resume is None:
        return
    words = (
        f"The attempt before this one ended after step {reached}; this one goes on from step {start.resume.step}, "
        f"kept by {start.resume.attempt}."
    )
    attempt.tell(Incident(incident="restart", first_step=start.resume.step, last_step=reached, text=words))
