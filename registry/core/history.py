"""The history of a run: values of metrics by step, and the comparison of two of them point by point.

A tracker's curve is a copy; curves have lost points in the field. Here our own history is held against such a copy, to
the last bit of every value, and every difference is a typed finding with both sides. Pure. Refuses columns of unequal
length and steps that are not whole numbers from zero. What a system cannot hold (the sign of zero, infinities) is
stated as its :class:`Fidelity`, never tolerated in silence.
"""

from __future__ import annotations

import hashlib
import math
import struct
import sys
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Self, TypeAlias

from registry.core.digests import Algorithm, Digest
from registry.errors import MalformedRecord

LARGEST_STEP = 2**53 - 1


class Side(StrEnum):
    """Which of the two histories a finding is about."""

    OURS = "ours"
    THEIRS = "theirs"


class Fidelity(StrEnum):
    """What a system that keeps a copy can hold of a 64-bit float.

    BITS: everything, but one not-a-number. JSON: no negative zero. SQL: no negative zero, and the largest finite number
    in place of infinity.
    """

    BITS = "bits"
    JSON = "json"
    SQL = "sql"

    def held(self, value: float) -> float:
        """What such a system returns for ``value``."""
        if math.isnan(value):
            return math.nan
        if self is Fidelity.SQL and math.isinf(value):
            return math.copysign(sys.float_info.max, value)
        return value if self is Fidelity.BITS else value + 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One metric: steps in ascending order (int64) and the value at each (float64)."""

    steps: array[int]
    values: array[float]

    def __len__(self) -> int:
        return len(self.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Series by the name of their metric, sorted."""

    series: Mapping[str, Series]

    @classmethod
    def of(cls, points: Iterable[tuple[int, str, float]]) -> Self:
        """Build from (step, metric, value). The order of points with one step is kept.

        Raises ``MalformedRecord`` for a step that is not a whole number from 0 to 2**53 - 1.
        """
        found: dict[str, list[tuple[int, float]]] = {}
        for step, metric, value in points:
            if not 0 <= step <= LARGEST_STEP:
                raise MalformedRecord(f"The history of {metric!r} has the step {step}.")
            found.setdefault(metric, []).append((step, value))
        return cls(series={metric: _series(found[metric]) for metric in sorted(found)})

    @property
    def points(self) -> int:
        """The number of values."""
        return sum(len(one) for one in self.series.values())

    @property
    def last_step(self) -> int | None:
        """The largest step of any metric; None for an empty history."""
        return max((one.steps[-1] for one in self.series.values()), default=None)

    @property
    def digest(self) -> Digest:
        """SHA-256 over names, steps and the bits of all values, independent of how they were kept."""
        whole = hashlib.sha256()
        for metric, one in self.series.items():
            name = metric.encode("utf-8", "surrogatepass")
            whole.update(struct.pack("<QQ", len(name), len(one)) + name)
            whole.update(_little(one.steps) + _little(one.values))
        return Digest(Algorithm.SHA256, whole.hexdigest())

    def only(self, metrics: Iterable[str]) -> Self:
        """The history of these metrics, as far as it is here."""
        wanted = set(metrics)
        return type(self)(series={metric: one for metric, one in self.series.items() if metric in wanted})

    def within(self, first: int, last: int) -> Self:
        """The points with ``first`` ≤ step ≤ ``last``; a metric without any is left out."""
        return type(self).of(point for point in self if first <= point[0] <= last)

    def __iter__(self) -> Iterator[tuple[int, str, float]]:
        """All points as (step, metric, value), metric by metric."""
        for metric, one in self.series.items():
            for step, value in zip(one.steps, one.values, strict=True):
                yield step, metric, value


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A history as another system returned it. ``damage`` says in sentences what of its bytes could not be read."""

    history: History
    fidelity: Fidelity
    damage: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """Points that we have and the copy lacks. ``ours`` and ``theirs`` count the points of the metric on each side."""

    metric: str
    first_step: int
    last_step: int
    points: int
    ours: int
    theirs: int

    @property
    def sentence(self) -> str:
        """The finding in words."""
        where = f"between steps {self.first_step} and {self.last_step}"
        return f"{self.metric}: the copy lacks {self.points} of our {self.ours} points, {where}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Extra:
    """Points that the copy has and we lack. ``ours`` and ``theirs`` count the points of the metric on each side."""

    metric: str
    first_step: int
    last_step: int
    points: int
    ours: int
    theirs: int

    @property
    def sentence(self) -> str:
        """The finding in words."""
        where = f"between steps {self.first_step} and {self.last_step}"
        return f"{self.metric}: the copy has {self.points} points that we lack, {where}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Differing:
    """Values that are not the same bits: how many, and both values at the first such step, spelled exactly."""

    metric: str
    first_step: int
    points: int
    ours: str
    theirs: str

    @property
    def sentence(self) -> str:
        """The finding in words."""
        first = f"first at step {self.first_step}: {self.ours} here, {self.theirs} there"
        return f"{self.metric}: {self.points} values differ, {first}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated:
    """Steps that one side has more than once for a metric."""

    side: Side
    metric: str
    first_step: int
    points: int

    @property
    def sentence(self) -> str:
        """The finding in words."""
        return f"{self.metric}: {self.points} points of {self.side} repeat a step, first step {self.first_step}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Steps that one side skips of a metric that comes every ``stride`` steps. No ``next_step``: it ends too early."""

    side: Side
    metric: str
    last_step: int
    next_step: int | None
    stride: int

    @property
    def sentence(self) -> str:
        """The finding in words."""
        until = "the history goes on" if self.next_step is None else f"it goes on at step {self.next_step}"
        return f"{self.metric} of {self.side}: nothing after step {self.last_step}, every {self.stride}, but {until}."


