"""The commands of ``reckon release`` that look at releases: ``list``, ``show`` and ``verify``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from registry.cli import release_audit, releasing, trusting, wiring
from registry.cli.options import example, json_option
from registry.cli.render import Cell, Fields, Table, emit, talk
from registry.cli.words import full_option
from registry.core.release import Release, parse_reference
from registry.errors import UnknownName


@click.command(name="list", epilog=example("reckon release list"))
@json_option
def list_(as_json: bool) -> None:
    """List releases that were built here, by name and version."""
    told = releasing.releases(wiring.root())
    for damage in told.damages:
        talk(f"The release record {damage}")
    rows: list[Sequence[Cell]] = [
        (
            str(one.identity),
            one.identity.repository,
            str(one.terms.weights.checkpoint),
            one.release.short,
            one.terms.time[:19] + "Z" if len(one.terms.time) > 20 else one.terms.time,
        )
        for one in told.records
    ]
    table = Table(columns=("release", "repository", "checkpoint", "digest", "built"), rows=rows)
    emit(
        {"releases": [one.to_json() for one in told.records]},
        table if rows else "No release is on record.",
        as_json=as_json,
    )


@click.command(epilog=example("reckon release show pocket-moe", "reckon release show pocket-moe@1.0.0"))
@click.argument("release", metavar="NAME[@X.Y.Z]")
@json_option
def show(release: str, as_json: bool) -> None:
    """Show what is on record of a release: of its highest version, or of the one that is given."""
    found = releasing.releases(wiring.root()).find(*parse_reference(release))
    if found is None:
        raise UnknownName(f"No release {release} is on record.", remedy="See 'reckon release list'.")
    emit(found.to_json(), fields_of(found), as_json=as_json)


@click.command(epilog=example("reckon release verify artifacts/releases/pocket-moe/1.0.0"))
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@trusting.trust_option
@full_option
@json_option
def verify(folder: Path, **how: Any) -> None:
    """Check a release in DIR: signatures and trust, every file, the export, and all that was made from records.

    A model card that says something else than the records is a finding. For the lineage too: reckon audit DIR.
    """
    release_audit.verify(folder, how)


def fields_of(one: Release) -> Fields:
    """The facts of a release for people."""
    terms = one.terms
    return Fields(
        values={
            "release": str(one.identity),
            "repository": one.identity.repository,
            "digest": str(one.release),
            "release before it": str(terms.parent or "none"),
            "made from": str(terms.weights.checkpoint),
            "checkpoint root": str(terms.weights.checkpoint_root),
            "weights root": str(terms.weights.root),
            "product": str(terms.product),
            "files": str(one.files),
            "signed by": one.key,
            "accepted taint": terms.accepted_taint or "none",
            "built": f"{terms.time} at commit {terms.commit}",
        }
    )


COMMANDS: Final[tuple[click.Command, ...]] = (list_, show, verify)
