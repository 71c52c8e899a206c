"""Holding the trackers' copies of a run's history against our own, point by point.

A copy is read through its own system: MLflow's client, W&B's reader. What it lacks, has in excess or holds with other
bits is a finding, and so are gaps in our own history. A copy that is not at hand is told as unread, never as equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from registry.core.canonical import Json
from registry.core.digests import Digest
from registry.core.history import LARGEST_STEP, Copy, History, HistoryFinding, compare, gaps
from registry.core.ledger import Ledger
from registry.core.pointers import Pointers
from registry.core.records import Execution, Product
from registry.errors import DoesNotHold, MalformedRecord, ReckonError
from registry.ports import CopyFiles, Tracker

OURS = "history"
WANDB = "wandb"
RUNS = "artifacts/runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One history held against another. ``points`` are those of ours that were compared; ``where`` is the copy."""

    execution: Digest
    stage: str
    system: str
    where: str
    points: int
    findings: tuple[HistoryFinding, ...]
    damage: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether every point is there with every bit; a comparison of nothing proves nothing."""
        return self.points > 0 and not self.findings and not self.damage


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """A copy that was to be compared and could not be read, with the reason: damaged, or not at hand."""

    execution: Digest
    stage: str
    system: str
    where: str
    reason: str
    damaged: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """Everything that was compared, and what could not be."""

    compared: tuple[Curve, ...]
    unread: tuple[Unread, ...]

    @property
    def holds(self) -> bool:
        """Whether something was compared, a copy among it, and all of it holds."""
        return any(one.system != OURS for one in self.compared) and all(one.holds for one in self.compared)


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveChecker:
    """Compares copies. ``history`` finds our own history of a product, or None when it does not lie here."""

    history: Callable[[Product], History | None]
    tracker: Tracker
    files: CopyFiles

    def check(self, ledger: Ledger, pointers: Pointers, executions: Iterable[Digest]) -> Curves:
        """Compare the copies of each complete execution whose history lies here."""
        results = [
            result
            for digest in sorted(set(executions) & ledger.executions.keys())
            for result in self._one(ledger, pointers, digest)
        ]
        return Curves(
            compared=tuple(one for one in results if isinstance(one, Curve)),
            unread=tuple(one for one in results if isinstance(one, Unread)),
        )

    def _one(self, ledger: Ledger, pointers: Pointers, digest: Digest) -> Iterator[Curve | Unread]:
        execution = ledger.executions[digest]
        product = None if execution.product is None else ledger.products.get(execution.product)
        ours = None if product is None else self.history(product)
        if ours is None:
            return
        own = Curve(
            execution=digest,
            stage=execution.stage,
            system=OURS,
            where="",
            points=ours.points,
            findings=gaps(ours),
            damage=(),
        )
        yield own
        pointer = pointers.current(digest, self.tracker.system)
        if pointer is not None and pointer.run_id is not None:
            run_id = pointer.run_id
            where = (self.tracker.system, run_id)
            yield _compared(digest, execution, ours, where, lambda: self.tracker.read_history(run_id))
        mine = ours if execution.resumed is None else ours.within(_first_step(execution.resumed), LARGEST_STEP)
        places = (_local(execution, told) for told in execution.trackers)
        for location in dict.fromkeys(place for place in places if place is not None):
            if mine.points:
                yield self._client_file(digest, execution, mine, location)

    def _client_file(self, digest: Digest, execution: Execution, mine: History, location: str) -> Curve | Unread:
        """A client's file holds what its own process logged: timings too, and nothing from before a resume."""

        def read() -> Copy:
            copy = self.files.read(location)
            return Copy(history=copy.history.only(mine.series), fidelity=copy.fidelity, damage=copy.damage)

        return _compared(digest, execution, mine, (WANDB, location), read)


def _compared(
    digest: Digest, execution: Execution, ours: History, where: tuple[str, str], read: Callable[[], Copy]
) -> Curve | Unread:
    system, place = where
    try:
        copy = read()
    except ReckonError as error:
        damaged = isinstance(error, DoesNotHold | MalformedRecord)
        return Unread(
            execution=digest, stage=execution.stage, system=system, where=place, reason=error.message, damaged=damaged
        )
    return Curve(
        execution=digest,
        stage=execution.stage,
        system=system,
        where=place,
        points=ours.points,
        findings=compare(ours, copy.history, copy.fidelity),
        damage=copy.damage,
    )


def _first_step(resumed: Mapping[str, Json]) -> int:
    """The first step that an attempt ran which resumed after a completed step."""
    step = resumed.get("step")
    return step + 1 if isinstance(step, int) else 0


def _local(execution: Execution, told: Mapping[str, Json]) -> str | None:
    """The place of a W&B file that lies on this disk, relative to the repository; None for another tracker or place."""
    location = told.get("location")
    if told.get("system") != WANDB or not isinstance(location, str) or "://" in location:
        return None
    return f"{RUNS}/{execution.stage}/{execution.attempt}/{location}"
