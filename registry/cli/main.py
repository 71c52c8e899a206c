"""The ``reckon`` command: reads the command line, runs one command, and turns its end into an exit status.

Holds no work of its own. Nothing but click and the table of commands is imported before a command is chosen.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click
from click.shell_completion import shell_complete

from registry.cli.commands import COMMANDS
from registry.cli.exits import guarded
from registry.cli.lazy import LazyGroup
from registry.cli.options import COMPLETE_VARIABLE, PROGRAM, example, wants_json

_STATUSES = """\b
Exit status:
  0   done, or the claim holds
  1   the claim does not hold
  2   refused: bad input or usage; nothing was done
  3   an outside system failed
  70  a bug in reckon
"""


@click.group(
    cls=LazyGroup,
    entries=COMMANDS,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=f"{_STATUSES}\n{example('reckon completion bash')}",
)
@click.version_option(package_name="deadreckon", prog_name=PROGRAM, message="%(prog)s %(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """From a known position, a recorded course and an elapsed number of steps: which bytes a model is made of, what
    produced them, and whether they can be made again.

    Names look like 'shards', 'rung/d48', 'hero/1@step-450' or 'rung/d48:transcript.jsonl'.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line (default: the process's own) and return its exit status; see ``registry.cli.exits``."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    instruction = os.environ.get(COMPLETE_VARIABLE)
    if instruction:
        return shell_complete(cli, {}, PROGRAM, COMPLETE_VARIABLE, instruction)
    return guarded(lambda: _invoke(given), as_json=wants_json(given))


def _invoke(arguments: list[str]) -> None:
    with cli.make_context(PROGRAM, arguments) as context:
        cli.invoke(context)
