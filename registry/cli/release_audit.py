"""``reckon audit`` and ``reckon release verify`` of a release folder: who signed it, what it is, and its lineage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.cli import releasing, wiring
from registry.cli.audited import edge_facts, edge_named, edge_view, explanation, facts, views
from registry.cli.render import conclude, emit
from registry.core.audit import released
from registry.core.audit.edges import Edge, Kind, Place, State
from registry.core.audit.judging import Audit, Looked
from registry.core.names import Name
from registry.core.release import BUNDLE, STATEMENT, parse_reference
from registry.errors import ReckonError, UnknownName

if TYPE_CHECKING:
    from registry.core.release import ReleaseStatement
    from registry.workflows.audit import Auditor


def folder_of(text: str) -> Path | None:
    """The folder of a release: the one that is named, or where a release on record was built. None for other names.

    A stage comes before a release of its name; with a version the release is meant. Raises ``UnknownName`` for a
    release on record whose folder is not here.
    """
    if (Path(text) / STATEMENT).is_file():
        return Path(text)
    try:
        name, version = parse_reference(text)
        archive = wiring.root()
    except ReckonError:
        return None
    found = releasing.releases(archive).find(name, version)
    if found is None or (version is None and name in wiring.ledger(archive).stages()):
        return None
    place = archive / releasing.RELEASES / found.identity.folder
    if not place.is_dir():
        raise UnknownName(f"{found.identity} was built here and its folder is gone.", remedy="Name the folder itself.")
    return place


def audit(folder: Path, explain: str | None, how: Mapping[str, Any]) -> None:
    """Audit a release folder: its own edges, then those of the lineage in its bundle."""
    from registry.workflows.audit import Depth

    with releasing.inspected(folder, how["trust_file"]) as (looked, auditor):
        signed = looked.trusted.signed
        if signed is not None:
            releasing.warn(signed.statement.digest, how["trust_file"])
        if auditor is None or signed is None:
            _tell(_closed(looked), how)
            return
        edges = tuple(released.edges(looked.shown(auditor, signed.statement)))
        lineage, evidence = auditor.audit(Name.parse(signed.statement.terms.artifact), Depth.RECORDS)
        whole = replace(lineage, name=str(folder), depth=Depth.BYTES, edges=(*edges, *lineage.edges))
        if explain is None:
            _tell(whole, how)
            return
        edge = edge_named(explain, whole)
        if edge in edges:
            _explain(edge, signed.statement, how)
            return
        emit(edge_facts(edge, evidence), *explanation(edge, evidence, Path(BUNDLE)), as_json=how["as_json"])
        conclude(holds=edge.holds)


def verify(folder: Path, how: Mapping[str, Any]) -> None:
    """Check a release folder by itself: signatures, files, the export, and what is made from records."""
    with releasing.inspected(folder, how["trust_file"], quickly=True) as (looked, auditor):
        signed = looked.trusted.signed
        if signed is not None:
            releasing.warn(signed.statement.digest, how["trust_file"])
        if auditor is None or signed is None:
            _tell(_closed(looked), how)
            return
        _tell(_alone(looked, tuple(released.edges(looked.shown(auditor, signed.statement))), auditor), how)


def _tell(found: Audit, how: Mapping[str, Any]) -> None:
    emit(facts(found), *views(found, how["full"]), as_json=how["as_json"])
    conclude(holds=found.holds)


def _explain(edge: Edge, statement: ReleaseStatement, how: Mapping[str, Any]) -> None:
    steps = released.steps(edge, statement)
    told = {"id": edge.id, "state": edge.state, "reason": edge.reason, "findings": edge.findings, "by_hand": steps}
    emit(told, *edge_view(edge, steps), as_json=how["as_json"])
    conclude(holds=edge.holds)


def _closed(looked: releasing.Inspected) -> Audit:
    """The outcome where the bundle is not to be opened: nobody signed the release, or it is not what was signed."""
    trusted = looked.trusted
    if trusted.signed is None:
        place = Place(str(looked.folder), Kind.SIGNATURE)
        return _alone(looked, [place.edge(State.MISSING, "nobody signed it", trusted.verdict.findings)], None)
    holder = str(trusted.signed.statement.identity)
    sealed = released.seals(holder, trusted.says, trusted.verdict.findings, len(looked.entries))
    return _alone(looked, tuple(sealed), None)


def _alone(looked: releasing.Inspected, edges: Sequence[Edge], auditor: Auditor | None) -> Audit:
    """An audit of these edges and no lineage."""
    signed = looked.trusted.signed
    return Audit(
        name=str(looked.folder),
        product=None if signed is None or auditor is None else signed.statement.terms.product,
        depth="bytes",
        edges=tuple(edges),
        looked=Looked(files=len(looked.entries), size_bytes=sum(one.size_bytes for one in looked.entries)),
        reproduced=(),
        consulted={},
        marks=(),
    )
