"""``reckon prove``: that one file belongs to an artifact, without the other files and without their list."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Any

import click

from registry.cli import auditing, wiring
from registry.cli.options import NameType, example, json_option
from registry.cli.render import Cell, Fields, Mark, Tone, emit
from registry.cli.words import amount
from registry.core.inclusion import Inclusion
from registry.core.names import Name
from registry.errors import Refused

_OUT = click.Path(dir_okay=False, path_type=Path)
_IN = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(
    epilog=example(
        "reckon prove shards:code/train-00000.parquet -o proof.json",
        "reckon prove --check proof.json --file train-00000.parquet --tree sha256:…",
    )
)
@click.argument("name", type=NameType(wiring.names), required=False)
@click.option("-o", "--output", type=_OUT, help="Write the proof to this file.")
@click.option("--check", type=_IN, help="Check a proof instead of making one.")
@click.option("--tree", metavar="DIGEST", help="With --check: the digest of the tree, from a record that you trust.")
@click.option("--file", type=_IN, help="With --check: the file itself.")
@json_option
def command(name: Name | None, check: Path | None, output: Path | None, as_json: bool, **given: Any) -> None:
    """Prove that NAME, a file of an artifact such as shards:code/train-00000.parquet, belongs to it.

    A proof holds the file's digest, those of up to fifteen neighbours, and a few hashes. It is checked against the
    artifact's digest alone: --tree, or else the record here. Ends with status 1 when a proof does not hold.
    """
    if (name is None) == (check is None):
        raise click.UsageError("Give a NAME:PATH to prove, or a proof with --check.")
    if output is not None:
        auditing.refuse_placeless(output)
    if check is not None:
        proof = auditing.checked_proof(check, **given)
        shown: list[Cell] = [Mark(f"Holds: {proof.entry.path} belongs to {proof.name}, {proof.tree}.", Tone.GOOD)]
    else:
        proof = _made(name)
        shown = [f"{proof.entry.path} is file {proof.index + 1} of {proof.files}; {len(proof.path)} hashes prove it."]
        if output is not None:
            auditing.write_proof(output, proof)
            shown.append(f"Check it anywhere: reckon prove --check {quote(str(output))} --tree {proof.tree}")
    values = {
        "artifact": proof.name,
        "tree": str(proof.tree),
        "file": proof.entry.path,
        "size": amount(proof.entry.size_bytes),
        "digest": str(proof.entry.digest),
    }
    emit(proof.to_json(), Fields(values=values), *shown, as_json=as_json)


def _made(name: Name | None) -> Inclusion:
    if name is None or name.path is None:
        raise Refused(f"{name} is no file of an artifact.", remedy="Name one: shards:code/train-00000.parquet")
    return auditing.proof(wiring.root(), name)
