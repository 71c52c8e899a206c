"""Views of an audit: every edge with its state, what was consulted, how far it was reproduced, and the conclusion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from registry.cli.render import Cell, Fields, Mark, Table, Tone, View
from registry.cli.words import amount, count, cut
from registry.core.audit.by_hand import Step, steps
from registry.core.audit.edges import REASONS, Edge, State
from registry.core.audit.evidence import Evidence
from registry.core.audit.judging import Audit
from registry.core.findings import Finding
from registry.errors import UnknownName

_TONES = {
    State.VERIFIED: Tone.GOOD,
    State.ATTESTED: Tone.GOOD,
    State.CLAIMED: Tone.DOUBT,
    State.WITHHELD: Tone.DOUBT,
    State.MISSING: Tone.BAD,
    State.CONTRADICTED: Tone.BAD,
}
_MOST_EDGES = 400
_MOST_FINDINGS = 20


def facts(audit: Audit) -> Mapping[str, object]:
    """All facts of an audit, for JSON."""
    replayed, total = audit.steps
    return {
        "name": audit.name,
        "product": audit.product,
        "depth": audit.depth,
        "holds": audit.holds,
        "verdict": audit.verdict,
        "edges": [_edge(edge) for edge in audit.edges],
        "coverage": {
            "edges": len(audit.edges),
            "checked": audit.checked,
            "looked": audit.looked,
            "replayed_steps": replayed,
            "total_steps": total,
        },
        "tier": audit.tier,
        "reproduced": audit.reproduced,
        "consulted": audit.consulted,
        "marks": audit.marks,
        "attested": audit.attested,
    }


def edge_named(text: str, audit: Audit) -> Edge:
    """The edge of that id, or the only one whose id begins so. Raises ``UnknownName`` with the nearest ones."""
    return one_edge(text, audit.name, audit.edges)


def one_edge(text: str, name: str, edges: Sequence[Edge]) -> Edge:
    """The edge of that id, or the only one whose id begins so, of an audit of ``name``."""
    found = {edge.id: edge for edge in edges}
    begun = [edge for key, edge in found.items() if key.startswith(text)]
    if text in found or len(begun) == 1:
        return found.get(text) or begun[0]
    near = get_close_matches(text, found, n=3, cutoff=0.0)
    raise UnknownName(
        f"{name} has no edge {text[:200]!r}.",
        remedy=f"Nearest: {', '.join(near) or 'none'}. 'reckon audit {name}' lists all.",
    )


def edge_facts(edge: Edge, evidence: Evidence) -> Mapping[str, object]:
    """One edge with how to check it by hand, for JSON."""
    return {**_edge(edge), "means": REASONS[edge.state], "by_hand": steps(edge, evidence)}


def views(audit: Audit, full: bool) -> Iterator[View]:
    """An audit for people."""
    listed = audit.edges if full or len(audit.edges) <= _MOST_EDGES else _worst(audit.edges)
    rows: list[Sequence[Cell]] = [(_state(edge.state), edge.id, edge.reason) for edge in listed]
    yield Table(columns=("state", "edge", "why"), rows=rows)
    if len(listed) < len(audit.edges):
        yield Mark(f"… {count(len(audit.edges) - len(listed), 'edge')} more, none of them worse: --full", Tone.FAINT)
    reproductions: list[Sequence[Cell]] = [
        (one.holder, one.standing.label, str(one.standing.witnesses), ", ".join(one.standing.hosts))
        for one in audit.reproduced[: _MOST_EDGES if not full else None]
    ]
    if reproductions:
        yield Table(title="made again", columns=("artifact", "tier", "witnesses", "hosts"), rows=reproductions)
    if audit.attested:
        yield _attested(audit)
    if audit.consulted:
        yield Fields(title="witness systems", values=dict(sorted(audit.consulted.items())))
    marked: list[Sequence[Cell]] = [(Mark(one.what, Tone.DOUBT), one.holder, one.text) for one in audit.marks]
    if marked:
        yield Table(title="marked", columns=("what", "artifact", "text"), rows=cut(marked, full, _MOST_FINDINGS))
    yield from _findings(audit.findings, full)
    yield from _conclusion(audit)


def explanation(edge: Edge, evidence: Evidence, bundle: Path | None) -> Iterator[View]:
    """One edge for people."""
    yield from edge_view(edge, steps(edge, evidence), bundle)


def edge_view(edge: Edge, listed: Sequence[Step], bundle: Path | None = None) -> Iterator[View]:
    """One edge with the steps to check it by hand."""
    yield Fields(
        values={
            "edge": edge.id,
            "state": _state(edge.state),
            "which means": REASONS[edge.state],
            "here": edge.reason,
        }
    )
    yield from _findings(edge.findings, full=True)
    if bundle is not None:
        yield f"In an empty folder, first: tar -xf {bundle.name}"
        yield "Small artifacts lie under bytes/ and git's objects under git/, each named by its digest."
    for number, step in enumerate(listed, start=1):
        yield f"{number}. {step.command}"
        yield f"   should say: {step.expected}"


def _attested(audit: Audit) -> Table:
    """Third parties as witnesses: who, how far, on what setup, and what their word is worth here."""
    rows: list[Sequence[Cell]] = [
        (one.holder, one.who, one.outcome, one.tier, one.setup, Mark(one.trust, Tone.GOOD if one.counts else Tone.BAD))
        for one in audit.attested
    ]
    columns = ("artifact", "who", "outcome", "tier", "setup", "trust")
    return Table(title="attested by third parties", columns=columns, rows=rows)


def _edge(edge: Edge) -> Mapping[str, object]:
    return {"id": edge.id, "state": edge.state, "reason": edge.reason, "findings": edge.findings}


def _worst(edges: Sequence[Edge]) -> list[Edge]:
    """As many edges as are shown, the worst ones, in their order."""
    rank = {state: place for place, state in enumerate(State)}
    chosen = sorted(range(len(edges)), key=lambda at: (-rank[edges[at].state], at))[:_MOST_EDGES]
    return [edges[at] for at in sorted(chosen)]


def _findings(findings: Sequence[Finding], full: bool) -> Iterator[View]:
    for finding in findings if full else findings[:_MOST_FINDINGS]:
        yield Mark(f"{finding.subject}: {finding.trouble}: {finding.text}", Tone.BAD)
        for side, value in (("recorded", finding.recorded), ("found", finding.found)):
            if value is not None:
                yield f"  {side.ljust(8)} {value}"
    if not full and len(findings) > _MOST_FINDINGS:
        yield Mark(f"… {count(len(findings) - _MOST_FINDINGS, 'finding')} more: --full", Tone.FAINT)


def _conclusion(audit: Audit) -> Iterator[View]:
    replayed, total = audit.steps
    states = Counter(edge.state for edge in audit.edges)
    told = ", ".join(f"{states[state]} {state}" for state in State if states[state])
    looked = audit.looked
    yield f"Edges: {told}. Checked: {audit.checked} of {len(audit.edges)}."
    hashed = f"{count(looked.files, 'file')} ({amount(looked.size_bytes)}) and {count(looked.tensors, 'tensor')} hashed"
    read = f"{count(looked.records, 'record')} and {count(looked.tables, 'table')} read"
    yield f"Coverage: {hashed}, {read}; {replayed} of {total} steps replayed, tier {audit.tier}."
    if not audit.checked:
        yield Mark("Does not hold: nothing was checked.", Tone.BAD)
    elif audit.holds:
        yield Mark(f"Holds. The worst edge of {audit.name} is {audit.verdict}: {_meaning(audit)}.", Tone.GOOD)
    else:
        wrong = [edge.id for edge in audit.edges if edge.state is audit.verdict]
        yield Mark(f"Does not hold. The worst edges are {audit.verdict}: {', '.join(wrong[:5])}.", Tone.BAD)
        yield f"See: reckon audit {audit.name} --explain {wrong[0]}"


def _meaning(audit: Audit) -> str:
    return REASONS[audit.verdict] if audit.verdict is not None else "nothing was checked"


def _state(state: State) -> Cell:
    return Mark(state.value, _TONES[state])
