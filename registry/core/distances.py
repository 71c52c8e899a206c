"""How far two results lie apart: tensors value by value, losses step by step, and what a stated tolerance says of it.

Bit-exact answers come first and need none of this. A distance is measured only between tensors of one name, dtype and
shape. Refuses a tolerance that is not a decimal of zero or more, and to call a pair within one when a value is no
number or a tensor stands on one side only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from registry.core import canonical, transcript
from registry.core.transcript import Transcript
from registry.errors import MalformedRecord, Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorDistance:
    """Two tensors of one spec. ``largest`` is the largest absolute distance of two elements, ``apart`` the Euclidean
    norm of the difference, ``norm`` that of the recorded values; None for a dtype whose values cannot be read here. A
    NaN or infinity on one side alone gives infinity."""

    name: str
    dtype: str
    elements: int
    differing: int
    largest: float | None
    apart: float | None
    norm: float | None

    @property
    def relative(self) -> float | None:
        """The norm of the difference over the norm of the recorded values; infinite against nothing but zeros."""
        if self.apart is None or self.norm is None:
            return None
        if self.apart == 0:
            return 0.0
        return self.apart / self.norm if self.norm > 0 else math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class LossDistance:
    """Two losses, by the name of what was measured: ``step 12`` or ``heldout/code``; in nats."""

    name: str
    recorded: float
    found: float

    @property
    def distance(self) -> float:
        """The absolute difference; infinite when one is no number."""
        apart = abs(self.recorded - self.found)
        return apart if math.isfinite(apart) else math.inf


def decimal(text: str, what: str) -> Decimal:
    """A tolerance as it was given. Raises ``Refused`` unless it is a finite decimal of zero or more."""
    try:
        value = Decimal(text)
    except InvalidOperation as error:
        raise Refused(f"The {what} {text!r} is no number.", remedy="Write it like 0.001.") from error
    if not value.is_finite() or value < 0:
        raise Refused(f"The {what} {text!r} is not a finite number of zero or more.", remedy="Write it like 0.001.")
    return value


def step_losses(recorded: Transcript, found: Transcript) -> tuple[LossDistance, ...]:
    """The losses of the steps that both tell."""
    pairs = ((one, found.at(one.step)) for one in recorded.lines)
    return tuple(
        LossDistance(
            name=f"step {mine.step}", recorded=transcript.number(mine.loss), found=transcript.number(theirs.loss)
        )
        for mine, theirs in pairs
        if theirs is not None
    )


def heldout_losses(recorded: bytes, found: bytes) -> tuple[LossDistance, ...]:
    """The held-out losses of two ``evaluation.json``, per domain and macro; those that both have, by name."""
    mine, theirs = _losses(recorded), _losses(found)
    return tuple(
        LossDistance(name=f"heldout/{name}", recorded=mine[name], found=theirs[name])
        for name in sorted(mine.keys() & theirs.keys())
    )


def largest(distances: Iterable[LossDistance]) -> LossDistance | None:
    """The pair that lies furthest apart, the first of equals; None when there is none."""
    return max(distances, key=lambda one: one.distance, default=None)


def within(tolerance: Decimal, tensors: Sequence[TensorDistance], losses: Sequence[LossDistance]) -> bool:
    """Whether every tensor is relatively, and every loss absolutely in nats, within ``tolerance``; at least one."""
    relatives = [one.relative for one in tensors]
    if any(one is None for one in relatives) or not (relatives or losses):
        return False
    apart = [*(one for one in relatives if one is not None), *(one.distance for one in losses)]
    return all(math.isfinite(one) and Decimal(one) <= tolerance for one in apart)


def within_noise(noise: Decimal, losses: Sequence[LossDistance]) -> bool:
    """Whether the macro held-out loss is within ``noise`` nats of the recorded one. False when it was not measured."""
    macro = [one for one in losses if one.name == "heldout/macro"]
    return bool(macro) and math.isfinite(macro[0].distance) and Decimal(macro[0].distance) <= noise


def _losses(data: bytes) -> dict[str, float]:
    """``loss`` of every object in an evaluation, by its dotted place, without the word ``domains``."""
    try:
        value = canonical.decode(data.removesuffix(b"\n"))
    except MalformedRecord:
        return {}
    return dict(_found(value, ())) if isinstance(value, Mapping) else {}


def _found(value: Mapping[str, canonical.Json], place: tuple[str, ...]) -> Iterable[tuple[str, float]]:
    for key, inner in value.items():
        if isinstance(inner, Mapping):
            yield from _found(inner, (*place, key))
        elif key == "loss" and isinstance(inner, str):
            name = ".".join(part for part in place if part != "domains")
            yield name or "all", _number(inner)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
