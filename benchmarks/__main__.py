"""``python -m benchmarks``: run the suites and print ratios."""

from __future__ import annotations

import importlib
import json
import os
import platform
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click

from benchmarks.harness import Comparison, Measured, Place, ProgramFailed, Result, compare
from benchmarks.suites import SUITES
from registry.cli.render import Table, emit
from registry.cli.words import amount

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


class SizeType(click.ParamType):
    """Bytes with a decimal unit: ``500MB``, ``4G``."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read a size."""
        match = re.fullmatch(r"(\d{1,12})\s*([KMGT]?)B?", str(value), re.IGNORECASE)
        if match is None:
            self.fail(f"{value!r} is not a size; write it like 500MB.", param, ctx)
        return int(match[1]) * _UNITS[match[2].upper()]


@click.command()
@click.option("--size", type=SizeType(), default="4GB", show_default=True, help="Size of the one large file.")
@click.option("--files", type=click.IntRange(1), default=20_000, show_default=True, help="Files of the tree.")
@click.option("--checkpoint", type=SizeType(), default="2GB", show_default=True, help="Size of the checkpoint.")
@click.option("--only", type=click.Choice(SUITES), multiple=True, help="Run these suites; repeat it for several.")
@click.option("--folder", type=click.Path(path_type=Path), help="Where to make the data.  [default: a temporary one]")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as one JSON object.")
def main(only: tuple[str, ...], folder: Path | None, as_json: bool, **sizes: int) -> None:
    """Measure side by side what this archive does and what one would take instead.

    Every figure is the wall clock of a whole process, best of its repeats, on data that is in the page cache.
    """
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with tempfile.TemporaryDirectory(prefix="benchmarks-", dir=folder) as made:
        place = Place(
            folder=Path(made), file_bytes=sizes["size"], files=sizes["files"], checkpoint_bytes=sizes["checkpoint"]
        )
        results = list(_results(place, only or SUITES, as_json))
    if as_json:
        click.echo(json.dumps({"machine": _machine(), "results": [_facts(result) for result in results]}, indent=1))


def _results(place: Place, suites: tuple[str, ...], as_json: bool) -> Iterator[Result]:
    for suite in suites:
        click.echo(f"Suite {suite} …", err=True)
        for comparison in importlib.import_module(f"benchmarks.{suite}").comparisons(place):
            try:
                result = compare(comparison)
            except ProgramFailed as error:
                click.echo(f"{comparison.title}: {error}", err=True)
                sys.exit(3)
            if not as_json:
                emit(None, _table(result), *_words(result), "", as_json=False)
            yield result


def _table(result: Result) -> Table:
    rows = [_row(result, result.ours, ""), *(_row(result, other, _ratio(result, other)) for other in result.others)]
    return Table(
        title=f"{result.comparison.title} ({amount(result.comparison.size_bytes)})",
        columns=("program", "seconds", "GB/s", "peak", "repeats", "ours is"),
        rows=rows,
        right=("seconds", "GB/s", "peak", "repeats", "ours is"),
    )


def _row(result: Result, measured: Measured, ratio: str) -> tuple[str, ...]:
    speed = result.comparison.size_bytes / measured.seconds / 1e9
    peak = amount(measured.peak_bytes)
    return measured.name, f"{measured.seconds:.2f}", f"{speed:.2f}", peak, str(measured.repeats), ratio


def _ratio(result: Result, other: Measured) -> str:
    return f"{result.ratio(other):.2f} x as fast"


def _words(result: Result) -> Iterator[str]:
    for other in result.others:
        aim = result.comparison.aims.get(other.name)
        if aim is not None:
            met = "met" if result.ratio(other) >= aim else "MISSED"
            yield f"aim: {aim:g} x as fast as {other.name}: {met}"
    for name in result.left_out:
        yield f"{name} is not installed and was left out"


def _facts(result: Result) -> dict[str, object]:
    comparison: Comparison = result.comparison
    return {
        "title": comparison.title,
        "size_bytes": comparison.size_bytes,
        "ours": _measured(result.ours),
        "others": [
            {**_measured(other), "ratio": round(result.ratio(other), 3), "aim": comparison.aims.get(other.name)}
            for other in result.others
        ],
        "left_out": list(result.left_out),
    }


def _measured(measured: Measured) -> dict[str, object]:
    return {
        "name": measured.name,
        "seconds": round(measured.seconds, 4),
        "peak_bytes": measured.peak_bytes,
        "repeats": measured.repeats,
    }


def _machine() -> dict[str, object]:
    return {
        "cores": len(os.sched_getaffinity(0)),
        "processor": platform.processor() or platform.machine(),
        "python": platform.python_version(),
    }


if __name__ == "__main__":
    main()
