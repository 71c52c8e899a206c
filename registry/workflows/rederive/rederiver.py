"""The re-derivation itself: lay, run, judge, tell, in a worktree that is gone afterwards.

Nothing is written into the archive before everything is judged, so whatever kills it in between leaves no half record.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from registry.core.digests import Digest
from registry.core.records import Execution
from registry.errors import OutsideFailed
from registry.workflows.rederive.judging import Judge, Judgement
from registry.workflows.rederive.laying import Layer
from registry.workflows.rederive.planning import Plan
from registry.workflows.rederive.replaying import Advance, replay
from registry.workflows.rederive.telling import Teller
from registry.workflows.rederive.yard import Yard


@dataclass(frozen=True, slots=True, kw_only=True)
class Rederived:
    """What came of one plan, and the execution on record that tells it."""

    plan: Plan
    judgement: Judgement
    digest: Digest
    execution: Execution


@dataclass(frozen=True, slots=True, kw_only=True)
class Rederiver:
    """Carries out plans. ``yards`` opens a worktree of a commit with the environment variables to run under."""

    yards: Callable[[Plan], AbstractContextManager[Yard]]
    layer: Layer
    judge: Judge
    teller: Teller

    def carry_out(self, plan: Plan, advance: Advance) -> Rederived:
        """Do what the plan says; ``advance`` is told the steps as they are reached.

        Raises ``OutsideFailed`` when the command fails, ``DoesNotHold`` when what it left does not count.
        """
        with self.yards(plan) as yard:
            changed = self.layer.prepare(yard, plan)
            replayed = replay(yard, plan, changed, advance)
            if replayed.failure is not None:
                self.teller.failed(yard, plan, replayed)
                raise OutsideFailed(
                    f"{plan.target.output.name} was not made again: {replayed.failure}",
                    remedy="The attempt is recorded. Mend what it complains of, then run this again.",
                )
            judgement = self.judge.judge(yard, plan, replayed)
            if plan.request.keep is not None:
                yard.tree.keep(replayed.folder, plan.request.keep)
            digest, execution = self.teller.tell(yard, plan, replayed, judgement.mark)
        return Rederived(plan=plan, judgement=judgement, digest=digest, execution=execution)
