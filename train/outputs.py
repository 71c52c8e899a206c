"""The outputs of a trained segment beside its checkpoints: history, order, evaluation, summary. No clocks, no hosts."""

from __future__ import annotations

from collections.abc import Mapping

import jax
from haliax.util import is_named_array
from levanter.utils.jax_utils import leaf_key_paths

from registry.core import decimals, transcript
from registry.core.canonical import Json
from registry.core.transcript import Transcript
from train.evaluate import PLACES, DomainLoss, evaluation
from train.files import write_json
from train.history import write_history
from train.loop import Run
from train.plan import Plan
from train.proof import Parent
from train.step import STATE, group_of


def write(run: Run, parent: Parent | None, losses: Mapping[str, DomainLoss]) -> None:
    """Write everything that the stage's folder holds beside checkpoints and transcript."""
    work, plan = run.scratch.work, run.engine.plan
    run.transcript.sync()
    told = transcript.parse((work / "transcript.jsonl").read_bytes())
    write_history(run.scratch.metrics, work / "history.parquet")
    write_json(work / "order.json", {**run.engine.order.facts(), "chain": _chain(run, parent)})
    write_json(work / "evaluation.json", evaluation(losses, step=run.step))
    counted, notes = _counted(run.state.model), run.engine.family.notes
    write_json(work / "summary.json", {**_summary(plan, told, counted), "notes": dict(notes)})


def _chain(run: Run, parent: Parent | None) -> dict[str, Json]:
    """Where this segment's order digests begin: after which step, and from which digest."""
    previous = run.engine.order.genesis if parent is None else parent.last.order
    return {"after_step": run.engine.plan.first_step, "previous": previous}


def _summary(plan: Plan, told: Transcript, counted: Mapping[str, int]) -> dict[str, Json]:
    rung = plan.rung
    return {
        "kind": "summary",
        "schema": 1,
        "stage": plan.stage,
        "run": plan.run,
        "reason": plan.reason,
        "parent": None if plan.parent is None else str(plan.parent),
        "first_step": plan.first_step,
        "last_step": plan.last_step,
        "kept_steps": list(plan.kept),
        "tokens": plan.last_step * rung.tokens_per_step,
        "flops": str(rung.flops // rung.steps * plan.last_step),
        "active_parameters": rung.active_parameters,
        "counted_parameters": {**counted, "all": sum(counted.values())},
        "loss": {"first": _loss(told, 0), "last": _loss(told, -1)},
        "rung": rung.to_json(),
    }


def _loss(told: Transcript, index: int) -> str:
    loss = transcript.number(told.lines[index].loss)
    return decimals.write(decimals.round_places(loss, PLACES))


def _counted(model: object) -> dict[str, int]:
    """Parameters by group, counted in the arrays themselves. What is carried along untrained is none."""
    names = jax.tree.leaves(leaf_key_paths(model, is_leaf=is_named_array))
    leaves = jax.tree.leaves(model, is_leaf=is_named_array)
    counted: dict[str, int] = {}
    for name, leaf in zip(names, leaves, strict=True):
        if STATE in name.split("."):
            continue
        array = leaf.array if is_named_array(leaf) else leaf
        group = group_of(name)
        counted[group] = counted.get(group, 0) + int(array.size)
    return dict(sorted(counted.items()))
