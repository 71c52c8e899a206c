"""Trackers of a run: ours, which holds everything, and W&B, which may fail without stopping anything.

Both are Levanter trackers and see every step. A tracker other than ours is guarded: its first fault is told in the run
log, and it is not called again. W&B is offline unless ``WANDB_MODE`` says otherwise; all its files lie in the attempt's
folder.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import wandb
from levanter.tracker.tracker import CompositeTracker, Tracker, TrackerConfig
from levanter.tracker.wandb import WandbConfig

from registry.core import runlog
from registry.core.runlog import TrackerState
from train.attempt import Attempt
from train.history import HistoryConfig, HistoryTracker

PROJECT: Final = "deadreckon"

# What a tracker's client is known to raise when its service, its disk or its own code fails.
FAULTS: Final = (
    wandb.Error,
    OSError,
    RuntimeError,
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    AssertionError,
    ImportError,
)


class Guarded(Tracker):
    """A tracker that may fail. ``failed`` hears of its first fault, after which it rests."""

    def __init__(self, inner: Tracker, failed: Callable[[BaseException], None]) -> None:
        self.name = inner.name
        self._inner: Tracker | None = inner
        self._failed = failed

    def log(self, metrics: Mapping[str, Any], *, step: int | None, commit: bool | None = None) -> None:
        """Forward metrics."""
        self._call(lambda inner: inner.log(metrics, step=step, commit=commit))

    def log_hyperparameters(self, hparams: dict[str, Any]) -> None:
        """Forward settings."""
        self._call(lambda inner: inner.log_hyperparameters(hparams))

    def log_summary(self, metrics: dict[str, Any]) -> None:
        """Forward a summary."""
        self._call(lambda inner: inner.log_summary(metrics))

    def log_artifact(self, artifact_path: Any, **named: Any) -> None:
        """Forward an artifact."""
        self._call(lambda inner: inner.log_artifact(artifact_path, **named))

    def finish(self) -> None:
        """Forward the end."""
        self._call(lambda inner: inner.finish())

    def _call(self, act: Callable[[Tracker], None]) -> None:
        if self._inner is None:
            return
        try:
            act(self._inner)
        except FAULTS as error:
            self._inner = None
            self._failed(error)


class Trackers:
    """All trackers of an attempt. ``history`` is ours; ``all`` is what Levanter and the loop log to."""

    def __init__(self, attempt: Attempt, metrics: Path, settings: Mapping[str, Any], group: str) -> None:
        self._attempt = attempt
        self.history: HistoryTracker = HistoryConfig(path=metrics).init(attempt.name)
        self._tell("history", TrackerState.OK, None, None)
        members: list[Tracker] = [self.history]
        others = self._start(_wandb(attempt, group), "wandb")
        members.extend(others)
        self.all = CompositeTracker(members)
        for other in others:
            other.log_hyperparameters(dict(settings))

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Log the metrics of a completed step everywhere. Ours first: its faults are the run's own."""
        for tracker in self.all.loggers:
            tracker.log(metrics, step=step)

    def log_clocked(self, metrics: Mapping[str, float], step: int) -> None:
        """Log what has a clock: everywhere but in our history, which is an output."""
        for tracker in self.all.loggers[1:]:
            tracker.log(metrics, step=step)

    def finish(self) -> None:
        """Close all trackers."""
        for tracker in self.all.loggers:
            tracker.finish()

    def _start(self, config: TrackerConfig, system: str) -> list[Tracker]:
        """Start a guarded tracker. A tracker that cannot start is told, and left out."""
        try:
            inner = config.init(self._attempt.name)
        except FAULTS as error:
            self._tell(system, TrackerState.FAILED, None, _words(error))
            return []
        offline = os.environ["WANDB_MODE"] != "online"
        place, run_id = _place(self._attempt.folder)
        self._tell(system, TrackerState.OFFLINE if offline else TrackerState.OK, place, None, run_id=run_id)
        return [
            Guarded(inner, lambda error: self._tell(system, TrackerState.FAILED, place, _words(error), run_id=run_id))
        ]

    def _tell(
        self, system: str, state: TrackerState, place: str | None, reason: str | None, *, run_id: str | None = None
    ) -> None:
        self._attempt.tell(runlog.Tracker(system=system, state=state, run_id=run_id, location=place, reason=reason))


def _wandb(attempt: Attempt, group: str) -> WandbConfig:
    """W&B with everything in the attempt's folder, no code, no machine statistics."""
    folder = attempt.folder.resolve()
    os.environ.setdefault("WANDB_MODE", "offline")
    os.environ.setdefault("WANDB_SILENT", "true")
    os.environ.update(
        WANDB_DIR=str(folder),
        WANDB_DATA_DIR=str(folder / "wandb" / "data"),
        WANDB_CACHE_DIR=str(folder / "wandb" / "cache"),
        WANDB_CONFIG_DIR=str(folder / "wandb" / "config"),
        WANDB_CONSOLE="off",
        WANDB_DISABLE_CODE="true",
        WANDB_X_DISABLE_STATS="true",
    )
    return WandbConfig(
        project=os.environ.get("WANDB_PROJECT", PROJECT),
        name=f"{attempt.stage} {attempt.name}",
        id=f"{attempt.stage.replace('/', '-')}-{attempt.name}",
        group=group,
        mode=os.environ["WANDB_MODE"],
        resume="never",
        save_code=False,
        background=False,
    )


def _place(folder: Path) -> tuple[str | None, str | None]:
    """W&B's folder relative to the attempt's, and its run id. A disabled W&B keeps nothing there."""
    run = wandb.run
    if run is None:
        return None, None
    place = Path(run.dir).parent
    inside = place.is_relative_to(folder.resolve())
    return place.relative_to(folder.resolve()).as_posix() if inside else None, str(run.id)


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error)[:500]}"
