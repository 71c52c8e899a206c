"""The words of an audit: states of an edge, from best to worst, and kinds of edges, in the order of the walk.

An edge leads from an artifact to one thing that it claims to be made of. Refuses nothing; what is wrong is a finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from registry.core.findings import Finding, Trouble


class State(StrEnum):
    """How well an edge is known. The order of the members is the order of the audit, from best to worst."""

    VERIFIED = "verified"
    ATTESTED = "attested"
    CLAIMED = "claimed"
    WITHHELD = "withheld"
    MISSING = "missing"
    CONTRADICTED = "contradicted"


REASONS: Final = {
    State.VERIFIED: "bytes were hashed or read in this audit and agree with the record",
    State.ATTESTED: "somebody signed it; nobody looked again",
    State.CLAIMED: "only the record says so; anybody who has the bytes could check",
    State.WITHHELD: "the digest is known and the bytes are private, so that an outsider cannot check",
    State.MISSING: "evidence that should be here is not; absence never helps a claim",
    State.CONTRADICTED: "two pieces of evidence cannot both be true; one contradiction outweighs everything",
}
_RANK: Final = {state: rank for rank, state in enumerate(State)}


class Kind(StrEnum):
    """What an edge leads to."""

    SIGNATURE = "signature"
    FILES = "files"
    CARD = "card"  # what a release says of itself, made again from its records
    BYTES = "bytes"
    WEIGHTS = "weights"
    RECORD = "record"
    RECIPE = "recipe"
    ATTESTATION = "attestation"
    PARENT = "parent"
    STEPS = "steps"
    TRANSCRIPT = "transcript"
    ORDER = "order"
    HISTORY = "history"
    TRACKER = "tracker"
    FORECAST = "forecast"
    HYPOTHESIS = "hypothesis"
    INPUT = "input"
    CONFIG = "config"
    CODE = "code"
    COMMIT = "commit"
    LOCK = "lock"
    PROGRAM = "program"
    ENVIRONMENT = "environment"
    HARDWARE = "hardware"
    FIGURE = "figure"  # a number that a foreign record tells


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """From ``holder`` (an artifact's name) to something it claims; ``target`` tells several of one kind apart."""

    holder: str
    kind: Kind
    target: str = ""
    state: State
    reason: str
    findings: tuple[Finding, ...] = ()

    @property
    def id(self) -> str:
        """Its printable name, the same in every audit of the same records: ``hero/2+input=tokens/code``."""
        return f"{self.holder}+{self.kind}" + (f"={self.target}" if self.target else "")

    @property
    def checked(self) -> bool:
        """Whether evidence was looked at, rather than a claim repeated."""
        return self.state in (State.VERIFIED, State.ATTESTED, State.CONTRADICTED)

    @property
    def holds(self) -> bool:
        """Whether nothing here is missing or contradicted."""
        return self.state not in (State.MISSING, State.CONTRADICTED)


@dataclass(frozen=True, slots=True)
class Place:
    """Where an edge is: its holder, kind and target."""

    holder: str
    kind: Kind
    target: str = ""

    def edge(self, state: State, reason: str, findings: Sequence[Finding] = ()) -> Edge:
        """The edge here. Findings decide the state: missing if only things are missing, else contradicted."""
        if findings:
            state = worst([_state(finding) for finding in findings]) or state
            reason = findings[0].text if len(findings) == 1 else f"{findings[0].text} ({len(findings)} findings)"
        return Edge(
            holder=self.holder,
            kind=self.kind,
            target=self.target,
            state=state,
            reason=reason,
            findings=tuple(findings),
        )

    def finding(self, trouble: Trouble, text: str, recorded: object = None, found: object = None) -> Finding:
        """A finding about this place; ``recorded`` and ``found`` are the two sides."""
        return Finding(
            subject=self.holder,
            trouble=trouble,
            text=text,
            part=self.target,
            recorded=None if recorded is None else str(recorded),
            found=None if found is None else str(found),
        )


def worst(states: Iterable[State]) -> State | None:
    """The worst of some states; None of none."""
    return max(states, key=_RANK.__getitem__, default=None)


def _state(finding: Finding) -> State:
    return State.MISSING if finding.trouble is Trouble.MISSING else State.CONTRADICTED
