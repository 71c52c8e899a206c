"""``reckon completion``: the script that teaches a shell to complete commands, options and names."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import BashComplete, FishComplete, ZshComplete

from registry.cli.options import COMPLETE_VARIABLE, PROGRAM, example, json_option
from registry.cli.render import emit

_SHELLS: Final = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command(
    epilog=example(
        'eval "$(reckon completion bash)"    # in ~/.bashrc',
        'eval "$(reckon completion zsh)"     # in ~/.zshrc',
        "reckon completion fish > ~/.config/fish/completions/reckon.fish",
    )
)
@click.argument("shell", type=click.Choice(sorted(_SHELLS)))
@json_option
def command(shell: str, as_json: bool) -> None:
    """Print the script that completes commands, options and artifact names in SHELL."""
    root = click.get_current_context().find_root().command
    script = _SHELLS[shell](root, {}, PROGRAM, COMPLETE_VARIABLE).source()
    emit({"shell": shell, "script": script}, *script.splitlines(), as_json=as_json)
