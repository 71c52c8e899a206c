"""An answer is drawn for a terminal, plain in a pipe, and one line of JSON on request; hostile text stays text."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType

import pytest

from registry.cli.render import Fields, Mark, Table, Tone, emit, progress, shown, talk
from registry.core.digests import Digest

HOSTILE = "\x1b[2J\tname\r\nfake line\u202e [red]markup[/red] \x9b31m \udcff"


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    digest: Digest
    path: Path
    parts: frozenset[str]
    colour: Colour
    nested: MappingProxyType


FACTS = Facts(
    digest=Digest.parse("sha256:" + "0" * 64),
    path=Path("a/b"),
    parts=frozenset({"y", "x"}),
    colour=Colour.RED,
    nested=MappingProxyType({"half": Fraction(1, 2), "tenth": Decimal("0.1"), "none": None}),
)
TABLE = Table(
    columns=("stage", "steps", "verdict"),
    rows=(("rung/d32", "7", Mark("verified", Tone.GOOD)), ("hero/1", "1200", "")),
    right=("steps",),
)


def test_json_is_one_sorted_line(capsys):
    emit(FACTS, TABLE, as_json=True)
    printed = capsys.readouterr().out
    assert printed == (
        '{"colour":"red","digest":"sha256:' + "0" * 64 + '",'
        '"nested":{"half":"1/2","none":null,"tenth":"0.1"},"parts":["x","y"],"path":"a/b"}\n'
    )


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_json_has_no_spelling_for_nan(value):
    with pytest.raises(ValueError, match="JSON"):
        emit({"loss": value}, as_json=True)


def test_json_of_an_unknown_kind_is_refused():
    with pytest.raises(TypeError, match="object has no JSON form"):
        emit({"x": object()}, as_json=True)


def test_plain_tables_are_aligned_and_empty_cells_shown(capsys):
    emit(None, TABLE, as_json=False)
    assert capsys.readouterr().out == "stage     steps  verdict\nrung/d32      7  verified\nhero/1     1200  -\n"


def test_plain_fields_and_lines(capsys):
    emit(None, Fields(values={"recipe": "ab", "a": Mark("x", Tone.BAD)}, title="shards"), "done", "", as_json=False)
    assert capsys.readouterr().out == "shards\nrecipe  ab\na       x\n\ndone\n\n"


def test_a_table_without_rows_has_its_header(capsys):
    emit(None, Table(columns=("a", "b"), rows=()), as_json=False)
    assert capsys.readouterr().out == "a  b\n"


def test_hostile_text_moves_nothing(capsys):
    emit({"x": HOSTILE}, HOSTILE, Table(columns=("c",), rows=((HOSTILE,),)), as_json=False)
    talk(HOSTILE)
    emit({"x": HOSTILE}, as_json=True)
    captured = capsys.readouterr()
    text = captured.out + captured.err
    assert all(char.isprintable() or char == "\n" for char in text)
    assert text.count("\n") == 6
    assert json.loads(captured.out.splitlines()[-1]) == {"x": HOSTILE}


def test_shown_keeps_what_can_be_read():
    assert shown("rung/d48 – größe 模型") == "rung/d48 – größe 模型"


def test_progress_is_silent_in_a_pipe(capsys):
    with progress("hashing", 10) as advance:
        advance(10)
    assert capsys.readouterr() == ("", "")


def on_terminal(code: str, **environment: str) -> str:
    """What a Python program prints on a terminal of 100 columns (stdout and stderr)."""
    ours, theirs = pty.openpty()
    given = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", **environment}
    with subprocess.Popen([sys.executable, "-c", code], stdout=theirs, stderr=theirs, env=given) as process:
        os.close(theirs)
        printed = b""
        while chunk := _read(ours):
            printed += chunk
    os.close(ours)
    assert process.returncode == 0, printed.decode()
    return printed.decode()


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # the other end closed
        return b""


IMPORTS = "from registry.cli.render import *\nfrom registry.cli.render import Tone\n"


def test_a_terminal_gets_a_drawn_table_and_colour():
    code = (
        IMPORTS
        + 'emit(None, Table(columns=("a", "b"), rows=(("x", Mark("bad", Tone.BAD)),), title="t"), as_json=False)'
    )
    drawn = on_terminal(code)
    assert "─" in drawn
    assert "\x1b[1;31mbad" in drawn
    assert "\x1b[" not in on_terminal(code, NO_COLOR="1", TERM="dumb")


def test_a_terminal_never_gets_hostile_escapes_or_markup():
    drawn = on_terminal(
        IMPORTS + r'emit(None, "\x1b[2J[red]x[/red]", Fields(values={"[b]k": "\x1b[2J"}), as_json=False)'
    )
    assert "\x1b[2J" not in drawn
    assert "[red]x[/red]" in drawn
    assert "[b]k" in drawn


def test_a_terminal_shows_progress():
    code = IMPORTS + 'with progress("hashing [x]", 2048, in_bytes=True) as advance:\n    advance(2048)'
    assert "hashing [x]" in on_terminal(code)
