"""The loop of a segment: steps, transcript, trackers, states and what interrupts them.

A completed step is told in the transcript and to the trackers before the next one begins. A state is written only after
everything about its step is durable, so whatever a kill leaves, a resume continues from a consistent point. Ends early,
with an incident and a state to resume from, when the process is asked to stop; at once when a number is none.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import jax
import numpy as np
from levanter.trainer_state import TrainerState

from registry.core import transcript
from registry.core.runlog import Checkpoint, Incident
from registry.errors import DoesNotHold, OutsideFailed
from train import fingerprint
from train.attempt import Attempt
from train.checkpoint import save_state
from train.engine import Batch, Engine
from train.incidents import Watch, require_finite
from train.scratch import Scratch
from train.settings import mapping, whole
from train.step import Stepped
from train.timings import Timings
from train.tracking import Trackers
from train.transcribing import TranscriptWriter

_TALK_SECONDS = 10.0


class Stopped(OutsideFailed):
    """The process was asked to stop."""


@dataclass(slots=True, kw_only=True)
class Run:
    """What a loop writes to, and the state that it changes."""

    engine: Engine
    attempt: Attempt
    scratch: Scratch
    trackers: Trackers
    transcript: TranscriptWriter
    timings: Timings
    state: TrainerState
    step: int
    asked: list[int] = field(default_factory=list)
    _spoken: float = 0.0

    def train(self) -> None:
        """Train to the last step of the plan. Raises ``Stopped`` and ``Diverged``."""
        plan = self.engine.plan
        training = plan.sections["training"]
        every = whole(training, "scratch_every_steps", least=1)
        watch = Watch.from_settings(mapping(training, "incidents"))
        batches = self.engine.batches(self.step)
        with _asked_to_stop(self.asked):
            batch: Batch | None = next(batches)
            while self.step < plan.last_step:
                if batch is None:
                    raise DoesNotHold(f"The data ended after step {self.step} of {plan.last_step}.")
                batch = self._advance(batch, batches, watch)
                if self.step in plan.kept:
                    self._keep(output=True)
                elif self.step % every == 0:
                    self._keep(output=False)
                if self.asked:
                    self._stop()

    def _advance(self, batch: Batch, batches: Iterator[Batch], watch: Watch) -> Batch | None:
        """One step, and everything that is told about it. The next batch is fetched while the device computes."""
        began = time.perf_counter()
        self.state, stepped = self.engine.step(self.state, batch.tokens)
        fed = _order(self.transcript.last, self.engine, batch)
        following = next(batches, None)
        told: Stepped = jax.device_get(stepped)
        seconds = time.perf_counter() - began
        step, loss, norm = self.step + 1, float(told.loss), float(told.gradient_norm)
        facts = {
            "loss/total": loss,
            "gradient_norm/all": norm,
            **{name: float(one) for name, one in told.facts.items()},
        }
        for incident in watch.see(step, loss, norm, facts):
            self.attempt.tell(incident)
        require_finite(step, loss, norm)
        self.transcript.write(_line(step, told, fed))
        self.attempt.reach(step)
        self.trackers.log(facts, step)
        rate = self.engine.plan.rung.tokens_per_step / seconds
        self.trackers.log_clocked({"throughput/tokens_per_second": rate, "throughput/step_seconds": seconds}, step)
        self.timings.add(step, seconds, rate)
        self.step = step
        self._talk(loss, rate)
        return following

    def _keep(self, *, output: bool) -> None:
        """Write the state of this step, as an output or to resume from."""
        self.transcript.sync()
        self.trackers.history.sync()
        self.scratch.owned(self.step, self.attempt.name)
        home = self.scratch.work / "checkpoints" if output else self.scratch.states
        folder = home / f"step-{self.step}"
        save_state(self.state, folder)
        self.attempt.tell(Checkpoint(step=self.step, location=folder.as_posix()))
        self.scratch.drop_states_before(self.step)

    def _stop(self) -> None:
        name = signal.Signals(self.asked[0]).name
        latest = self.scratch.latest()
        if latest is None or latest.step != self.step:
            self._keep(output=False)
        words = f"The process was asked to stop by {name} after step {self.step}."
        self.attempt.tell(Incident(incident="interruption", first_step=self.step, last_step=self.step, text=words))
        raise Stopped(words, remedy="Run it again to go on from there.")

    def _talk(self, loss: float, rate: float) -> None:
        plan = self.engine.plan
        if self.step == plan.last_step or time.monotonic() - self._spoken > _TALK_SECONDS:
            self._spoken = time.monotonic()
            words = f"{plan.stage}: step {self.step} of {plan.last_step}, loss {loss:.4f}, {rate:,.0f} tokens/s"
            sys.stderr.write(words + "\n")


def _line(step: int, told: Stepped, order: str) -> transcript.Line:
    return transcript.Line(
        step=step,
        loss=_bits(told.loss),
        gradient_norm=_bits(told.gradient_norm),
        order=order,
        state=fingerprint.text(told.lanes),
    )


def _bits(value: Any) -> int:
    return int(np.asarray(value, np.float32).view(np.uint32))


def _order(last: transcript.Line | None, engine: Engine, batch: Batch) -> str:
    """The order digest after this batch."""
    ids = np.ascontiguousarray(batch.ids, dtype="<u4").tobytes()
    tokens = np.ascontiguousarray(batch.host_tokens, dtype="<i4").tobytes()
    return transcript.chain(engine.order.genesis if last is None else last.order, ids, tokens)


@contextmanager
def _asked_to_stop(asked: list[int]) -> Iterator[None]:
    """Note SIGTERM and SIGINT instead of dying of them; a second one acts as ever."""

    def note(number: int, frame: FrameType | None) -> None:
        del frame
        asked.append(number)
        signal.signal(number, signal.SIG_DFL)

    before = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
