"""The state of every stage: recorded or not, by whom it is witnessed, and whether it would be made otherwise today.

Nothing is hashed but code and the lock: inputs are taken as recorded, since ``verify`` is what looks at bytes. Refuses
to call a stage sound that was never run, whose last attempt failed, or whose outputs are not here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from registry.core.comparison import Change, Part, recipe_changes
from registry.core.digests import Digest, FileEntry
from registry.core.ledger import Ledger
from registry.core.openings import opening_of
from registry.core.records import Execution, Outcome, Product
from registry.core.rederivation import rederives
from registry.core.resolving import folder_in, relative
from registry.core.runlog import RunLog
from registry.core.standing import Standing, standing
from registry.errors import ReckonError
from registry.observing import Workshop
from registry.ports import Attempts, Bytes, Openings, TableStore


@dataclass(frozen=True, slots=True, kw_only=True)
class StageState:
    """What is known of one stage. ``trouble`` says why its state cannot be told in full, or is None.

    ``stale`` holds the parts of the recipe that would be others today; ``unrecorded`` the attempts that ended and have
    no execution; ``last`` the newest execution if it is not the complete one that counts.
    """

    stage: str
    declared: bool
    recipe: Digest | None
    product: Digest | None
    standing: Standing | None
    contradictions: tuple[Digest, ...]
    stale: Mapping[Part, tuple[Change[str], ...]]
    missing: tuple[str, ...]
    running: str | None
    unrecorded: tuple[str, ...]
    last: Execution | None
    trouble: str | None

    @property
    def sound(self) -> bool:
        """Whether the stage is recorded, present, up to date and not contradicted, and nothing is left open."""
        open_ends = self.contradictions or self.stale or self.missing or self.unrecorded
        return self.product is not None and not (open_ends or self.running or self.last or self.trouble)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surveyor:
    """Looks over all stages of one archive."""

    workshop: Workshop
    attempts: Attempts
    openings: Openings
    tables: TableStore
    ledger: Ledger

    def survey(self) -> tuple[StageState, ...]:
        """All declared stages in their order, then recorded ones that are no longer declared."""
        declared = list(self.workshop.pipeline.stages())
        bygone = [stage for stage in self.ledger.stages() if stage not in declared]
        believing = replace(self.workshop, disk=_AsRecorded(self.workshop.disk, self.ledger, self.tables))
        return tuple(self._state(stage, believing if stage in declared else None) for stage in [*declared, *bygone])

    def uncommitted(self) -> tuple[str, ...]:
        """Records and tables that the last commit does not hold, or none where git does not answer."""
        try:
            return tuple(self.workshop.repository.uncommitted("manifests"))
        except ReckonError:
            return ()

    def _state(self, stage: str, workshop: Workshop | None) -> StageState:
        head = self.ledger.head(stage)
        product = self.ledger.product_of(stage)
        running, unrecorded, damaged = self._open_attempts(stage)
        stale, hindered = self._stale(stage, head[1] if head else None, workshop)
        unread = f"The product {head[1].product} cannot be read." if head and product is None else None
        return StageState(
            stage=stage,
            declared=workshop is not None,
            recipe=head[1].recipe if head else None,
            product=head[1].product if head else None,
            standing=self._standing(head[1]) if head else None,
            contradictions=self._contradictions(head[1]) if head else (),
            stale=stale,
            missing=tuple(self._missing(product)),
            running=running,
            unrecorded=unrecorded,
            last=self._last(stage, head[0] if head else None),
            trouble=damaged or unread or hindered,
        )

    def _standing(self, head: Execution) -> Standing:
        mine = [one for one in self.ledger.executions.values() if one.stage == head.stage]
        agreeing = [one for one in mine if one.witnesses and (one.recipe, one.product) == (head.recipe, head.product)]
        return standing(agreeing, {one.attempt: one for one in mine})

    def _contradictions(self, head: Execution) -> tuple[Digest, ...]:
        found = self.ledger.witnesses(head.recipe)
        return tuple(one.product for one in found if one.product != head.product)

    def _stale(
        self, stage: str, head: Execution | None, workshop: Workshop | None
    ) -> tuple[Mapping[Part, tuple[Change[str], ...]], str | None]:
        """What the recipe would be otherwise now, or why that cannot be told."""
        if head is None or workshop is None:
            return {}, None
        recorded = self.ledger.recipes.get(head.recipe)
        if recorded is None:
            return {}, f"The recipe {head.recipe} cannot be read."
        try:
            return recipe_changes(recorded, workshop.recipe(stage)), None
        except ReckonError as error:
            return {}, error.message

    def _missing(self, product: Product | None) -> Iterator[str]:
        for output in product.outputs if product else ():
            if not self.workshop.disk.exists(output.path):
                yield output.path

    def _open_attempts(self, stage: str) -> tuple[str | None, tuple[str, ...], str | None]:
        """The attempt that runs, those that ended without a record, and why the run logs cannot be read.

        Attempts before any opening were run by hand: nobody asked for a record of them.
        """
        try:
            openings = self.openings.of_stage(stage)
            logs = [log for log in self.attempts.of_stage(stage) if opening_of(log.started.time, openings)]
        except ReckonError as error:
            return None, (), error.message
        fresh = [log for log in logs if log.started.attempt not in self.ledger.attempts(stage)]
        running = [log for log in fresh if self.attempts.alive(log)]
        ended = tuple(_attempt(log) for log in fresh if log not in running)
        return (_attempt(running[-1]) if running else None), ended, None

    def _last(self, stage: str, head: Digest | None) -> Execution | None:
        executions = [pair for pair in self.ledger.executions_of(stage) if not rederives(pair[1])]
        if not executions or executions[0][0] == head:
            return None
        newest = executions[0][1]
        return None if newest.outcome is Outcome.COMPLETE else newest


class _AsRecorded:
    """Bytes that are taken at the record's word where a stage made them, and looked at elsewhere."""

    def __init__(self, disk: Bytes, ledger: Ledger, tables: TableStore) -> None:
        self._disk = disk
        self._table = lru_cache(maxsize=8)(tables.get_files)
        heads = (ledger.product_of(stage) for stage in ledger.stages())
        outputs = [output for product in heads if product is not None for output in product.outputs]
        self._outputs = {output.path: output for output in outputs}

    def exists(self, path: str) -> bool:
        return bool(self._recorded(path)) or self._disk.exists(path)

    def is_folder(self, path: str) -> bool:
        entries = self._recorded(path)
        if not entries or self._disk.exists(path):
            return self._disk.is_folder(path)
        return len(entries) > 1 or entries[0].path != path.rpartition("/")[2]

    def files(self, path: str) -> Sequence[FileEntry]:
        return self._recorded(path) or self._disk.files(path)

    def locator(self, path: str) -> str:
        return self._disk.locator(path)

    def read(self, path: str) -> bytes:
        return self._disk.read(path)

    def _recorded(self, path: str) -> Sequence[FileEntry]:
        """The files that the record has at ``path``; none where no stage made it or its table cannot be read."""
        own = self._outputs.get(path)
        holder = own or next((one for where, one in self._outputs.items() if path.startswith(f"{where}/")), None)
        if holder is None:
            return ()
        try:
            entries = self._table(holder.digest)
        except ReckonError:
            return ()
        return entries if own else _part(entries, path[len(holder.path) + 1 :])


def _part(entries: Sequence[FileEntry], path: str) -> Sequence[FileEntry]:
    """The file at ``path`` under its own name, or the files of the folder there, relative to it."""
    single = [entry for entry in entries if entry.path == path]
    if single:
        return [replace(single[0], path=path.rpartition("/")[2])]
    return relative(folder_in(entries, path), path)


def _attempt(log: RunLog) -> str:
    return log.started.attempt
