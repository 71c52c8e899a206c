"""The grade of a run in another setup: which reproduction tier holds against a reference, and how far apart they are.

The same bits at every step and one root are T1, on one host. Other bits within a stated tolerance are T3. The data must
be the same to the bit in any case: another order is no reproduction at all. Refuses to grade nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from registry.core.canonical import Json
from registry.core.decimals import divide, round_places, write
from registry.core.transcript import Line, number
from registry.errors import Refused

TOLERANCE: Final = Fraction(1, 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """``tier`` is None when nothing holds. Distances are relative, of losses and gradient norms, the largest of all
    steps; ``first_difference`` is the first step whose bits differ."""

    tier: str | None
    steps: int
    order_equal: bool
    root_equal: bool
    first_difference: int | None
    loss_distance: Fraction
    norm_distance: Fraction
    tolerance: Fraction
    roots: tuple[str, str]

    @property
    def holds(self) -> bool:
        """Whether some tier holds."""
        return self.tier is not None

    def to_json(self) -> dict[str, Json]:
        return {
            "holds": self.holds,
            "tier": self.tier,
            "steps": self.steps,
            "order_equal": self.order_equal,
            "root_equal": self.root_equal,
            "first_difference": self.first_difference,
            "loss_distance": _text(self.loss_distance),
            "norm_distance": _text(self.norm_distance),
            "tolerance": _text(self.tolerance),
            "root": self.roots[0],
            "reference_root": self.roots[1],
        }


def grade(
    run: Sequence[Line], reference: Sequence[Line], roots: tuple[str, str], tolerance: Fraction = TOLERANCE
) -> Grade:
    """Grade a run against a reference over the same steps. Raises ``Refused`` when they are not of the same steps."""
    if not run or [line.step for line in run] != [line.step for line in reference]:
        raise Refused("The run and its reference are not of the same steps.", remedy="Compare the same window.")
    pairs = list(zip(run, reference, strict=True))
    order = all(one.order == other.order for one, other in pairs)
    loss = max(_distance(one.loss, other.loss) for one, other in pairs)
    norm = max(_distance(one.gradient_norm, other.gradient_norm) for one, other in pairs)
    same = all(one == other for one, other in pairs) and roots[0] == roots[1]
    close = order and max(loss, norm) <= tolerance
    return Grade(
        tier="T1" if same else "T3" if close else None,
        steps=len(pairs),
        order_equal=order,
        root_equal=roots[0] == roots[1],
        first_difference=next((one.step for one, other in pairs if one != other), None),
        loss_distance=loss,
        norm_distance=norm,
        tolerance=tolerance,
        roots=roots,
    )


def _distance(bits: int, reference: int) -> Fraction:
    """The relative distance of two floats by their bits; none between equal bits. What is no number is else as far as
    anything."""
    one, other = number(bits), number(reference)
    if bits == reference or one == other:
        return Fraction(0)
    if not (abs(one) < float("inf") and abs(other) < float("inf")):
        return Fraction(10**6)
    return abs(Fraction(one) - Fraction(other)) / max(abs(Fraction(other)), Fraction(1, 10**12))


def _text(value: Fraction) -> str:
    return write(round_places(divide(value), 12))
