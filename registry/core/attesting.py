"""What somebody can attest of a product by executions on record: tier, coverage, setup.

Executions count when they made the product again, whole or over a window of steps, and agree; those that came to
another product of the recipe contradict it, and that is attested too. Coverage is counted in steps that were made here
and by somebody else. Refuses to attest a product that nobody else made: that would be a claim, not a re-derivation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from registry.core.attestation import Outcome, Rederivation
from registry.core.canonical import Json
from registry.core.digests import Digest
from registry.core.ledger import Ledger
from registry.core.records import Environment, Execution
from registry.core.rederivation import Mark, mark_of
from registry.core.resolving import Held
from registry.core.standing import covered
from registry.errors import Refused

MOST_EXECUTIONS: Final = 1000
# The best that can be said first: the same bits on another host, the same bits, within a tolerance, within noise.
_BEST: Final = ("T2", "T1", "T3", "T4", "T0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """One execution that made a product again, and what that came to."""

    digest: Digest
    execution: Execution
    outcome: Outcome
    tier: str
    steps: range | None


def makings(ledger: Ledger, held: Held, mine: Iterable[Digest]) -> tuple[Making, ...]:
    """What the executions ``mine`` say of a product, oldest first; those that say nothing of it are left out."""
    chosen = frozenset(mine)
    others = [one for digest, one in _witnesses(ledger, held) if digest not in chosen]
    found = (_making(digest, ledger.executions[digest], held, others, ledger) for digest in chosen)
    return tuple(sorted((one for one in found if one is not None), key=lambda one: one.execution.attempt))


def rederivation(ledger: Ledger, held: Held, makings: Sequence[Making], who: str, time: str) -> Rederivation:
    """What can be attested: of a contradiction that, else of the best tier. Raises ``Refused`` when it is nothing."""
    if not makings:
        raise Refused(
            f"No execution of yours made {held.output.name} again.",
            remedy="Run 'reckon rederive' or 'dvc repro --force'; name executions of another host with --execution.",
        )
    contradicting = [one for one in makings if one.outcome is Outcome.CONTRADICTS]
    agreeing = [one for one in makings if one.outcome is Outcome.AGREES and one.tier != "T0"]
    told = contradicting or agreeing or [one for one in makings if one.outcome is Outcome.MISMATCH]
    if not told:
        raise Refused(
            f"Nobody else made {held.output.name}, so that there is nothing to have derived again.",
            remedy="Name your own executions with --execution; those of others count as the first making.",
        )
    tier = min((one.tier for one in told), key=_BEST.index)
    counted = [one for one in told if one.tier == tier][:MOST_EXECUTIONS]
    replayed, total = _coverage(ledger, held, counted)
    return Rederivation(
        who=who,
        stage=held.product.stage,
        recipe=held.product.recipe,
        product=held.product_digest,
        outcome=counted[-1].outcome,
        tier=tier,
        replayed_steps=replayed,
        total_steps=total,
        setup=_setup(ledger, counted[-1].execution),
        executions=tuple(one.digest for one in counted),
        time=time,
    )


def _making(
    digest: Digest, execution: Execution, held: Held, others: Sequence[Execution], ledger: Ledger
) -> Making | None:
    mark = mark_of(execution)
    if mark is not None and mark.product == held.product_digest:
        outcome = Outcome(mark.verdict.value)
        return Making(digest=digest, execution=execution, outcome=outcome, tier=_tier(mark), steps=mark.steps)
    if not execution.witnesses or execution.recipe != held.product.recipe:
        return None
    if execution.product != held.product_digest:
        return Making(digest=digest, execution=execution, outcome=Outcome.CONTRADICTS, tier="T0", steps=None)
    hosts = {str(one.host.get("name")) for one in others}
    tier = "T0" if not others else "T2" if hosts - {str(execution.host.get("name"))} else "T1"
    steps = covered(execution, _attempts(ledger, execution.stage))
    return Making(digest=digest, execution=execution, outcome=Outcome.AGREES, tier=tier, steps=steps)


def _tier(mark: Mark) -> str:
    return mark.tier if mark.tier in _BEST else "T0"


def _coverage(ledger: Ledger, held: Held, makings: Sequence[Making]) -> tuple[int | None, int | None]:
    """Steps that were made again of those that the product has; None for a product without steps."""
    mine = {one.digest for one in makings}
    attempts = _attempts(ledger, held.product.stage)
    others = [covered(one, attempts) for digest, one in _witnesses(ledger, held) if digest not in mine]
    whole = [steps for steps in others if steps is not None]
    if not whole:
        return None, None
    theirs = _steps(whole)
    return len(theirs & _steps(one.steps for one in makings if one.steps is not None)), len(theirs)


def _steps(ranges: Iterable[range]) -> set[int]:
    return {step for steps in ranges for step in steps}


def _witnesses(ledger: Ledger, held: Held) -> list[tuple[Digest, Execution]]:
    return [
        (digest, one)
        for digest, one in ledger.executions.items()
        if one.witnesses and one.product == held.product_digest and one.recipe == held.product.recipe
    ]


def _attempts(ledger: Ledger, stage: str) -> Mapping[str, Execution]:
    return {one.attempt: one for one in ledger.executions.values() if one.stage == stage}


def _setup(ledger: Ledger, execution: Execution) -> dict[str, Json]:
    """Host, Python, platform and accelerator as recorded, the environment by its digest, and what was pinned."""
    environment = None if execution.environment is None else ledger.environments.get(execution.environment)
    recipe = ledger.recipes.get(execution.recipe)
    told: dict[str, Json] = {} if environment is None else _imported(execution, environment)
    return {"host": execution.host, "determinism": {} if recipe is None else recipe.determinism, **told}


def _imported(execution: Execution, environment: Environment) -> dict[str, Json]:
    return {
        "environment": str(execution.environment),
        "python": environment.python,
        "platform": environment.platform,
        "accelerator": environment.accelerator,
    }
