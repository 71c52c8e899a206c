"""``reckon bundle``: one file with everything that an audit of an artifact needs, except weights and data."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

import click

from registry.cli import adopting, auditing, wiring
from registry.cli.options import NameType, example, json_option
from registry.cli.render import Mark, Tone, emit
from registry.cli.words import amount, count
from registry.core.names import Name


@click.command(epilog=example("reckon bundle export -o export.tar", "tar -tf export.tar"))
@click.argument("name", type=NameType(wiring.names))
@click.option(
    "-o", "--output", "file", required=True, type=click.Path(dir_okay=False, path_type=Path), help="The file to write."
)
@json_option
def command(name: Name, file: Path, as_json: bool) -> None:
    """Write records, tables, transcripts, data order, small files and git's objects of the lineage of NAME to FILE.

    'reckon audit --bundle FILE' audits it where there is nothing else: no archive, no git, no network.
    """
    auditing.refuse_placeless(file)
    adopting.refuse_foreign(name)
    with auditing.bundler(wiring.root()) as bundler:
        bundle = bundler.bundle(name)
    size_bytes = auditing.write_bundle(file, bundle)
    facts = {"file": file, "size_bytes": size_bytes, "members": len(bundle.members), "absent": bundle.absent}
    written = f"{file}: {amount(size_bytes)} in {count(len(bundle.members), 'member')}."
    absent = f"{count(bundle.absent, 'small file')} do not lie here and are not in it; 'dvc pull' brings them."
    notes = [Mark(absent, Tone.DOUBT)] if bundle.absent else []
    emit(facts, written, *notes, f"Audit it anywhere: reckon audit --bundle {quote(str(file))}", as_json=as_json)
