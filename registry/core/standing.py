"""How far a product has been made again: the reproduction tier, with setups and step count.

T0 is custody: one execution gave it, and its bytes are on record. T1 is a bit-exact second making on the same host, T2
on another. A resumed attempt counts together with those it resumed from: it vouches for the steps that they ran. A
re-derivation of a window that agreed counts for its steps. One under another setup counts, where there is nothing
better, as far as it was asked to: T3 within a tolerance, T4 within the noise of the held-out loss. Refuses to count
complete executions of another recipe or product.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from registry.core.digests import Digest
from registry.core.records import Execution
from registry.core.rederivation import Mark, mark_of


class Tier(StrEnum):
    """Reproduction tiers that executions can show by themselves."""

    CUSTODY = "T0"
    SAME_SETUP = "T1"
    OTHER_HOST = "T2"
    TOLERANCE = "T3"
    NOISE = "T4"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The tier reached, the hosts, and the steps that were made at least twice (None for a stage without steps).

    ``within`` is the tolerance or noise of T3 and T4, as it was stated.
    """

    tier: Tier
    witnesses: int
    hosts: tuple[str, ...]
    replayed_steps: int | None
    total_steps: int | None
    within: str | None = None

    @property
    def label(self) -> str:
        """The tier, with the steps that it covers where there are any."""
        if self.within is not None:
            return f"{self.tier} within {self.within}"
        if self.tier is Tier.CUSTODY or self.total_steps is None:
            return self.tier.value
        return f"{self.tier} {self.replayed_steps}/{self.total_steps} steps"


def standing(witnesses: Sequence[Execution], attempts: Mapping[str, Execution]) -> Standing:
    """Judge complete executions of one product. ``attempts`` are all executions of the stage, by attempt."""
    windows = _windows(witnesses, attempts)
    exact = [(one, mark.steps) for one, mark in windows if mark.witnesses and mark.steps is not None]
    ranges = [covered(one, attempts) for one in witnesses]
    known = [steps for steps in ranges if steps is not None]
    hosts = tuple(sorted({str(one.host.get("name")) for one in (*witnesses, *(one for one, _ in exact))}))
    seen = [*known, *_within(known, [steps for _, steps in exact])]
    replayed, total = (None, None) if not known or len(known) < len(ranges) else _twice(seen)
    again = len(witnesses) > 1 if replayed is None else replayed > 0
    best = Tier.CUSTODY if not again else Tier.SAME_SETUP if len(hosts) == 1 else Tier.OTHER_HOST
    tier, within = (best, None) if again else _approximate(mark for _, mark in windows)
    return Standing(
        tier=tier,
        witnesses=len(witnesses),
        hosts=hosts,
        replayed_steps=replayed,
        total_steps=total,
        within=within,
    )


def _windows(witnesses: Sequence[Execution], attempts: Mapping[str, Execution]) -> list[tuple[Execution, Mark]]:
    """Re-derivations of this product that gave no product themselves."""
    products: set[Digest | None] = {one.product for one in witnesses}
    marked = ((one, mark_of(one)) for one in attempts.values() if one.product is None)
    return [(one, mark) for one, mark in marked if mark is not None and mark.product in products]


def _within(known: Sequence[range], windows: Sequence[range]) -> list[range]:
    """Windows as far as they lie in what is known: a mark cannot add steps to a run."""
    first, last = min((one.start for one in known), default=0), max((one.stop for one in known), default=0)
    return [range(max(one.start, first), max(first, min(one.stop, last))) for one in windows]


def _approximate(marks: Iterable[Mark]) -> tuple[Tier, str | None]:
    """T3 or T4 as a re-derivation says it, the nearest; else custody."""
    told = {mark.tier: mark for mark in marks if not mark.witnesses and mark.whole}
    if Tier.TOLERANCE.value in told:
        return Tier.TOLERANCE, told[Tier.TOLERANCE.value].tolerance
    if Tier.NOISE.value in told:
        return Tier.NOISE, told[Tier.NOISE.value].noise
    return Tier.CUSTODY, None


def covered(execution: Execution, attempts: Mapping[str, Execution]) -> range | None:
    """The steps after which updates ``execution`` and the attempts that it resumed from ran: first, up to reached.

    The range ends early where an attempt resumed from one that is not on record. None for a stage without steps.
    """
    reached = _step(execution, "reached")
    first = _step(execution, "first")
    if reached is None or first is None:
        return None
    seen = {execution.attempt}
    while execution.resumed is not None:
        earlier = attempts.get(str(execution.resumed.get("attempt")))
        begun = None if earlier is None else _step(earlier, "first")
        if earlier is None or begun is None or earlier.attempt in seen or earlier.recipe != execution.recipe:
            break
        seen.add(earlier.attempt)
        first = min(first, begun)
        execution = earlier
    return range(first, reached)


def _twice(ranges: Iterable[range]) -> tuple[int, int]:
    """Steps in at least two ranges, and in at least one."""
    edges = sorted([edge for steps in ranges if len(steps) for edge in ((steps.start, 1), (steps.stop, -1))])
    twice = total = depth = at = 0
    for step, change in edges:
        total += (step - at) * (depth >= 1)
        twice += (step - at) * (depth >= 2)
        depth, at = depth + change, step
    return twice, total


def _step(execution: Execution, key: str) -> int | None:
    value = None if execution.steps is None else execution.steps.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
