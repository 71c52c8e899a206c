"""Setup: the environment that was imported and the machine that it ran on, as the run told them.

Nobody can hash a machine of last year, so these edges are claimed at best. They must still agree with what can be
checked: the pins of the lock, the library versions in the recipe's determinism, the machine's kind. Refuses an
execution without an environment on record, and versions that are not the locked or asked ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from registry.core.audit.code import LOCK
from registry.core.audit.edges import Edge, Kind, Place, State
from registry.core.audit.evidence import Evidence, Node
from registry.core.canonical import Json
from registry.core.digests import sha256
from registry.core.findings import Finding, Trouble
from registry.core.records import Environment, Execution
from registry.errors import ReckonError

_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)", re.MULTILINE)
_MOST = 100


def edges(node: Node, evidence: Evidence) -> Iterator[Edge]:
    """The edges from a product to environment and hardware."""
    environment, hardware = Place(node.label, Kind.ENVIRONMENT), Place(node.label, Kind.HARDWARE)
    pins = _pins(node, evidence)
    findings: list[Finding] = []
    machines: list[Finding] = []
    for digest, execution in node.executions[:_MOST]:
        found = evidence.ledger.environments.get(execution.environment) if execution.environment else None
        if found is None or execution.environment is None:
            text = f"The execution {digest.short} has no environment on record."
            findings.append(environment.finding(Trouble.MISSING, text))
        else:
            if execution.environment not in evidence.imported:
                evidence.imported[execution.environment] = _versions(found)
            findings += _imported(environment, node, evidence.imported[execution.environment], pins)
        machines += _machine(hardware, node, execution, found)
    locked = f"{len(pins)} pins of the lock agree" if pins else "the lock was not at hand"
    yield environment.edge(State.CLAIMED, f"as the run told it; {locked}", findings)
    yield hardware.edge(State.CLAIMED, f"as the run told it: {_hosts(node)}", machines)


def normal(name: str) -> str:
    """A distribution's name in the form in which names are compared (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _pins(node: Node, evidence: Evidence) -> Mapping[str, frozenset[str]]:
    """Name → versions of the lock that the recipe names, if a commit at hand holds it. A lock for several Pythons may
    have several versions of a library."""
    if evidence.git is None or node.recipe is None:
        return {}
    for revision in node.revisions[:_MOST]:
        try:
            data = evidence.git.content(revision.commit, LOCK)
        except ReckonError:
            continue
        if data is not None and sha256(data) == node.recipe.lock:
            return _parsed(data)
    return {}


@lru_cache(maxsize=8)
def _parsed(lock: bytes) -> Mapping[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for name, version in _PIN.findall(lock.decode("utf-8", "replace")):
        found.setdefault(normal(name), set()).add(version)
    return {name: frozenset(versions) for name, versions in found.items()}


def _versions(environment: Environment) -> Mapping[str, str]:
    return {normal(str(one.get("name"))): str(one.get("version")) for one in environment.distributions}


def _imported(
    place: Place, node: Node, told: Mapping[str, str], pins: Mapping[str, frozenset[str]]
) -> Iterator[Finding]:
    """What was imported in another version than the lock pins, or than the recipe's determinism names."""
    for name in sorted(name for name, version in told.items() if version not in pins.get(name, {version})):
        locked = " or ".join(sorted(pins[name]))
        text = f"{name} {told[name]} was imported; the lock pins {locked}."
        yield place.finding(Trouble.SETUP, text, locked, told[name])
    for name, wanted in (node.recipe.determinism if node.recipe else {}).items():
        found = told.get(normal(name))
        if isinstance(wanted, str) and found is not None and found != wanted:
            text = f"{name} {found} was imported; the recipe's determinism names {wanted}."
            yield place.finding(Trouble.SETUP, text, wanted, found)


def _machine(place: Place, node: Node, execution: Execution, environment: Environment | None) -> Iterator[Finding]:
    if not execution.host.get("name"):
        yield place.finding(Trouble.MISSING, f"The attempt {execution.attempt} does not say on which host it ran.")
    kinds = {
        "the recipe's determinism": node.recipe.determinism.get("machine") if node.recipe else None,
        "the host": execution.host.get("machine"),
        "the environment": environment.platform.get("machine") if environment else None,
    }
    told = {who: kind for who, kind in kinds.items() if kind is not None}
    if len(set(map(str, told.values()))) > 1:
        said = ", ".join(f"{who} says {kind}" for who, kind in told.items())
        text = f"The attempt {execution.attempt} ran on two kinds of machine: {said}."
        yield place.finding(Trouble.SETUP, text, *list(map(str, told.values()))[:2])


def _hosts(node: Node) -> str:
    told = (_host(execution.host) for _, execution in node.executions[:_MOST])
    return ", ".join(dict.fromkeys(told)) or "nothing"


def _host(facts: Mapping[str, Json]) -> str:
    parts = (facts.get("name"), facts.get("processor"), f"{facts.get('cores')} cores")
    return " ".join(str(part) for part in parts if part)
