"""``reckon withhold``: declare that bytes may not be published, so that an audit tells private from lost."""

from __future__ import annotations

import click

from registry.cli import auditing, wiring
from registry.cli.options import NameType, example, json_option
from registry.cli.render import emit
from registry.core.names import Name


@click.command(
    epilog=example(
        "reckon withhold shards --reason 'licensed to us alone'",
        "reckon withhold shards:code/train-00003.parquet --reason 'a person asked'",
    )
)
@click.argument("name", type=NameType(wiring.names))
@click.option("--reason", required=True, help="Why the bytes are private.")
@json_option
def command(name: Name, reason: str, as_json: bool) -> None:
    """Declare that the bytes of NAME, an artifact or a file of one, may not be published.

    Where they are not at hand, an audit then says withheld instead of missing. What is there is checked as always.
    """
    declared = auditing.withholder(wiring.root()).withhold(name, reason)
    emit(declared.to_json(), f"{declared.name}: {declared.digest} is withheld: {declared.reason}", as_json=as_json)
