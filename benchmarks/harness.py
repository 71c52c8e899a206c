"""Timing of programs side by side: each is a process of its own, start-up and all, on both sides of a ratio.

Wall clock, best of the repeats; peak memory of the process and of its children. Programs take turns, so that what else
the machine does falls on all of them. The data has just been written, so it is in the page cache for everyone. A
program that is not installed is left out and said so.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
TIMER = Path(__file__).resolve().with_name("timed.py")


class ProgramFailed(Exception):
    """A program under measurement ended with an error; its last words are the message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A command line to be timed. ``prepare`` runs before every repeat and is not timed."""

    name: str
    argv: Sequence[str]
    folder: Path
    repeats: int = 3
    prepare: Callable[[], object] = lambda: None
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def installed(self) -> bool:
        """Whether the program is on this machine."""
        return shutil.which(self.argv[0]) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The best repeat of a program."""

    name: str
    seconds: float
    peak_bytes: int
    repeats: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Our program and the others on the same task. ``aims``: how many times as fast as another ours should be."""

    title: str
    size_bytes: int
    ours: Program
    others: Sequence[Program]
    aims: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A comparison with its figures."""

    comparison: Comparison
    ours: Measured
    others: Sequence[Measured]
    left_out: Sequence[str]

    def ratio(self, other: Measured) -> float:
        """How many times as fast ours is."""
        return other.seconds / self.ours.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a run makes its data, and how much of it."""

    folder: Path
    file_bytes: int
    files: int
    checkpoint_bytes: int

    def fresh(self, name: str) -> Path:
        """An empty folder; what was in it before is gone."""
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder


def python(name: str, code: str, *arguments: str | Path, **options: object) -> Program:
    """A few lines of Python as a program; the arguments are ``sys.argv[1:]``."""
    argv = [sys.executable, "-c", code, *map(str, arguments)]
    return Program(name=name, argv=argv, folder=REPOSITORY, **options)  # type: ignore[arg-type]


def compare(comparison: Comparison) -> Result:
    """Measure all programs of a comparison that are installed, in turns. Raises ``ProgramFailed``."""
    installed = [program for program in comparison.others if program.installed]
    ours, *others = _measured([comparison.ours, *installed])
    return Result(
        comparison=comparison,
        ours=ours,
        others=others,
        left_out=[program.name for program in comparison.others if not program.installed],
    )


def _measured(programs: Sequence[Program]) -> Sequence[Measured]:
    """Each program as often as it says, one after the other and again."""
    runs: list[list[tuple[float, int]]] = [[] for _ in programs]
    for turn in range(max(program.repeats for program in programs)):
        for program, taken in zip(programs, runs, strict=True):
            if turn < program.repeats:
                taken.append(_timed(program))
    return [
        Measured(name=program.name, seconds=seconds, peak_bytes=peak_bytes, repeats=program.repeats)
        for program, (seconds, peak_bytes) in zip(programs, map(min, runs), strict=True)
    ]


def _timed(program: Program) -> tuple[float, int]:
    program.prepare()
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as told:
        try:
            ended = subprocess.run(
                [sys.executable, "-I", "-S", str(TIMER), str(writing), *program.argv],
                cwd=program.folder,
                env=os.environ | dict(program.environment),
                pass_fds=[writing],
                stderr=subprocess.PIPE,
                check=False,
            )
        finally:
            os.close(writing)
        facts = json.loads(told.read() or b'{"status": -1}')
    if facts["status"] != 0:
        raise ProgramFailed(f"{program.name}: {ended.stderr.decode(errors='replace')[-2000:]}")
    return facts["seconds"], facts["peak_bytes"]
