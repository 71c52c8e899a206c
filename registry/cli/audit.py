"""``reckon audit``: walk an artifact back to its origins and judge every edge."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from registry.cli import adopted, adopting, auditing, planning, pulling, release_audit, remote_audit, wiring
from registry.cli.audited import edge_facts, edge_named, explanation, facts, views
from registry.cli.options import NameType, example, json_option
from registry.cli.render import conclude, emit, progress
from registry.cli.words import full_option
from registry.core.names import Name, known
from registry.core.pulling import Reference

if TYPE_CHECKING:
    from registry.workflows.audit import Auditor

_BYTES, _RECORDS, _HUB = "bytes", "records", "hf://"
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_PLACE = click.Path(exists=True, path_type=Path)


class _AnyName(NameType):
    """A name that need not be of this archive: a bundle brings its own. Or a release, wherever it lies."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Name:
        text = str(value)
        # click's parameter types have one result; the command tells them apart
        place = release_audit.folder_of(text)
        if place is not None:
            return place  # type: ignore[return-value]
        return Reference.parse(text) if text.startswith(_HUB) else Name.parse(text)  # type: ignore[return-value]


@click.command(
    epilog=example(
        "reckon audit export",
        "reckon audit hero/2@step-594 --depth records",
        "reckon audit export --explain hero/2+parent=hero/1@step-225",
        "reckon audit --bundle export.tar --weights ./export",
        "reckon audit hf://lab/pocket@v1.0.0 --records",
        "reckon audit ./pocket-moe",
    )
)
@click.argument("name", type=_AnyName(wiring.names), required=False)
@click.option("--depth", type=click.Choice([_BYTES, _RECORDS]), help="Hash all bytes, or read records and small files.")
@click.option("--bundle", type=_FILE, help="Audit a bundle, with nothing else at hand.")
@click.option("--weights", type=_PLACE, help="Folder or file that holds the bytes of NAME itself.")
@click.option("--records", is_flag=True, help="The same as --depth records: of a release on a hub, without weights.")
@click.option("--explain", metavar="EDGE", help="Show one edge: what it rests on, and how to check it by hand.")
@click.option(
    "--programs", is_flag=True, help="Lower recorded programs again: runs code of trusted commits, and of here."
)
@click.option("--program-of", multiple=True, metavar="COMMIT", help="Is that commit still the same program?")
@pulling.origin_options
@full_option
@json_option
def command(
    name: Name | Reference | Path | None, bundle: Path | None, weights: Path | None, explain: str | None, **how: Any
) -> None:
    """Walk NAME back to its origins: weights, checkpoints, segments, data, code, environment, machine.

    Every edge ends as verified, attested, claimed, withheld, missing or contradicted, and the verdict is the worst of
    them. Ends with status 1 when an edge is missing or contradicted, and when nothing was checked.

    NAME may be a release on a hub, hf://ORG/NAME@REV: signatures and trust are judged first, its bytes are pulled to a
    temporary folder and hashed, and its bundle is audited. That needs nothing but the network, or a mirror.

    Or it is the folder of a release, or a release that was built here (pocket-moe@1.0.0), with nothing else at hand.
    """
    from registry.workflows.audit import Depth

    depth = _RECORDS if how.pop("records") else how.pop("depth", None)
    if isinstance(name, Reference):
        if bundle or weights:
            raise click.UsageError("A release on a hub brings its own bundle and weights.")
        remote_audit.audit(name, depth or _BYTES, explain, how)
        return
    if isinstance(name, Path):
        release_audit.audit(name, explain, how)
        return
    foreign = adopting.shelf_with(name.stage) if name is not None and bundle is None else None
    if foreign is not None and name is not None:
        adopted.audit(foreign, name, explain, full=how["full"], as_json=how["as_json"])
        return

    chosen = depth or (_RECORDS if bundle is not None or explain is not None else _BYTES)
    with _auditor(name, bundle, weights) as (wanted, plain):
        auditor = planning.with_programs(plain, how["programs"], how["program_of"])
        audit, evidence = auditor.audit(wanted, Depth(chosen))
        if explain is None:
            emit(facts(audit), *views(audit, how["full"]), as_json=how["as_json"])
            conclude(holds=audit.holds)
            return
        edge = edge_named(explain, audit)
        emit(edge_facts(edge, evidence), *explanation(edge, evidence, bundle), as_json=how["as_json"])
        conclude(holds=edge.holds)


@contextmanager
def _auditor(name: Name | None, bundle: Path | None, weights: Path | None) -> Iterator[tuple[Name, Auditor]]:
    """The auditor, and the name to audit: a bundle is about one by itself."""
    if bundle is not None:
        with auditing.bundle_auditor(bundle, weights=weights) as (cover, auditor):
            about = Name.parse(cover.name)
            wanted = name or about
            known(wanted.stage, {*auditor.ledger.stages(), about.stage})
            yield wanted, auditor
        return
    if name is None:
        raise click.UsageError("Give a NAME, or a bundle with --bundle.")
    archive = wiring.root()
    with (
        progress("Auditing", None, in_bytes=True) as advance,
        auditing.auditor(archive, advance, weights=weights) as auditor,
    ):
        known(name.stage, {*auditor.ledger.stages(), *wiring.pipeline(archive).stages()})
        yield name, auditor
