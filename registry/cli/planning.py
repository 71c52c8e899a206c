"""Where the ports of programs and launch bundles meet their adapters. Like ``wiring``, inside functions only.

No rule of the archive lives here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from registry.cli import adopting, wiring
from registry.cli.render import talk

if TYPE_CHECKING:
    from registry.core.digests import Digest
    from registry.core.launch import Launch
    from registry.core.program import Program, Programs, Relowered
    from registry.workflows.audit import Auditor
    from registry.workflows.plan import Planner
    from registry.workflows.program import Programmer


def programmer(archive: Path, told: Callable[[str], None], *, anywhere: bool = False) -> Programmer:
    """The workflow that lowers steps of training. ``anywhere`` allows the code of any commit to run."""
    from registry.adapters.hashing import hash_file
    from registry.adapters.lowering import LoweringProcess
    from registry.adapters.revisions import Revisions
    from registry.adapters.worktrees import Worktrees
    from registry.workflows.program import Programmer

    return Programmer(
        lowerings=LoweringProcess(archive, lambda commit: _worktree(archive, commit)),
        versions=Revisions(archive),
        told=told,
        trusted=Worktrees(archive, hash_file).trusted,
        anywhere=anywhere,
    )


def programs(archive: Path) -> Programs:
    """All program records."""
    from registry.core.program import Program, Programs

    raw = wiring.raw(wiring.record_store(archive), (Program.KIND,))
    return Programs.build((digest, data) for _, digest, data in raw)


def record_programs(
    archive: Path, executions: Iterable[Digest], told: Callable[[str], None], *, anywhere: bool = False
) -> list[tuple[Digest, Program]]:
    """Record the programs of executions that have none yet. One that cannot be lowered is told, not raised.

    ``anywhere`` allows the code of any commit to run, such as that of an attempt that ran here just now; else raises
    ``Refused`` before anything runs when one commit may not.
    """
    from registry.errors import ReckonError
    from registry.workflows.program import unrecorded

    if not (archive / "train" / "program.py").is_file():
        return []
    work, store, done = programmer(archive, told, anywhere=anywhere), wiring.record_store(archive), []
    wanted = list(unrecorded(wiring.ledger(archive), programs(archive), list(executions)))
    for _, _, commit in () if anywhere else wanted:
        work.admitted(commit)
    for recipe, asked, commit in wanted:
        try:
            done.append(work.recorded(recipe, asked, commit, store))
        except ReckonError as error:
            told(f"The program of {asked.stage} is not recorded: {error.message} Later: reckon program {asked.stage}")
    return done


@contextmanager
def _worktree(archive: Path, commit: str) -> Iterator[Path]:
    from registry.adapters.hashing import hash_file
    from registry.adapters.worktrees import Worktrees

    with Worktrees(archive, hash_file).open(commit) as tree:
        yield tree.root


def with_programs(auditor: Auditor, wanted: bool, others: Sequence[str]) -> Auditor:
    """The auditor, lowering recorded programs again if that is wanted, or if ``others`` names commits to compare."""
    if not wanted and not others:
        return auditor
    return replace(auditor, relower=relowering(wiring.root(), talk, others))


def relowering(
    archive: Path, told: Callable[[str], None], others: Sequence[str] = ()
) -> Callable[[Program], tuple[Relowered, ...]]:
    """What lowers a recorded program again: at its commit, as it lies here, and at ``others``."""
    from registry.workflows.program import relowered

    work = programmer(archive, told)
    return lambda one: relowered(work, one, others)


def planner(archive: Path, *, lower: bool) -> Planner:
    """The workflow that plans launches; it lowers what is launched when asked."""
    from registry.adapters.revisions import Revisions
    from registry.workflows.plan import Planner

    work = programmer(archive, talk)
    return Planner(
        workshop=wiring.workshop(archive),
        ledger=wiring.ledger(archive),
        shelf=adopting.shelf(archive),
        params=wiring.pipeline(archive).params(),
        revision=wiring.repository(archive).revision(),
        origin=Revisions(archive).origin(),
        lower=(lambda asked: work.lower(asked, None)) if lower else None,
    )


def write_bundle(folder: Path, launch: Launch) -> dict[str, str]:
    """Write a bundle's files, scripts executable; returns them by name."""
    from registry.core.launchfiles import files

    made = files(launch)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in made.items():
        path = folder / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755 if name.endswith((".sh", ".sbatch")) else 0o644)
    return made