HistoryFinding: TypeAlias = Missing | Extra | Differing | Repeated | Gap


def compare(ours: History, theirs: History, fidelity: Fidelity = Fidelity.BITS) -> tuple[HistoryFinding, ...]:
    """Hold a copy against our history, point by point; no findings when every point is there with every bit.

    Our values are taken as a system of ``fidelity`` would return them. Where a side repeats a step, its last value
    counts, and the repetition is a finding.
    """
    findings: list[HistoryFinding] = []
    empty = _series([])
    for metric in sorted({*ours.series, *theirs.series}):
        mine, other = ours.series.get(metric, empty), theirs.series.get(metric, empty)
        if not _same(mine, other):
            findings.extend(_differences(metric, mine, other, fidelity))
    return tuple(findings)


def gaps(history: History, side: Side = Side.OURS) -> tuple[Gap, ...]:
    """Steps that a history skips. A metric's stride is its most common distance; a metric of one point has none."""
    last = history.last_step or 0
    found: list[Gap] = []
    for metric, one in history.series.items():
        distances = Counter(after - before for before, after in pairwise(one.steps) if after > before)
        if not distances:
            continue
        stride = min(distances, key=lambda distance: (-distances[distance], distance))
        pairs = ((before, after) for before, after in pairwise(one.steps) if after - before > stride)
        found.extend(
            Gap(side=side, metric=metric, last_step=before, next_step=after, stride=stride) for before, after in pairs
        )
        if one.steps[-1] + stride <= last:
            found.append(Gap(side=side, metric=metric, last_step=one.steps[-1], next_step=None, stride=stride))
    return tuple(found)


def spelled(value: float) -> str:
    """The shortest decimal that reads back as exactly ``value``, or ``nan``, ``inf``, ``-inf``."""
    return repr(value)


def _series(points: Sequence[tuple[int, float]]) -> Series:
    ordered = sorted(points, key=lambda point: point[0])
    return Series(steps=array("q", [step for step, _ in ordered]), values=array("d", [value for _, value in ordered]))


def _little(values: array[int] | array[float]) -> bytes:
    if sys.byteorder == "big":
        values = values[:]
        values.byteswap()
    return values.tobytes()


def _same(ours: Series, theirs: Series) -> bool:
    return ours.steps == theirs.steps and ours.values.tobytes() == theirs.values.tobytes()


def _differences(metric: str, ours: Series, theirs: Series, fidelity: Fidelity) -> Iterator[HistoryFinding]:
    mine = dict(zip(ours.steps, ours.values, strict=True))
    other = dict(zip(theirs.steps, theirs.values, strict=True))
    yield from _repeated(Side.OURS, metric, ours)
    yield from _repeated(Side.THEIRS, metric, theirs)
    for kind, steps in ((Missing, mine.keys() - other.keys()), (Extra, other.keys() - mine.keys())):
        if steps:
            first, last = min(steps), max(steps)
            yield kind(
                metric=metric, first_step=first, last_step=last, points=len(steps), ours=len(ours), theirs=len(theirs)
            )
    unlike = sorted(step for step in mine.keys() & other.keys() if not _equal(mine[step], other[step], fidelity))
    if unlike:
        first = unlike[0]
        yield Differing(
            metric=metric,
            first_step=first,
            points=len(unlike),
            ours=spelled(mine[first]),
            theirs=spelled(other[first]),
        )


def _repeated(side: Side, metric: str, one: Series) -> Iterator[Repeated]:
    again = [after for before, after in pairwise(one.steps) if before == after]
    if again:
        yield Repeated(side=side, metric=metric, first_step=again[0], points=len(again))


def _equal(ours: float, theirs: float, fidelity: Fidelity) -> bool:
    bits: Callable[[float], bytes] = struct.Struct("<d").pack
    return bits(fidelity.held(ours)) == bits(math.nan if math.isnan(theirs) else theirs)
