"""Writing a re-derivation down: tables and records first, the execution last, all of it after everything was judged.

A whole replay that agrees is complete, with the recorded product: a witness. One that contradicts is complete, with the
product that it gave: two products of one recipe are reported and never overwritten. A mismatch has failed to give the
recorded product, and a window was interrupted on purpose; neither has a product, so neither is taken for the stage's
newest. The same bits under other settings are no witness either, since something else was asked. Trackers are not told:
their files vanish with the worktree. Nor is that a window went on and was stopped, which is no incident of the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from registry.core.canonical import Json
from registry.core.codec import record_bytes
from registry.core.digests import Digest
from registry.core.incidents import Kind
from registry.core.records import Environment, Execution, Outcome, Product
from registry.core.rederivation import KEY, Mark, Verdict
from registry.ports import RecordStore, TableStore
from registry.workflows.rederive.planning import Plan
from registry.workflows.rederive.replaying import Replayed
from registry.workflows.rederive.yard import Yard

_OURS: Final = (Kind.RESTART, Kind.INTERRUPTION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Teller:
    """Writes into the records and tables of the archive."""

    records: RecordStore
    tables: TableStore

    def tell(self, yard: Yard, plan: Plan, replayed: Replayed, mark: Mark) -> tuple[Digest, Execution]:
        """Write the execution and what it speaks of."""
        outcome, product = Outcome.INTERRUPTED, None
        if mark.whole and mark.verdict is not Verdict.MISMATCH and not mark.changes:
            outcome = Outcome.COMPLETE
            product = mark.product if mark.agrees else self._contradiction(yard, replayed)
        elif mark.verdict is Verdict.MISMATCH:
            outcome = Outcome.FAILED
        return self._write(yard, plan, replayed, (outcome, product, _cause(mark, outcome), mark))

    def failed(self, yard: Yard, plan: Plan, replayed: Replayed) -> tuple[Digest, Execution]:
        """Write an attempt that did not come to its end. It says nothing about the product."""
        cause = {"error": "NotRederived", "message": f"While it was made again: {replayed.failure}"}
        return self._write(yard, plan, replayed, (Outcome.FAILED, None, cause, None))

    def _write(
        self,
        yard: Yard,
        plan: Plan,
        replayed: Replayed,
        came: tuple[Outcome, Digest | None, Mapping[str, Json] | None, Mark | None],
    ) -> tuple[Digest, Execution]:
        outcome, product, cause, mark = came
        made = replayed.execution
        if made.environment is not None:
            self.records.put(Environment.KIND, yard.staged.get(Environment.KIND, made.environment))
        steps = made.steps
        if plan.steps is not None and steps is not None:
            steps = {**steps, "first": plan.steps.start}
            if mark is not None and mark.last_step is not None:
                steps = {**steps, "reached": mark.last_step}
        told = replace(
            made,
            recipe=plan.target.product.recipe,
            product=product,
            outcome=outcome,
            cause=cause,
            steps=steps,
            resumed=None,
            trackers=(),
            incidents=tuple(one for one in made.incidents if one.get("kind") not in _OURS),
            extra={**made.extra, KEY: {} if mark is None else mark.to_json()},
        )
        return self.records.put(told.kind, record_bytes(told)), told

    def _contradiction(self, yard: Yard, replayed: Replayed) -> Digest | None:
        """Keep the other product with its tables."""
        product = replayed.product
        if product is None:
            return None
        for tree in yard.tables.trees():
            self.tables.put_files(yard.tables.get_files(tree))
        for root in yard.tables.roots():
            self.tables.put_leaves(yard.tables.get_leaves(root))
        return self.records.put(Product.KIND, record_bytes(product))


def _cause(mark: Mark, outcome: Outcome) -> Mapping[str, Json] | None:
    """Why it is not complete, in words."""
    if outcome is Outcome.COMPLETE:
        return None
    steps = mark.steps
    span = "" if steps is None else f" of the steps {steps.start} to {steps.stop}"
    if mark.changes and mark.agrees:
        message = f"Made again{span} under other settings ({', '.join(mark.changes)}), with the same bits."
        return {"error": "OtherSettings", "message": message}
    if mark.agrees:
        return {"error": "Window", "message": f"A replay{span} on purpose; it agrees with the record."}
    told = mark.difference or {}
    where = f"from step {told.get('first_step')}" if told.get("first_step") else f"in {told.get('first_tensor')}"
    if mark.verdict is Verdict.CONTRADICTS:
        return {"error": "Window", "message": f"A replay{span} on purpose; it differs from the record {where}."}
    facts = ", ".join([*mark.changes, *mark.setup][:6])
    tier = "" if mark.tier is None else f" Within what was asked for: {mark.tier}."
    message = f"A replay{span} under another setup ({facts}); it differs from the record {where}.{tier}"
    return {"error": "SetupMismatch", "message": message}
