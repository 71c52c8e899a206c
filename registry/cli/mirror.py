"""``reckon mirror``: a whole repository for a place without network, as a folder or on another hub."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from registry.cli import mirroring, pulling
from registry.cli.options import example, json_option
from registry.cli.render import Fields, emit, progress
from registry.cli.words import amount, count
from registry.core.pulling import Reference
from registry.errors import Refused

if TYPE_CHECKING:
    from registry.workflows.pull import Mirrored


@click.command(
    epilog=example(
        "reckon mirror lab/pocket /srv/mirror",
        "reckon pull hf://lab/pocket@v1.0.0 --offline --mirror /srv/mirror -o pocket/",
        "reckon mirror lab/pocket http://hub.cluster:8000 --offline --mirror /srv/mirror",
    )
)
@click.argument("repository", metavar="[datasets/]ORG/NAME")
@click.argument("target", metavar="DIR|URL")
@click.option("--public", is_flag=True, help="Make a new repository at URL public.")
@pulling.origin_options
@json_option
def command(repository: str, target: str, *, public: bool, as_json: bool, **how: Any) -> None:
    """Copy every branch and tag of a repository, each file hashed, to a folder or to another hub.

    The folder has the layout of the Hugging Face client's cache, so 'reckon pull --offline --mirror DIR' reads it, and
    any other program with HF_HUB_CACHE=DIR and HF_HUB_OFFLINE=1. Run it again to bring it up to date; what is there is
    hashed again. Signed releases are checked as for a pull. A hub at URL gets commits of its own with the same
    files under the same names. If it is not that of HF_ENDPOINT, it is written to with HF_TOKEN only, and the source is
    read with the stored login ('hf auth login'), or with none.
    """
    reference = _reference(repository)
    if not target.startswith(("http://", "https://")):
        made = _mirrored(reference, Path(target), how)
        emit(_facts(reference, target, made), _fields(reference, target, made), as_json=as_json)
        return
    if how["mirror"] is not None:
        written = _copied(reference, how["mirror"], (target, public))
    else:
        with TemporaryDirectory(prefix="mirror-") as scratch:
            _mirrored(reference, Path(scratch), how, mirroring.tokens(target)[0])
            written = _copied(reference, Path(scratch), (target, public))
    facts = {"repository": reference.repository, "target": target, "written": written}
    emit(facts, f"{target}: {count(written, 'branch or tag', 'branches and tags')} written.", as_json=as_json)


def _reference(text: str) -> Reference:
    """The repository that is named. Raises ``Refused`` for what names none, or one revision of it."""
    plain = text.removeprefix("hf://")
    if "@" in plain:
        raise Refused(
            f"A mirror holds every branch and tag, not {plain.partition('@')[2]!r} alone.",
            remedy=f"Name the repository: {plain.partition('@')[0]}.",
        )
    try:
        return Reference.parse(f"hf://{plain}")
    except Refused as error:
        raise Refused(
            f"{text!r} names no repository of a hub.", remedy="Write it like lab/model, or datasets/lab/corpus."
        ) from error


def _mirrored(reference: Reference, folder: Path, how: Mapping[str, Any], token: str | None = None) -> Mirrored:
    asked = pulling.asked(how, token)
    plan = mirroring.plan(asked, reference)
    with progress("Mirroring", plan.size_bytes, in_bytes=True) as advance:
        return mirroring.mirror(asked, plan, reference, folder, advance)


def _copied(reference: Reference, folder: Path, to: tuple[str, bool]) -> int:
    with progress("Sending", None, in_bytes=True) as advance:
        return mirroring.copy(reference, folder, to, advance)


def _facts(reference: Reference, target: str, made: Mirrored) -> Mapping[str, object]:
    return {
        "repository": reference.repository,
        "target": target,
        "branches": made.branches,
        "tags": made.tags,
        "releases": [
            {"revision": one.reference.revision, "by": one.signed.by, "trusted": one.signed.trusted}
            for one in made.releases
            if one.signed is not None
        ],
        "blobs": len(made.pulled.landed) + len(made.pulled.kept),
        "fetched_bytes": made.pulled.fetched_bytes,
    }


def _fields(reference: Reference, target: str, made: Mirrored) -> Fields:
    pulled = made.pulled
    blobs = (
        f"{count(len(pulled.landed), 'file')} came ({amount(pulled.fetched_bytes)}), {len(pulled.kept)} hashed again"
    )
    signed = [f"{one.reference.revision}: {one.signed.by}" for one in made.releases if one.signed is not None]
    return Fields(
        values={
            "repository": reference.repository,
            "mirror": target,
            "branches": ", ".join(sorted(made.branches)),
            "tags": ", ".join(sorted(made.tags)),
            "files": blobs,
            "signed": "; ".join(signed),
        }
    )
