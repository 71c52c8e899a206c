"""How facts of records are said to people: amounts, tones, and lists that are cut unless all is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import click

from registry.cli.render import Cell, Mark, Tone
from registry.core import canonical
from registry.core.canonical import Json
from registry.core.comparison import Part
from registry.core.records import Execution, Outcome

SHORT: Final = 12
_UNITS: Final = ("B", "kB", "MB", "GB", "TB", "PB")
_TONES: Final = {Outcome.COMPLETE: Tone.GOOD, Outcome.FAILED: Tone.BAD, Outcome.INTERRUPTED: Tone.DOUBT}

full_option = click.option("--full", is_flag=True, help="Show every line of long lists, and digests in full.")


def amount(size_bytes: int) -> str:
    """Bytes in decimal units, as disks are sold: ``1.2 MB``."""
    size, unit = float(size_bytes), 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size_bytes} B" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"


def count(number: int, what: str, plural: str = "") -> str:
    """A number with its noun: ``1 witness``, ``2 witnesses``."""
    return f"{number} {what if number == 1 else plural or what + 's'}"


def cut(rows: Sequence[Sequence[Cell]], full: bool, most: int = SHORT) -> list[Sequence[Cell]]:
    """The first rows, and how many more there are, unless all are asked for."""
    if full or len(rows) <= most:
        return list(rows)
    more = Mark(f"… {len(rows) - most} more: --full", Tone.FAINT)
    return [*rows[:most], [more, *[""] * (len(rows[0]) - 1)]]


def outcome(execution: Execution) -> Cell:
    """How an attempt ended, in its tone."""
    return Mark(execution.outcome.value, _TONES[execution.outcome])


def steps(execution: Execution) -> str:
    """The steps that an attempt ran, and where it can be resumed if that is earlier: ``0..40``, ``0..43 (kept 40)``."""
    told = execution.steps or {}
    kept = told.get("kept", told.get("reached"))
    ran = f"{told.get('first')}..{told.get('reached')}"
    return "" if not told else ran if kept == told.get("reached") else f"{ran} (kept {kept})"


def cause(execution: Execution) -> str:
    """Why an attempt did not complete."""
    told = execution.cause
    return f"{told.get('error')}: {told.get('message')}" if told else ""


def commit(execution: Execution, full: bool = False) -> Cell:
    """The commit, marked when the code was not all in it."""
    shown = execution.revision.commit if full else execution.revision.commit[:10]
    return Mark(f"{shown} + changes", Tone.DOUBT) if execution.revision.dirty else shown


def flat(facts: Mapping[str, Json], prefix: str = "") -> dict[str, str]:
    """Nested facts by dotted key, values as plain text."""
    lines: dict[str, str] = {}
    for key, value in facts.items():
        if isinstance(value, Mapping) and value:
            lines.update(flat(value, f"{prefix}{key}."))
        else:
            lines[f"{prefix}{key}"] = value if isinstance(value, str) else canonical.encode(value).decode()
    return lines


def changed(part: Part, key: str, recorded: str | None, found: str | None) -> str:
    """Settings with both values; files and digests by name alone."""
    if part in (Part.SETTINGS, Part.DETERMINISM, Part.COMMAND):
        return f"{key} {recorded or 'absent'} → {found or 'absent'}"
    return f"{key} added" if recorded is None else f"{key} removed" if found is None else key
