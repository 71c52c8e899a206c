"""``reckon audit hf://…``: a release audited where there is nothing but the network, or a mirror."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from registry.cli import auditing, pulling, releasing
from registry.cli.audited import edge_facts, edge_named, explanation, facts, views
from registry.cli.render import Fields, conclude, emit, progress, talk
from registry.core.dsse import LARGEST_ENVELOPE
from registry.core.names import Name
from registry.core.pulling import LARGEST_REGULAR, Reference, RemoteFile
from registry.core.release import BUNDLE
from registry.errors import DoesNotHold, MalformedRecord, UnknownName

if TYPE_CHECKING:
    from registry.core.audit.evidence import Evidence
    from registry.core.audit.judging import Audit
    from registry.workflows.pull import Looked
    from registry.workflows.pull.vouching import Vouched

BYTES, RECORDS = "bytes", "records"


def audit(reference: Reference, depth: str, explain: str | None, how: Mapping[str, Any]) -> None:
    """Audit a release on a hub: signatures and trust, then files, then the lineage in its bundle."""
    found, evidence = _audit(reference, depth, {**how, "unsigned": True})
    if explain is None:
        emit(facts(found), *views(found, how["full"]), as_json=how["as_json"])
        conclude(holds=found.holds)
        return
    edge = edge_named(explain, found)
    if evidence is not None and any(edge.holder == node.label for node in evidence.nodes.values()):
        talk(f"The bundle: reckon pull {reference} {BUNDLE} -o .")
        emit(edge_facts(edge, evidence), *explanation(edge, evidence, Path(BUNDLE)), as_json=how["as_json"])
    else:
        by_hand = f"reckon pull {reference} -o release && model_signing verify key release --public_key KEY.pub ..."
        values = {"edge": edge.id, "state": edge.state.value, "here": edge.reason, "by hand": by_hand}
        emit(values, Fields(values=values), as_json=how["as_json"])
    conclude(holds=edge.holds)


def _audit(reference: Reference, depth: str, how: Mapping[str, Any]) -> tuple[Audit, Evidence | None]:
    from registry.workflows.pull.vouching import Vouched, refused

    asked = pulling.asked(how)
    try:
        looked = asked.looker.look(reference)
    except DoesNotHold as trouble:
        return refused(reference, depth, trouble), None
    for text in looked.said:
        talk(f"WARNING: {text}")
    if looked.signed is None:
        return Vouched(release=looked, pulled=()).alone(depth), None
    with TemporaryDirectory(prefix="audit-") as scratch:
        folder = Path(scratch)
        vouched = _brought(asked, looked, depth, folder)
        vouched = replace(vouched, wrong=pulling.inside(looked, folder, how["trust_file"]))
        if not (folder / BUNDLE).is_file():
            return vouched.alone(depth), None
        try:
            return _lineage(vouched, folder, depth, how["trust_file"])
        except (MalformedRecord, UnknownName) as trouble:
            return vouched.alone(depth, trouble), None


def _brought(asked: pulling.Asked, looked: Looked, depth: str, folder: Path) -> Vouched:
    """Pull what the depth needs; what explains a release first, so that it can be read although a weight is bad."""
    from registry.workflows.pull.vouching import Vouched

    first = [file for file in looked.listing.files if _explains(file)]
    rest = [file for file in looked.listing.files if not _explains(file)] if depth == BYTES else []
    vouched = Vouched(release=looked, pulled=())
    total = sum(file.size_bytes for file in (*first, *rest))
    with progress("Pulling", total, in_bytes=True) as advance, pulling.landing(folder) as landing:
        puller = asked.puller(advance)
        for files in filter(None, (first, rest)):
            try:
                pulled = puller.pull(looked, [looked.wanted(file) for file in files], landing, whole=False)
            except DoesNotHold as trouble:
                return replace(vouched, trouble=trouble)
            vouched = replace(vouched, pulled=(*vouched.pulled, pulled))
    return vouched


def _explains(file: RemoteFile) -> bool:
    """Whether a file tells of the release, and is as small as such a file is; a bundle may be larger."""
    most = LARGEST_REGULAR if file.path == BUNDLE else LARGEST_ENVELOPE
    return file.size_bytes <= most and (not file.large or file.path.startswith("provenance/"))


def _lineage(vouched: Vouched, folder: Path, depth: str, trust_file: Path | None) -> tuple[Audit, Evidence]:
    """The audit of the bundle; with all bytes here, of the folder as it would be audited anywhere."""
    from registry.core.audit import released
    from registry.core.resolving import artifact
    from registry.workflows.audit import Depth

    if depth == BYTES and vouched.trouble is None:
        with releasing.inspected(folder, trust_file) as (looked, auditor):
            signed = looked.trusted.signed
            if auditor is not None and signed is not None:
                edges = tuple(released.edges(looked.shown(auditor, signed.statement)))
                found, evidence = auditor.audit(Name.parse(signed.statement.terms.artifact), Depth.RECORDS)
                name = str(vouched.release.reference)
                return replace(found, name=name, depth=depth, edges=(*edges, *found.edges)), evidence
    with auditing.bundle_auditor(folder / BUNDLE) as (cover, reader):
        held = artifact(reader.ledger, Name.parse(cover.name))
        found, evidence = reader.audit(Name.parse(cover.name), Depth.RECORDS)
    tie = vouched.tie(held.product_digest, held.output)
    return vouched.with_lineage(replace(found, depth=depth), tie), evidence
