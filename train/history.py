"""The history of a run: every metric at every step, exactly, without clocks.

While the run goes on, one line of JSON a step; at the end a Parquet table in long form (step, metric, value), sorted,
with the same bytes on every run. It is fed as a Levanter tracker beside the others, so it sees what they see. Refuses
lines that are not numbers by metric.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
from levanter.tracker.tracker import Tracker, TrackerConfig

from registry.errors import MalformedRecord
from train.data.tables import write_table

COLUMNS = pa.schema(
    [
        pa.field("step", pa.int64(), nullable=False),
        pa.field("metric", pa.string(), nullable=False),
        pa.field("value", pa.float64(), nullable=False),
    ]
)


class HistoryTracker(Tracker):
    """A tracker that appends numbers to a file, one line a step, flushed as written."""

    name = "history"

    def __init__(self, path: Path) -> None:
        self._file: IO[bytes] = path.open("ab")

    def log(self, metrics: Mapping[str, Any], *, step: int | None, commit: bool | None = None) -> None:
        """Append the numbers of a step."""
        del commit
        numbers = {name: float(value) for name, value in metrics.items()}
        self._file.write(json.dumps({"step": step, "metrics": numbers}, sort_keys=True).encode() + b"\n")
        self._file.flush()

    def log_hyperparameters(self, hparams: Mapping[str, Any]) -> None:
        """Settings are in the run log, not here."""

    def log_summary(self, metrics: Mapping[str, Any]) -> None:
        """Summaries are in summary.json, not here."""

    def log_artifact(self, artifact_path: Any, **named: Any) -> None:
        """Artifacts are outputs, not here."""

    def sync(self) -> None:
        """Make what was written durable."""
        os.fsync(self._file.fileno())

    def finish(self) -> None:
        """Close the file."""
        self._file.close()


@TrackerConfig.register_subclass("history")
@dataclass(frozen=True)
class HistoryConfig(TrackerConfig):
    """Levanter's configuration of the tracker above."""

    path: Path

    def init(self, run_id: str | None) -> HistoryTracker:
        """Open the file. A run id means nothing here."""
        del run_id
        return HistoryTracker(self.path)


def cut(path: Path, last_step: int) -> None:
    """Keep the lines of steps up to ``last_step`` only, as a run that resumes from there needs."""
    kept = [line for line, step in _stepped(path) if step <= last_step] if path.is_file() else []
    aside = path.with_name(f".{path.name}.partial")
    aside.write_bytes(b"".join(kept))
    aside.replace(path)


def write_history(source: Path, target: Path) -> None:
    """Write the Parquet table of the lines in ``source``."""
    points: dict[tuple[int, str], float] = {}
    for line, step in _stepped(source):
        for metric, value in json.loads(line)["metrics"].items():
            points[step, metric] = float(value)
    ordered = sorted(points)
    columns = {
        "step": [step for step, _ in ordered],
        "metric": [metric for _, metric in ordered],
        "value": [points[key] for key in ordered],
    }
    write_table(target, pa.table(columns, schema=COLUMNS), repeated=["metric"])


def _stepped(path: Path) -> Iterator[tuple[bytes, int]]:
    """The whole lines of a file with their steps. A torn last line is left out."""
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield line, _step(line)


def _step(line: bytes) -> int:
    try:
        step = json.loads(line)["step"]
    except (ValueError, TypeError, KeyError) as error:
        raise MalformedRecord("A line of metrics is damaged.", remedy="Remove the stage's scratch folder.") from error
    if not isinstance(step, int):
        raise MalformedRecord("A line of metrics has no step.", remedy="Remove the stage's scratch folder.")
    return step
