"""``reckon pull``: bring a release, a checkpoint or single tensors here, every byte verified."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from registry.cli import adopting, pulling
from registry.cli.options import example, json_option
from registry.cli.render import Fields, Mark, Tone, View, emit, progress, talk
from registry.cli.verify import command as verify
from registry.cli.words import amount, count
from registry.core.names import Name
from registry.core.pulling import Reference, chosen

if TYPE_CHECKING:
    from registry.workflows.pull import Kept, Looked, Pulled

_DVC = "dvc:"


@click.command(
    epilog=example(
        "reckon pull hf://lab/pocket@v1.0.0 -o pocket/",
        "reckon pull hf://lab/pocket@v1.0.0 config.json 'tokenizer*' -o pocket/",
        "reckon pull hf://lab/pocket@v1.0.0 --tensor 'model.embed*' -o embedding/",
        "reckon pull hf://lab/pocket@v1.0.0 --checkpoint step-594 -o step-594/",
        "reckon pull hf://lab/pocket@v1.0.0 --offline --mirror /srv/mirror -o pocket/",
        "reckon pull dvc:hero/2@step-594",
    )
)
@click.argument("source", metavar="hf://ORG/NAME[@REV]|dvc:NAME")
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.option("-o", "--output", "folder", type=click.Path(file_okay=False, path_type=Path), help="Where to put it.")
@click.option("--tensor", "globs", metavar="GLOB", multiple=True, help="Only these tensors; repeat it for several.")
@click.option("--checkpoint", metavar="step-N", help="A kept checkpoint that the release lists.")
@click.option("--unsigned", is_flag=True, help="Take what nobody signed, although there is a trust policy.")
@pulling.origin_options
@json_option
def command(source: str, paths: tuple[str, ...], folder: Path | None, **how: Any) -> None:
    """Bring files of a hub here: all of a revision, PATHs of it, single tensors, or a kept checkpoint.

    The revision is resolved to a commit once. Of a signed release, signatures and trust are checked before a weight
    moves, and every byte before it gets its final name; of anything else the bytes are held against what the hub lists,
    and that is said. A pull that was cut or killed goes on where it stopped: run it again. dvc:NAME brings a recorded
    artifact from the archive's DVC remote, and verifies it.
    """
    as_json, globs, checkpoint = how.pop("as_json"), how.pop("globs"), how.pop("checkpoint")
    if source.startswith(_DVC):
        if paths or folder or globs or checkpoint:
            raise click.UsageError("dvc:NAME takes nothing else: its place is the archive's.")
        adopting.refuse_unknown(source.removeprefix(_DVC))
        _from_dvc(Name.parse(source.removeprefix(_DVC)), as_json)
        return
    if folder is None or (globs and paths):
        raise click.UsageError("Say where to put it (-o DIR), and either PATHs or --tensor.")
    reference, asked = Reference.parse(source), pulling.asked(how)
    release = asked.looker.look(reference)
    for text in release.said:
        talk(f"WARNING: {text}")
    kept = asked.checkpoint(release, checkpoint) if checkpoint else None
    looked = kept.looked if kept else release
    pulled = _tensors(asked, (release, looked, kept), globs, folder) if globs else _files(asked, looked, paths, folder)
    emit(_facts(looked, kept, pulled, folder), *_views(looked, kept, pulled, folder), as_json=as_json)


def _files(asked: pulling.Asked, looked: Looked, paths: Sequence[str], folder: Path) -> Pulled:
    files = chosen(looked.listing, paths)
    total = sum(file.size_bytes for file in files)
    with progress("Pulling", total, in_bytes=True) as advance, pulling.landing(folder) as landing:
        wanted = [looked.wanted(file) for file in files]
        return asked.puller(advance).pull(looked, wanted, landing, whole=not paths)


def _tensors(
    asked: pulling.Asked, places: tuple[Looked, Looked, Kept | None], globs: Sequence[str], folder: Path
) -> Pulled:
    release, looked, kept = places
    with progress("Pulling", None, in_bytes=True) as advance, pulling.landing(folder) as landing:
        return asked.tensors(advance).pull(release, looked, kept.entry.root if kept else None, globs, landing)


def _from_dvc(name: Name, as_json: bool) -> None:
    """What DVC brings is believed no more than anything else: it ends in the same verification."""
    talk(f"DVC brings {name} …")
    pulling.from_dvc(name)
    click.get_current_context().invoke(verify, name=name, everything=False, cache=False, full=False, as_json=as_json)


def _facts(looked: Looked, kept: Kept | None, pulled: Pulled, folder: Path) -> dict[str, object]:
    signed = looked.signed
    return {
        "repository": looked.reference.repository,
        "revision": looked.reference.revision,
        "commit": pulled.commit,
        "folder": folder,
        "release": None
        if signed is None
        else {
            "name": signed.statement.identity.name,
            "version": signed.statement.identity.version,
            "digest": signed.statement.digest,
            "by": signed.by,
            "trusted": signed.trusted,
        },
        "checkpoint": None if kept is None else {"name": kept.entry.name, "root": kept.entry.root},
        "landed": pulled.landed,
        "kept": pulled.kept,
        "fetched_bytes": pulled.fetched_bytes,
        "resumed_bytes": pulled.resumed_bytes,
        "warnings": looked.said,
    }


def _views(looked: Looked, kept: Kept | None, pulled: Pulled, folder: Path) -> Iterator[View]:
    values = {"from": str(looked.reference), "commit": pulled.commit, "to": str(folder)}
    if looked.signed is not None:
        identity = looked.signed.statement.identity
        values |= {"release": f"{identity.name} {identity.version}", "signed": looked.signed.by}
    if kept is not None:
        values |= {"checkpoint": str(kept.entry.name), "root": str(kept.entry.root)}
    yield Fields(values=values)
    came = (
        f"{count(len(pulled.landed), 'file')} came"
        if not pulled.tensors
        else f"{count(len(pulled.landed), 'tensor')} came"
    )
    here = f", {len(pulled.kept)} were here already" if pulled.kept else ""
    resumed = f", {amount(pulled.resumed_bytes)} from an earlier try" if pulled.resumed_bytes else ""
    yield f"{came}{here}: {amount(pulled.fetched_bytes)} fetched{resumed}. Every byte was hashed."
    if looked.signed is None:
        yield Mark(
            "Not signed: the bytes are what the repository lists at this commit, and nobody answers for the list.",
            Tone.DOUBT,
        )
    elif not looked.signed.trusted:
        yield Mark("Signed, but no trust policy knows the key: see 'reckon keys'.", Tone.DOUBT)
