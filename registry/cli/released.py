"""The commands of ``reckon release`` that look at releases: ``list``, ``show`` and ``verify``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import click

from registry.cli import pushing, release_audit, releasing, trusting, wiring
from registry.cli.options import example, json_option
from registry.cli.render import Cell, Fields, Table, emit, talk
from registry.cli.words import full_option
from registry.core.release import Release, parse_reference
from registry.errors import UnknownName

_LISTED: Final = "See 'reckon release list'."


@click.command(name="list", epilog=example("reckon release list"))
@json_option
def list_(as_json: bool) -> None:
    """List releases that were built here, by name and version."""
    archive = wiring.root()
    told, published = releasing.releases(archive), pushing.publications(archive)
    for damage in told.damages:
        talk(f"The release record {damage}")
    places = {one.release: published.newest(one.release) for one in told.records}
    rows: list[Sequence[Cell]] = [
        (
            str(one.identity),
            str(one.terms.weights.checkpoint),
            one.release.short,
            one.terms.time[:19] + "Z" if len(one.terms.time) > 20 else one.terms.time,
            one.identity.repository,
            "not published" if (place := places[one.release]) is None else f"{place.tag} at {place.commit[:12]}",
        )
        for one in told.records
    ]
    table = Table(columns=("release", "checkpoint", "digest", "built", "repository", "published"), rows=rows)
    facts = {"releases": [{**one.to_json(), "published": places[one.release]} for one in told.records]}
    emit(facts, table if rows else "No release is on record.", as_json=as_json)


@click.command(epilog=example("reckon release show pocket-moe", "reckon release show pocket-moe@1.0.0"))
@click.argument("release", metavar="NAME[@X.Y.Z]")
@json_option
def show(release: str, as_json: bool) -> None:
    """Show what is on record of a release: of its highest version, or of the one that is given."""
    found = releasing.releases(wiring.root()).find(*parse_reference(release))
    if found is None:
        raise UnknownName(f"No release {release} is on record.", remedy=_LISTED)
    emit(found.to_json(), fields_of(found), as_json=as_json)


@click.command(epilog=example("reckon release verify pocket-moe", "reckon release verify ./pocket-moe"))
@click.argument("release", metavar="DIR|NAME[@X.Y.Z]")
@trusting.trust_option
@full_option
@json_option
def verify(release: str, **how: Any) -> None:
    """Check a release in DIR, or one that was built here: signatures, files, the export, what was made from records.

    A model card that says something else than the records is a finding. For the lineage too: reckon audit DIR.
    Large files are taken by BLAKE3 where it was signed beside their SHA-256; the audit takes SHA-256 of all.
    """
    folder = release_audit.folder_of(release)
    if folder is None:
        raise UnknownName(f"{release} is neither the folder of a release nor one that was built here.", remedy=_LISTED)
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
