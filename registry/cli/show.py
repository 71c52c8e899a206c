"""``reckon show``: what is on record under a name or digest."""

from __future__ import annotations

import click

from registry.cli import adopted, adopting, wiring
from registry.cli.options import example, json_option
from registry.cli.references import ReferenceType
from registry.cli.render import emit, talk
from registry.cli.showing import views
from registry.cli.words import full_option
from registry.core.names import Name
from registry.core.resolving import Reference
from registry.workflows.show import facts


@click.command(
    epilog=example("reckon show rung/d48", "reckon show rung/d48:transcript.jsonl", "reckon show sha256:3f2a91c0"),
)
@click.argument("name", type=ReferenceType(wiring.names))
@full_option
@json_option
def command(name: Reference, full: bool, as_json: bool) -> None:
    """Show what is on record of NAME: recipe, product, executions, witnesses, trackers.

    NAME is an artifact, a file of one, or the first eight or more digits of a digest.
    """
    foreign = adopting.shelf_with(name.stage) if isinstance(name, Name) else None
    if foreign is not None and isinstance(name, Name):
        adopted.show(foreign, name, full=full, as_json=as_json)
        return
    shower = wiring.shower(wiring.root())
    shown = shower.show(name)
    for damage in shower.ledger.damages:
        talk(f"The {damage.kind} record {damage.name} is damaged: {damage.reason}")
    emit(facts(shown), *views(shown, full), as_json=as_json)
