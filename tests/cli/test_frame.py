"""The front door: unknown words are corrected, names completed, help costs nothing, both ways in are one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from registry.cli.commands import COMMANDS
from registry.cli.options import NameType, example, wants_json
from registry.core.names import Name
from registry.errors import Refused, UnknownName

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("shards", "rung/d32", "rung/d48", "hero/1", "hero/1@step-450")


def test_an_unknown_command_is_corrected(reckon):
    ended = reckon("completoin")
    assert (ended.status, ended.stdout) == (2, "")
    assert "Did you mean 'completion'" in ended.stderr


def test_an_unknown_option_is_corrected_in_json_too(reckon):
    ended = reckon("completion", "bash", "--json", "--hlep")
    assert ended.status == 2
    assert "--help" in json.loads(ended.stdout)["error"]["message"]


def test_no_command_shows_the_front_page(reckon):
    assert reckon() == reckon("--help") == reckon("-h")
    assert "Exit status:" in reckon().stdout


def test_the_version_is_the_distributions(reckon):
    assert reckon("--version").stdout == "reckon 0.1.0\n"


def test_the_script_and_the_module_are_one_command():
    script = subprocess.run(
        [Path(sys.executable).with_name("reckon"), "--help"], cwd=ROOT, capture_output=True, check=True
    )
    module = subprocess.run([sys.executable, "-m", "registry", "--help"], cwd=ROOT, capture_output=True, check=True)
    assert script.stdout == module.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_is_the_shells(shell, reckon):
    script = reckon("completion", shell).stdout
    assert "_RECKON_COMPLETE" in script
    assert json.loads(reckon("completion", shell, "--json").stdout) == {"shell": shell, "script": script}


def test_bash_reads_its_script_and_completes_a_command(reckon):
    script = reckon("completion", "bash").stdout
    typed = 'COMP_WORDS=(reckon compl); COMP_CWORD=1; _reckon_completion reckon; echo "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-euc", f"{script}\n{typed}"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "completion\n"


def test_completing_commands_imports_none():
    code = "import sys; from registry.cli.main import run; status = run(); print(*sys.modules); sys.exit(status)"
    typed = {"_RECKON_COMPLETE": "bash_complete", "COMP_WORDS": "reckon ", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, env={**os.environ, **typed}
    )
    *offered, modules = done.stdout.splitlines()
    assert offered == [f"plain,{entry.name}" for entry in COMMANDS]
    assert not {entry.module for entry in COMMANDS} & set(modules.split())


def test_a_name_is_read_and_checked():
    kind = NameType(lambda: NAMES)
    assert kind.convert("rung/d48@step-3:a/b", None, None) == Name(stage="rung/d48", step=3, path="a/b")
    with pytest.raises(UnknownName, match=r"Did you mean rung/d48 or rung/d32|Did you mean rung/d32 or rung/d48"):
        kind.convert("rung/d49", None, None)
    with pytest.raises(Refused, match="not a name"):
        kind.convert("../rung", None, None)


def test_a_fresh_archive_takes_every_well_formed_name():
    assert NameType(lambda: ()).convert("rung/d48", None, None) == Name(stage="rung/d48")


def test_names_are_completed_and_no_archive_is_no_error():
    context, argument = click.Context(click.Command("x")), click.Argument(["name"])
    found = NameType(lambda: NAMES).shell_complete(context, argument, "hero")
    assert [item.value for item in found] == ["hero/1", "hero/1@step-450"]

    def outside() -> tuple[str, ...]:
        raise Refused("Not inside of an archive.")

    assert NameType(outside).shell_complete(context, argument, "") == []


def test_an_example_is_printed_as_it_is_written():
    command = click.Command("x", epilog=example("reckon x  two-blanks", "reckon x --json"))
    page = command.get_help(click.Context(command))
    assert page.endswith("Examples:\n    reckon x  two-blanks\n    reckon x --json")


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [((), False), (("show", "x", "--json"), True), (("show", "--", "--json"), False), (("--jsonl",), False)],
)
def test_json_is_seen_before_parsing(arguments, asked):
    assert wants_json(arguments) is asked


def test_where_nothing_is_near_own_names_come_first_and_others_by_their_head():
    with pytest.raises(UnknownName) as told:
        NameType(lambda: ("shards", "hero/1", "delta", "delta/run/1")).convert("xyzzy", None, None)
    assert told.value.remedy == "Known are: shards, hero/1, delta/…."
