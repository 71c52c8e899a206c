"""Pieces of Markdown whose words come from records: tables and lists in which no text can become markup.

Deterministic. Refuses nothing: what could end a cell, open a tag or move a line is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_MARKUP = re.compile(r"([\\`*_\[\]|~#!])")
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def plain(text: object) -> str:
    """Text that is only text: one line, without markup."""
    flat = " ".join(str(text).split())
    return _MARKUP.sub(r"\\\1", "".join(char for char in flat if char.isprintable()).translate(_ENTITIES))


def code(text: object) -> str:
    """Text in the typewriter face: a name, a path or a digest."""
    return f"`{''.join(char for char in str(text) if char.isprintable() and char not in '`|')}`"


def number(value: int) -> str:
    """An integer with its thousands set apart."""
    return f"{value:,}"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are Markdown already. Empty without rows."""
    lines = [" | ".join(row) for row in rows]
    if not lines:
        return ""
    head = [" | ".join(columns), " | ".join("---" for _ in columns)]
    return "\n".join(f"| {line} |" for line in [*head, *lines])


def fields(values: Sequence[tuple[str, str]]) -> str:
    """A table of two columns, what and value, without heads."""
    return table(("", ""), values)


def commands(*lines: str) -> str:
    """A block of command lines."""
    return "\n".join(["```sh", *lines, "```"])
