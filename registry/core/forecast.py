"""A forecast, sealed before the run that it predicts.

A deterministic record without a clock: what it was made of is in it by digest, so that a forecast that was altered, or
fitted on other runs, has another name. Refuses an interval without its point, and a forecast of a run that it rests on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import ClassVar, Self

from registry.core import canonical, decimals
from registry.core.canonical import Json
from registry.core.codec import Reader, opened
from registry.core.digests import Digest
from registry.core.names import Name
from registry.errors import MalformedRecord

FEWEST_RUNS = 3
PLACES = 6
QUANTITY = "heldout_macro_loss"
UNIT = "nats per token"


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedRun:
    """A finished run that a forecast rests on: its evaluation and summary by digest, its scale and its loss."""

    name: str
    evaluation: Digest
    summary: Digest
    scale: Decimal
    loss: Decimal

    def to_json(self) -> dict[str, Json]:
        return {
            "name": self.name,
            "evaluation": str(self.evaluation),
            "summary": str(self.summary),
            "scale": decimals.write(self.scale),
            "loss": decimals.write(self.loss),
        }

    @classmethod
    def read(cls, reader: Reader) -> Self:
        one = cls(
            name=reader.text("name"),
            evaluation=reader.digest("evaluation"),
            summary=reader.digest("summary"),
            scale=decimal_of(reader, "scale"),
            loss=decimal_of(reader, "loss"),
        )
        reader.close()
        return one


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A loss with bounds that hold it with probability ``level``; ``deviation`` is half of the middle 68 %."""

    point: Decimal
    low: Decimal
    high: Decimal
    deviation: Decimal
    level: Decimal
    method: str

    def __post_init__(self) -> None:
        if not (self.low <= self.point <= self.high and self.deviation > 0 and 0 < self.level < 1):
            raise MalformedRecord("An interval must hold its point, with a positive deviation and a level below one.")

    def holds(self, loss: Decimal) -> bool:
        """Whether ``loss`` lies within the bounds."""
        return self.low <= loss <= self.high

    def to_json(self) -> dict[str, Json]:
        return {
            "point": decimals.write(self.point),
            "low": decimals.write(self.low),
            "high": decimals.write(self.high),
            "deviation": decimals.write(self.deviation),
            "level": decimals.write(self.level),
            "method": self.method,
        }

    @classmethod
    def read(cls, reader: Reader) -> Self:
        one = cls(
            point=decimal_of(reader, "point"),
            low=decimal_of(reader, "low"),
            high=decimal_of(reader, "high"),
            deviation=decimal_of(reader, "deviation"),
            level=decimal_of(reader, "level"),
            method=reader.text("method"),
        )
        reader.close()
        return one


@dataclass(frozen=True, slots=True, kw_only=True)
class Backtest:
    """The same method tried on the ladder itself: its largest run predicted from the others."""

    name: str
    predicted: Interval
    observed: Decimal

    def to_json(self) -> dict[str, Json]:
        return {
            "name": self.name,
            "predicted": self.predicted.to_json(),
            "observed": decimals.write(self.observed),
            "inside": self.predicted.holds(self.observed),
        }

    @classmethod
    def read(cls, reader: Reader) -> Self:
        one = cls(
            name=reader.text("name"),
            predicted=reader.object("predicted", Interval.read),
            observed=decimal_of(reader, "observed"),
        )
        if reader.flag("inside") != one.predicted.holds(one.observed):
            raise MalformedRecord("A backtest says that its loss is on the other side of its bounds.")
        reader.close()
        return one


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What a run's held-out loss will be, and everything that this was concluded from.

    ``axis`` names the scale (``flops``, ``active_parameters``); ``law`` and ``prior`` hold the form and its numbers
    as decimal strings. A loss is in nats per token, averaged over the domains.
    """

    KIND: ClassVar[str] = "forecast"
    SCHEMA: ClassVar[int] = 1

    predicts: str
    axis: str
    scale: Decimal
    runs: tuple[FittedRun, ...]
    law: Mapping[str, Json]
    prior: Mapping[str, Json]
    interval: Interval
    backtest: Backtest | None
    extra: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [_stage(run.name) for run in self.runs]
        if len(set(names)) != len(names) or len(names) < FEWEST_RUNS:
            raise MalformedRecord(f"A forecast rests on at least {FEWEST_RUNS} different runs.")
        if _stage(self.predicts) in names:
            raise MalformedRecord(f"A forecast of {self.predicts} cannot rest on {self.predicts}.")

    @property
    def kind(self) -> str:
        return self.KIND

    def to_json(self) -> dict[str, Json]:
        return {
            **self.extra,
            "kind": self.KIND,
            "schema": self.SCHEMA,
            "predicts": self.predicts,
            "quantity": QUANTITY,
            "unit": UNIT,
            "axis": self.axis,
            "scale": decimals.write(self.scale),
            "runs": [run.to_json() for run in self.runs],
            "law": self.law,
            "prior": self.prior,
            "interval": self.interval.to_json(),
            "backtest": None if self.backtest is None else self.backtest.to_json(),
        }

    @classmethod
    def from_json(cls, value: Json) -> Self:
        reader = opened(value, cls.KIND, cls.SCHEMA)
        require_quantity(reader)
        return cls(
            predicts=reader.text("predicts"),
            axis=reader.text("axis"),
            scale=decimal_of(reader, "scale"),
            runs=reader.objects("runs", FittedRun.read),
            law=reader.mapping("law"),
            prior=reader.mapping("prior"),
            interval=reader.object("interval", Interval.read),
            backtest=reader.optional("backtest", lambda name: reader.object(name, Backtest.read)),
            extra=reader.rest(),
        )


def forecast_record(data: bytes) -> Forecast:
    """Read the bytes of a forecast, as a stage wrote or an archive sealed them. Raises ``MalformedRecord``."""
    return Forecast.from_json(canonical.decode(data))


def _stage(text: str) -> str:
    if Name.parse(text).stage != text:
        raise MalformedRecord(f"{text!r} is not the name of a stage.")
    return text


def decimal_of(reader: Reader, name: str) -> Decimal:
    """Take a decimal string."""
    return decimals.read(reader.text(name))


def require_quantity(reader: Reader) -> None:
    """Take ``quantity`` and ``unit``. Raises ``MalformedRecord`` when they are not those of a held-out macro loss."""
    if (reader.text("quantity"), reader.text("unit")) != (QUANTITY, UNIT):
        raise MalformedRecord(f"The quantity must be the held-out macro loss in {UNIT}.")
