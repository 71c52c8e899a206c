"""Telling a tracker of executions, and keeping a pointer record of where it holds them or why it does not.

The records are complete before any tracker is asked, so a tracker that is down costs nothing but a later call. An
execution is told again until a pointer says that the tracker holds it. A pointer that would say nothing new is not
written. Refuses nothing: what fails becomes a pointer with its reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from registry.core.codec import record_bytes
from registry.core.digests import Digest
from registry.core.history import History
from registry.core.ledger import Ledger
from registry.core.pointers import Pointer, Pointers, PointerState, pointer_failed, pointer_to
from registry.core.records import Execution, Product
from registry.core.reports import HISTORY_FILE, ExecutionReport, Told, report_of
from registry.errors import DoesNotHold, MalformedRecord, OutsideFailed, UnknownName, Unreachable
from registry.ports import HistoryFiles, Host, RecordStore, TableStore, Tracker


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    """What came of telling the tracker of one execution."""

    execution: Digest
    stage: str
    attempt: str
    pointer: Pointer


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """What one call did. ``waiting`` executions were not tried, because the tracker does not answer."""

    synced: tuple[Synced, ...]
    waiting: int

    @property
    def failed(self) -> tuple[Synced, ...]:
        """Those that the tracker does not hold now."""
        return tuple(one for one in self.synced if one.pointer.state is PointerState.FAILED)

    @property
    def done(self) -> bool:
        """Whether the tracker holds everything that it was to be told."""
        return not self.failed and not self.waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class Syncer:
    """Tells one tracker of the executions of one archive."""

    tracker: Tracker
    records: RecordStore
    tables: TableStore
    histories: HistoryFiles
    host: Host

    def sync(self, ledger: Ledger, pointers: Pointers, executions: Iterable[Digest], *, recheck: bool = False) -> Sync:
        """Tell the tracker of those ``executions`` that no pointer says it holds, oldest first.

        With ``recheck`` it is told of all of them: what it holds stays as it is, what was deleted there comes back.
        Stops at the first one for which the tracker does not answer.
        """
        wanted = sorted(set(executions) & ledger.executions.keys(), key=lambda one: _age(ledger, one))
        pending = [one for one in wanted if recheck or self._lacks(ledger, one, pointers)]
        synced: list[Synced] = []
        for position, digest in enumerate(pending):
            execution = ledger.executions[digest]
            pointer, answered = self._tell(ledger, digest)
            self._keep(pointer, pointers)
            synced.append(Synced(execution=digest, stage=execution.stage, attempt=execution.attempt, pointer=pointer))
            if not answered:
                return Sync(synced=tuple(synced), waiting=len(pending) - position - 1)
        return Sync(synced=tuple(synced), waiting=0)

    def report(self, ledger: Ledger, execution: Digest) -> ExecutionReport:
        """What the tracker is told. Raises ``UnknownName`` when the recipe or product cannot be read."""
        one = ledger.executions[execution]
        recipe, product = ledger.recipes.get(one.recipe), _product(ledger, one)
        if recipe is None or (product is None and one.product is not None):
            raise UnknownName(
                f"The recipe or product of the execution {execution} cannot be read.",
                remedy="Run 'reckon verify --all'.",
            )
        told = Told(execution=one, recipe=recipe, product=product, producers=tuple(ledger.products.values()))
        return report_of(told, self._history(product))

    def _tell(self, ledger: Ledger, execution: Digest) -> tuple[Pointer, bool]:
        """The pointer to write, and whether the tracker answered."""
        system, now = self.tracker.system, self.host.now()
        try:
            published = self.tracker.publish(self.report(ledger, execution))
        except (OutsideFailed, DoesNotHold, MalformedRecord, UnknownName) as error:
            answered = not isinstance(error, Unreachable)
            return pointer_failed(execution, system, error.message, now), answered
        return pointer_to(execution, system, published, now), True

    def _keep(self, pointer: Pointer, pointers: Pointers) -> None:
        """Write a pointer unless the newest one of its execution says the same."""
        said = pointers.of(pointer.execution, pointer.system)
        if not said or replace(said[-1], time=pointer.time, extra={}) != pointer:
            self.records.put(Pointer.KIND, record_bytes(pointer))

    def _lacks(self, ledger: Ledger, execution: Digest, pointers: Pointers) -> bool:
        """Whether no pointer says that the tracker holds it, or it holds no points while a history is at hand now."""
        current = pointers.current(execution, self.tracker.system)
        if current is None or current.points > 0:
            return current is None
        try:
            return self._history(_product(ledger, ledger.executions[execution])) is not None
        except DoesNotHold:
            return True  # telling the tracker of it says why

    def _history(self, product: Product | None) -> History | None:
        return None if product is None else history_of(product, self.tables, self.histories)


def history_of(product: Product, tables: TableStore, histories: HistoryFiles) -> History | None:
    """The history that a trained stage wrote. None for other stages, and when its recorded bytes do not lie here."""
    if not any("step" in output.contents for output in product.outputs):
        return None
    try:
        entries = {entry.path: entry.digest for entry in tables.get_files(product.outputs[0].digest)}
    except UnknownName:
        return None
    digest = entries.get(HISTORY_FILE)
    return None if digest is None else histories.read(f"{product.outputs[0].path}/{HISTORY_FILE}", digest)


def _product(ledger: Ledger, execution: Execution) -> Product | None:
    return None if execution.product is None else ledger.products.get(execution.product)


def _age(ledger: Ledger, execution: Digest) -> tuple[str, Digest]:
    return ledger.executions[execution].attempt, execution
