"""A command group that knows its commands by a table and imports one only when it is run.

Refuses nothing itself: an unknown command is click's usage error, with the nearest names.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass

import click
from click.shell_completion import CompletionItem


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A command before it is imported: its module, ``registry.cli.<name>``, holds the click command ``command``."""

    name: str
    help: str
    section: str

    @property
    def module(self) -> str:
        """The module that is imported when the command is run."""
        return f"registry.cli.{self.name.replace('-', '_')}"

    def load(self) -> click.Command:
        """Import the module and return its command."""
        command: click.Command = importlib.import_module(self.module).command
        return command


class LazyGroup(click.Group):
    """Lists, completes and suggests commands from ``entries`` alone."""

    def __init__(self, *, entries: Sequence[Entry] = (), **attributes: object) -> None:
        super().__init__(**attributes)  # type: ignore[arg-type]  # click's own keywords, handed through
        self.entries = {entry.name: entry for entry in entries}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names in the order of the table."""
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command; ``None`` when the table has no such name."""
        entry = self.entries.get(cmd_name)
        return entry.load() if entry else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it, with suggestions from the table. Raises ``click.NoSuchCommand``."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            raise click.NoSuchCommand(error.command_name, possibilities=self.entries, ctx=ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one list a section, in the order of the table."""
        for section in dict.fromkeys(entry.section for entry in self.entries.values()):
            with formatter.section(section):
                formatter.write_dl([(one.name, one.help) for one in self.entries.values() if one.section == section])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete command names without importing them; options as click does it."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [
            CompletionItem(entry.name, help=entry.help)
            for entry in self.entries.values()
            if entry.name.startswith(incomplete)
        ]
