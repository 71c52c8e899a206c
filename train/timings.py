"""Seconds and tokens per second of each step, for the attempt's folder: they have clocks, so they are never outputs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from train.data.tables import write_table

COLUMNS = pa.schema(
    [
        pa.field("step", pa.int64(), nullable=False),
        pa.field("seconds", pa.float64(), nullable=False),
        pa.field("tokens_per_second", pa.float64(), nullable=False),
    ]
)


@dataclass(slots=True)
class Timings:
    """Timings of the steps of one attempt, kept in memory until they are written."""

    steps: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)

    def add(self, step: int, seconds: float, rate: float) -> None:
        """Add a step."""
        self.steps.append(step)
        self.seconds.append(seconds)
        self.rates.append(rate)

    def write(self, path: Path) -> None:
        """Write the table."""
        columns = {"step": self.steps, "seconds": self.seconds, "tokens_per_second": self.rates}
        write_table(path, pa.table(columns, schema=COLUMNS))
