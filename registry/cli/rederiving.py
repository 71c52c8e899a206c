"""Where the ports of re-derivation and comparison meet their adapters. Like ``wiring``, inside functions only.

No rule of the archive lives here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from registry.cli import charting, wiring

if TYPE_CHECKING:
    from registry.adapters.worktrees import Worktrees
    from registry.core.parting import Measure, Parting
    from registry.core.tensors import Leaf
    from registry.workflows.bisect import Bisector
    from registry.workflows.compare import Comparer
    from registry.workflows.rederive import Plan, Planner, Rederiver, Request, Yard


def planner(archive: Path) -> Planner:
    """The workflow that tells what a re-derivation will do."""
    from registry.adapters.replays import Replay, processor_flags
    from registry.core.lineage import Lineage
    from registry.workflows.rederive import Planner

    ledger = wiring.ledger(archive)
    here = Replay(root=archive, log=Path("/dev/null"), variables={})
    return Planner(
        ledger=ledger,
        lineage=Lineage(ledger, wiring.table_store(archive).get_files),
        history=_worktrees(archive),
        host=wiring.host(),
        workshop=wiring.workshop(archive),
        probe=lambda names: here.probe(names, ())[0],
        processor_flags=processor_flags(),
    )


def rederiver(archive: Path) -> Rederiver:
    """The workflow that makes artifacts again."""
    from registry.core.lineage import Lineage
    from registry.workflows.rederive import Rederiver
    from registry.workflows.rederive.judging import Judge
    from registry.workflows.rederive.laying import Layer
    from registry.workflows.rederive.telling import Teller

    ledger, records, tables = wiring.ledger(archive), wiring.record_store(archive), wiring.table_store(archive)
    layer = Layer(
        ledger=ledger,
        lineage=Lineage(ledger, tables.get_files),
        records=records,
        tables=tables,
        shelf=charting.copies(archive),
    )
    return Rederiver(
        yards=lambda plan: yards(archive, plan),
        layer=layer,
        judge=Judge(ledger=ledger, tables=tables, layer=layer),
        teller=Teller(records=records, tables=tables),
    )


@contextmanager
def yards(archive: Path, plan: Plan) -> Iterator[Yard]:
    """A worktree of the plan's commit, with a recorder whose stores lie beside it and vanish with it."""
    from registry.adapters.attempts import RunFolder
    from registry.adapters.openings import OpeningFolder
    from registry.adapters.records import FileRecordStore
    from registry.adapters.replays import Progress, Replay
    from registry.adapters.tables import TableFolder
    from registry.workflows.record import Recorder
    from registry.workflows.rederive import Yard

    with _worktrees(archive).open(plan.commit) as tree:
        staged, tables = FileRecordStore(tree.folder / "records"), TableFolder(tree.folder / "records")
        runs, workshop = tree.root / "artifacts/runs", wiring.workshop(tree.root)
        recorder = Recorder(
            workshop=workshop,
            records=staged,
            tables=tables,
            attempts=RunFolder(runs),
            openings=OpeningFolder(runs),
        )
        yield Yard(
            tree=tree,
            committed=wiring.workshop(tree.root),
            workshop=workshop,
            recording=recorder,
            attempts=RunFolder(runs),
            staged=staged,
            tables=tables,
            runner=Replay(root=tree.root, log=tree.folder / "said.txt", variables=plan.request.variables),
            watch=lambda stage: Progress(tree.root, stage),
            measure=measure,
        )


def measure(recorded: Path, found: Path) -> Measure:
    """What measures the tensors of two containers."""
    from registry.adapters.gaps import measure as measured

    return measured(wiring.tensors(recorded), wiring.tensors(found))


def comparer(archive: Path) -> Comparer:
    """The workflow that compares two executions, checkpoints or exports."""
    from registry.workflows.compare import Comparer

    return Comparer(
        root=archive,
        ledger=wiring.ledger(archive),
        tables=wiring.table_store(archive),
        shelf=charting.copies(archive),
        leaves=_leaves,
        measure=measure,
    )


def bisector(archive: Path, request: Request, meter: Callable[[Plan], Callable[[int], None]]) -> Bisector:
    """The workflow that looks for the first diverging step; ``request`` names the history and the other's changes."""
    from registry.workflows.bisect import Bisector, Window

    plans, work = planner(archive), rederiver(archive)

    def replay(window: Window, changed: bool) -> Parting:
        asked = request if changed else replace(request, changes={}, variables={})
        plan = plans.window(asked, window.begin, window.stop)
        return work.carry_out(plan, meter(plan)).judgement.parting

    return Bisector(root_of=comparer(archive).root_of, replay=replay)


def _leaves(path: Path) -> Sequence[Leaf]:
    from registry.adapters.checkpoints import read_leaves

    return read_leaves(path)


def _worktrees(archive: Path) -> Worktrees:
    from registry.adapters.hashing import hash_file
    from registry.adapters.worktrees import Worktrees

    return Worktrees(archive, hash_file)
