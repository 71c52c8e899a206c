"""What all commands share: ``--json``, the example at the end of a help page, and arguments that are artifact names.

Every command is built the same way::

    @click.command(epilog=example("reckon show rung/d48"))
    @click.argument("name", type=NameType(wiring.names))
    @json_option
    def command(name: Name, as_json: bool) -> None:
        '''Show a record.'''
        emit(facts, Fields(…), as_json=as_json)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from difflib import get_close_matches
from typing import Final

import click
from click.shell_completion import CompletionItem

from registry.core.names import Name, known
from registry.errors import ReckonError, UnknownName

PROGRAM: Final = "reckon"
COMPLETE_VARIABLE: Final = "_RECKON_COMPLETE"

json_option = click.option("--json", "as_json", is_flag=True, help="Print the facts as one JSON object.")


def example(*lines: str) -> str:
    """The end of a help page: one or more command lines, kept as they are; ``click.command`` takes it as ``epilog``."""
    title = "Example:" if len(lines) == 1 else "Examples:"
    return "\n".join(("\b", title, *(f"  {line}" for line in lines)))


def wants_json(arguments: Iterable[str]) -> bool:
    """Whether a command line asks for JSON. It is read before parsing, as the answer to a bad one must be JSON too."""
    for argument in arguments:
        if argument == "--":
            return False
        if argument == "--json":
            return True
    return False


class NameType(click.ParamType[Name]):
    """An artifact's name, completed and corrected from ``names``.

    ``names`` returns stages or longer names (``hero/1@step-450``); it is called only to complete a word or to check an
    argument. While it returns none (a fresh archive), every well-formed name passes.
    """

    name = "name"

    def __init__(self, names: Callable[[], Iterable[str]]) -> None:
        self._names = names

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Name:
        """Read a name. Raises ``Refused`` for a malformed one and ``UnknownName`` for an unknown stage."""
        parsed = Name.parse(str(value))
        stages = dict.fromkeys(name.partition("@")[0] for name in self._names())
        if stages and parsed.stage not in stages and not get_close_matches(parsed.stage, stages, n=1, cutoff=0.5):
            told = f"Nothing is known under the name {parsed.stage!r}."
            raise UnknownName(told, remedy=f"Known are: {', '.join(_brief(stages))}.")
        if stages:
            known(parsed.stage, stages)
        return parsed

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The names that begin as typed. Outside of an archive there are none, and that is no error here."""
        try:
            return [CompletionItem(name) for name in self._names() if name.startswith(incomplete)]
        except (ReckonError, OSError):
            return []


def _brief(names: Collection[str]) -> Iterator[str]:
    """The names in their order, the archive's own first; of those below another only that one: ``marin/…``."""
    for name in names:
        parts = name.split("/")
        if not any("/".join(parts[:end]) in names for end in range(1, len(parts))):
            yield f"{name}/…" if any(other.startswith(f"{name}/") for other in names) else name
