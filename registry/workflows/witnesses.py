"""Asking MLflow and W&B what they hold of executions, so that an audit can hold it against the record.

A tracker is a copy. What it says of recipe, product, commit and curve must be what the record says; where it says
nothing, or is not here, that is told and counts neither way. Refuses nothing: damage becomes a finding.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from registry.core.audit.evidence import Copy
from registry.core.digests import Digest
from registry.core.findings import Finding, Trouble
from registry.core.ledger import Ledger
from registry.core.pointers import Pointers
from registry.core.records import Execution
from registry.errors import ReckonError, UnknownName
from registry.ports import Tracker

HISTORY = "history"


class Sentence(Protocol):
    """A difference between two histories, in words."""

    @property
    def sentence(self) -> str:
        """The difference."""
        ...


class Compared(Protocol):
    """A history that was held against a tracker's copy of it."""

    @property
    def execution(self) -> Digest: ...
    @property
    def system(self) -> str: ...
    @property
    def where(self) -> str: ...
    @property
    def points(self) -> int: ...
    @property
    def findings(self) -> Sequence[Sentence]: ...
    @property
    def damage(self) -> Sequence[str]: ...


class Unread(Protocol):
    """A copy that could not be read: damaged, or not at hand."""

    @property
    def execution(self) -> Digest: ...
    @property
    def system(self) -> str: ...
    @property
    def where(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def damaged(self) -> bool: ...


class Curves(Protocol):
    """What came of comparing histories."""

    @property
    def compared(self) -> Sequence[Compared]: ...
    @property
    def unread(self) -> Sequence[Unread]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WitnessReader:
    """Asks the trackers. ``tracker`` is None where there is no MLflow to ask; ``curves`` compares all histories.

    ``ran_here`` tells whether the attempt of an execution left its traces here: a store of this checkout need not know
    what ran in another one.
    """

    tracker: Tracker | None
    pointers: Pointers
    ran_here: Callable[[Execution], bool]
    curves: Callable[[Ledger, Pointers, Collection[Digest]], Curves]

    def read(
        self, ledger: Ledger, executions: Collection[Digest]
    ) -> tuple[Mapping[Digest, tuple[Copy, ...]], Mapping[str, str]]:
        """What the trackers hold of the executions, by execution, and for each system what came of asking it."""
        said = _Said()
        self._curves(ledger, executions, said)
        if self.tracker is not None:
            for digest in executions:
                self._facts(self.tracker, digest, ledger.executions[digest], said)
        return {digest: tuple(found) for digest, found in said.copies.items()}, said.told(self.tracker is not None)

    def _curves(self, ledger: Ledger, executions: Collection[Digest], said: _Said) -> None:
        found = self.curves(ledger, self.pointers, executions)
        for curve in found.compared:
            subject = ledger.executions[curve.execution].stage
            wrong = [*(one.sentence for one in curve.findings), *curve.damage]
            said.add(curve.execution, curve.system, curve.where, curve.points, _findings(subject, curve.where, wrong))
        for one in found.unread:
            subject = ledger.executions[one.execution].stage
            if one.damaged:
                said.add(one.execution, one.system, one.where, 0, _findings(subject, one.where, [one.reason]))
            else:
                said.absent[one.system] = one.reason

    def _facts(self, tracker: Tracker, digest: Digest, execution: Execution, said: _Said) -> None:
        """Tags of the run that a pointer names. A run that is gone although the store is here is a disagreement."""
        pointer = self.pointers.current(digest, tracker.system)
        if pointer is None or pointer.run_id is None:
            return
        try:
            found = tracker.facts(pointer.run_id)
        except UnknownName as error:
            if not self.ran_here(execution) and ":///artifacts/" in (pointer.uri or ""):
                said.absent[tracker.system] = f"{execution.stage} ran in another checkout, which has its own store"
                return
            text = f"A pointer names the run {pointer.run_id} of {execution.stage}: {error.message}"
            said.add(digest, tracker.system, pointer.run_id, 0, _findings(execution.stage, pointer.run_id, [text]))
        except ReckonError as error:
            said.absent[tracker.system] = error.message
        else:
            said.add(digest, tracker.system, pointer.run_id, 0, list(_tags(digest, execution, pointer.run_id, found)))


@dataclass(slots=True)
class _Said:
    copies: dict[Digest, list[Copy]] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)

    def add(self, execution: Digest, system: str, where: str, points: int, findings: Sequence[Finding]) -> None:
        one = Copy(system=system, where=where, points=points, findings=tuple(findings))
        self.copies.setdefault(execution, []).append(one)

    def told(self, with_mlflow: bool) -> Mapping[str, str]:
        asked = {copy.system for found in self.copies.values() for copy in found}
        answers = {system: "consulted" for system in asked if system != HISTORY}
        for system in ("mlflow", "wandb"):
            nothing = "no record points there" if with_mlflow or system != "mlflow" else "no store here"
            answers.setdefault(system, f"not consulted: {self.absent.get(system, nothing)}")
        return answers


def _tags(digest: Digest, execution: Execution, run_id: str, found: Mapping[str, str]) -> Iterator[Finding]:
    """What the tags of a run say otherwise than the record."""
    revision = execution.revision
    recorded = {
        "execution": str(digest),
        "recipe": str(execution.recipe),
        "product": "" if execution.product is None else str(execution.product),
        "stage": execution.stage,
        "attempt": execution.attempt,
        "outcome": execution.outcome.value,
        "commit": revision.commit,
        "tree": revision.tree,
        "dirty": str(revision.dirty).lower(),
        "patch": "" if revision.patch is None else str(revision.patch),
    }
    for key, ours in recorded.items():
        theirs = found.get(key, "")
        if theirs != ours:
            yield Finding(
                subject=execution.stage,
                trouble=Trouble.TRACKER,
                path=run_id,
                part=key,
                recorded=ours,
                found=theirs,
                text=f"MLflow's run {run_id} has the {key} {theirs or 'unsaid'}; the record has {ours or 'none'}.",
            )


def _findings(subject: str, where: str, sentences: Sequence[str]) -> list[Finding]:
    return [Finding(subject=subject, trouble=Trouble.TRACKER, path=where, text=text) for text in sentences]
