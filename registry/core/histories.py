"""A history to be compared: what is known of it without its tensors, and the sets of tensors that it kept, by step.

Pure: ``place`` is only a name here. Refuses to compare two histories that share no kept step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from registry.core.digests import Digest
from registry.core.parting import Side
from registry.errors import Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A set of tensors: where it lies, if it does, and the root on record, None for one that is not on record."""

    place: str | None
    root: Digest | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A history. ``step`` is the one that was named; ``kept`` has the key None for tensors without a step."""

    side: Side
    step: int | None = None
    kept: Mapping[int | None, Kept] = field(default_factory=dict)

    @property
    def steps(self) -> tuple[int, ...]:
        """The kept steps, ascending."""
        return tuple(sorted(step for step in self.kept if step is not None))

    def at(self, step: int | None) -> Kept:
        """What was kept at a step; a single set of tensors is of whatever step is asked."""
        return next(iter(self.kept.values())) if step not in self.kept and len(self.kept) == 1 else self.kept[step]

    def has(self, step: int | None) -> bool:
        """Whether there is something to compare at a step."""
        return step in self.kept or len(self.kept) == 1


def shared_step(recorded: Result, found: Result) -> int | None:
    """The step that one of two histories names, else the last that both kept; None for tensors without steps.

    Raises ``Refused`` when they name two, or one of them kept nothing there.
    """
    named = sorted({one.step for one in (recorded, found) if one.step is not None})
    both = sorted(set(recorded.steps) & set(found.steps))
    step = named[0] if named else both[-1] if both else max((*recorded.steps, *found.steps), default=None)
    if len(named) > 1 or not recorded.has(step) or not found.has(step):
        told = "; ".join(
            f"{one.side.label} kept {', '.join(map(str, one.steps)) or 'none'}" for one in (recorded, found)
        )
        raise Refused(f"There is no step at which both can be compared: {told}.", remedy="Name a checkpoint of each.")
    return step


def last_shared(steps: Sequence[int], same: Callable[[int], bool]) -> tuple[int | None, int | None]:
    """The last of ascending steps that is the same on both sides and the first that is not, None where there is none.

    A binary search: what has parted stays parted.
    """
    low, high = 0, len(steps)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if same(steps[middle]) else (low, middle)
    return (steps[low - 1] if low else None), (steps[low] if low < len(steps) else None)
