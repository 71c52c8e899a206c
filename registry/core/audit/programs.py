"""Programs: what was recorded of a recipe's training step, and what came of lowering it again.

Nobody lowers a program unless asked: the edge is then claimed. Lowered again from the recorded commit it is verified,
or contradicted when the same libraries give another program. Other libraries may lower otherwise: told as a mismatch of
setups, no contradiction. A recipe without a program record has no such edge: records are older than programs.
"""

from __future__ import annotations

from collections.abc import Iterator

from registry.core.audit.edges import Edge, Kind, Place, State
from registry.core.audit.evidence import Evidence, Node
from registry.core.findings import Finding, Trouble
from registry.core.program import Program, Relowered


def edges(node: Node, evidence: Evidence) -> Iterator[Edge]:
    """One edge for each platform and number of devices that the recipe's program is on record for."""
    recorded = evidence.programs.get(node.product.recipe, ())
    setups = dict.fromkeys((one.platform, one.devices) for one in recorded)
    for platform, devices in setups:
        place = Place(node.label, Kind.PROGRAM, f"{platform}-{devices}")
        same = [one for one in recorded if (one.platform, one.devices) == (platform, devices)]
        again = evidence.relowered.get(node.product.recipe, ())
        yield _edge(place, same, [one for one in again if one.commit is not None])


def remarks(node: Node, evidence: Evidence) -> Iterator[str]:
    """Whether other code, such as today's, still is the recorded program."""
    recorded = evidence.programs.get(node.product.recipe, ())
    for one in evidence.relowered.get(node.product.recipe, ()):
        for record in recorded[:1]:
            if one.commit != record.commit:
                yield f"{one.where} {_judged(record, one)}"


def _edge(place: Place, recorded: list[Program], again: list[Relowered]) -> Edge:
    findings = list(_quarrels(place, recorded))
    state, reason = State.CLAIMED, "lowered when it was recorded, and not again"
    for record in recorded:
        for one in (one for one in again if one.commit == record.commit):
            if one.program == record.program:
                state, reason = State.VERIFIED, f"lowered again from {record.commit[:12]}: the same program"
            elif one.program is not None and _comparable(record, one):
                text = f"The commit {record.commit[:12]}, lowered again with the same libraries, is another program."
                findings.append(place.finding(Trouble.RECORD, text, record.program, one.program))
            else:
                reason = one.reason or f"lowered again with other libraries ({_libraries(one)}): not comparable"
    return place.edge(state, reason, findings)


def _quarrels(place: Place, recorded: list[Program]) -> Iterator[Finding]:
    """Records that say of one recipe, form and set of libraries that it is two programs."""
    first: dict[str, Program] = {}
    for one in recorded:
        other = first.setdefault(f"{one.form} {sorted(one.libraries.items())} {sorted(one.mesh.items())}", one)
        if other.program != one.program:
            text = "Two records say of one recipe that it is two programs."
            yield place.finding(Trouble.RECORD, text, other.program, one.program)


def _comparable(record: Program, one: Relowered) -> bool:
    return record.form == one.form and dict(record.libraries) == dict(one.libraries)


def _judged(record: Program, one: Relowered) -> str:
    if one.program is None:
        return f"could not be lowered: {one.reason}"
    if one.program == record.program:
        return "is the same program"
    note = "" if _comparable(record, one) else ", lowered with other libraries"
    return f"is another program ({one.program.short}{note})"


def _libraries(one: Relowered) -> str:
    return ", ".join(f"{name} {version}" for name, version in one.libraries.items())
