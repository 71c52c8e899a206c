"""Running the recorded command in its worktree, and holding it to what it was asked.

What it leaves counts only if the process that was started told it: its own run log, complete, of this stage, with the
recorded steps, and outputs that are files of their own. Refuses restored or linked outputs, inputs that changed while
it ran, and a stage that went on from a state that nobody laid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from registry.core.canonical import Json
from registry.core.digests import Digest, record_digest
from registry.core.ledger import Ledger
from registry.core.records import Execution, Product
from registry.errors import DoesNotHold, OutsideFailed
from registry.workflows.rederive.planning import Plan
from registry.workflows.rederive.yard import Ended, Yard

Advance = Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What came of running. ``folder`` holds transcript and checkpoints.

    ``product`` is None unless the stage ran whole; ``failure`` is what a stage said that did not come to its end.
    """

    execution: Execution
    product: Product | None
    folder: Path
    changed: dict[str, Json]
    failure: str | None


def replay(yard: Yard, plan: Plan, changed: dict[str, Json], advance: Advance) -> Replayed:
    """Run the stage over the span.

    Raises ``DoesNotHold`` for what does not count, ``OutsideFailed`` when no attempt was told.
    """
    stage = plan.target.stage
    for path in yard.workshop.spec(stage).outputs:
        yard.tree.clear(path)
    opening = yard.recording.begin(stage, plan.target.execution.hypothesis)
    ended = yard.runner.run(plan.target.recipe.command, _looker(yard, plan, advance))
    own = yard.watch(stage).transcript()
    whole = plan.span.whole and ended.status == 0
    outputs = yard.workshop.spec(stage).outputs
    borrowed = yard.tree.borrowed(outputs)
    if borrowed:
        raise DoesNotHold(
            f"{stage} did not make {borrowed[0]}: it is a link, or shares its bytes with another file.",
            remedy="A copy of what exists is no re-derivation; nothing was recorded.",
        )
    if not whole and record_digest(yard.workshop.recipe(stage).to_json()) != opening.recipe:
        raise DoesNotHold(f"The inputs, settings or code of {stage} changed while it ran.")
    recorded = yard.recording.record(stage, 0 if whole else max(1, abs(ended.status)), Ledger())
    execution = _own(recorded.executions, yard, ended, stage)
    _hold(execution, plan)
    folder = yard.tree.root / outputs[0] if own is None else own.parent
    return Replayed(
        execution=execution,
        product=recorded.product,
        folder=folder,
        changed=changed,
        failure=_failure(plan, ended, execution),
    )


def _looker(yard: Yard, plan: Plan, advance: Advance) -> Callable[[int], bool]:
    watch = yard.watch(plan.target.stage)
    stop = plan.span.stop

    def look(_: int) -> bool:
        step = None if plan.steps is None else watch.step()
        if step is not None:
            advance(step)
        return stop is not None and step is not None and step >= stop

    return look


def _own(told: Sequence[tuple[Digest, Execution]], yard: Yard, ended: Ended, stage: str) -> Execution:
    """The execution of the process that was started: the only attempt in a worktree where there was none."""
    pids = [log.started.pid for log in yard.attempts.of_stage(stage)]
    if len(told) != 1 or pids != [ended.pid]:
        raise OutsideFailed(
            f"{stage} ended with status {ended.status}, and {len(told)} attempts were told, not one by that process: "
            f"{ended.tail[-600:] or 'it said nothing'}",
            remedy="Nothing was recorded.",
        )
    return told[0][1]


def _hold(execution: Execution, plan: Plan) -> None:
    """A whole replay began at the beginning, by itself: nothing was restored."""
    resumed = execution.resumed
    if plan.span.begin is None and resumed is not None:
        raise DoesNotHold(f"{plan.target.stage} went on from step {resumed.get('step')} of something that was there.")
    if plan.span.begin is not None and (resumed is None or resumed.get("step") != plan.span.begin):
        raise DoesNotHold(f"{plan.target.stage} did not go on from the checkpoint of step {plan.span.begin}.")
    if plan.span.begin is None and execution.parent != plan.target.execution.parent:
        raise DoesNotHold(f"{plan.target.stage} began from another parent: {execution.parent}.")


def _failure(plan: Plan, ended: Ended, execution: Execution) -> str | None:
    reached = None if execution.steps is None else execution.steps.get("reached")
    if ended.status == 0 or (ended.stopped and isinstance(reached, int) and reached >= (plan.span.stop or 0)):
        return None
    cause = execution.cause or {}
    where = "" if reached is None else f" after step {reached}"
    return f"it ended with status {ended.status}{where}: {cause.get('message') or ended.tail[-600:]}"
