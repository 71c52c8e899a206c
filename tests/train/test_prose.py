"""Docstrings as prose."""

from __future__ import annotations

import pytest

from train.data.prose import docstrings, module_name

SOURCE = '''
"""What the module is for."""

VALUE = 1


class Ship:
    """A ship.

    It floats,
        mostly.
    """

    if VALUE:

        def sail(self):
            """Go somewhere else than here."""

            def inner():
                "tiny"

    async def wait(self):
        try:
            pass
        except OSError:

            def rescue():
                """In a handler, of all places."""


match VALUE:
    case 1:

        def chosen():
            """Only in one case."""
'''


def test_docstrings_stand_in_their_order_under_their_names() -> None:
    assert docstrings(SOURCE, "fleet.ships", 10) == (
        "fleet.ships\n\nWhat the module is for.\n\n"
        "fleet.ships.Ship\n\nA ship.\n\nIt floats,\n    mostly.\n\n"
        "fleet.ships.Ship.sail\n\nGo somewhere else than here.\n\n"
        "fleet.ships.Ship.wait.rescue\n\nIn a handler, of all places.\n\n"
        "fleet.ships.chosen\n\nOnly in one case."
    )


def test_a_source_without_docstrings_gives_no_prose() -> None:
    assert docstrings("x = 1\n", "m", 0) == ""


@pytest.mark.parametrize("source", ["def f(:", "x = '\0'", "(" * 5000, "-" * 200_000 + "1"])
def test_what_cannot_be_parsed_gives_nothing(source: str) -> None:
    assert docstrings(source, "m", 0) is None


def test_parsing_runs_nothing() -> None:
    assert docstrings('"""Harmless words."""\nraise SystemExit(9)\n', "m", 0) == "m\n\nHarmless words."


@pytest.mark.parametrize(("path", "name"), [("a/b.py", "a.b"), ("a/__init__.py", "a"), ("a.py", "a")])
def test_module_names(path: str, name: str) -> None:
    assert module_name(path) == name
