"""A forecast beside the outcome of the run that it predicted.

Refuses an outcome of another run or of another size, and a score whose conclusions do not follow from what it holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import ClassVar, Self

from registry.core import decimals
from registry.core.canonical import Json
from registry.core.codec import name_of, opened
from registry.core.digests import Digest
from registry.core.forecast import QUANTITY, UNIT, Forecast, Interval, decimal_of, require_quantity
from registry.errors import DoesNotHold, MalformedRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """How a run came out: its evaluation by digest, its scale on the forecast's axis, and its loss."""

    name: str
    evaluation: Digest
    scale: Decimal
    loss: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A forecast beside the outcome."""

    KIND: ClassVar[str] = "score"
    SCHEMA: ClassVar[int] = 1

    forecast: Digest
    name: str
    evaluation: Digest
    predicted: Interval
    observed: Decimal
    extra: Mapping[str, Json] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        return self.KIND

    @property
    def error(self) -> Decimal:
        """Observed minus predicted loss."""
        return decimals.subtract(self.observed, self.predicted.point)

    @property
    def deviations(self) -> Decimal:
        """The error in deviations of the forecast, to three decimals."""
        return decimals.round_places(decimals.ratio(self.error, self.predicted.deviation), 3)

    @property
    def inside(self) -> bool:
        """Whether the outcome lies in the forecast's interval."""
        return self.predicted.holds(self.observed)

    def to_json(self) -> dict[str, Json]:
        return {
            **self.extra,
            "kind": self.KIND,
            "schema": self.SCHEMA,
            "forecast": str(self.forecast),
            "name": self.name,
            "evaluation": str(self.evaluation),
            "quantity": QUANTITY,
            "unit": UNIT,
            "predicted": self.predicted.to_json(),
            "observed": decimals.write(self.observed),
            "error": decimals.write(self.error),
            "deviations": decimals.write(self.deviations),
            "inside": self.inside,
        }

    @classmethod
    def from_json(cls, value: Json) -> Self:
        """Read a score. Raises ``MalformedRecord`` also when what it concludes does not follow from what it holds."""
        reader = opened(value, cls.KIND, cls.SCHEMA)
        require_quantity(reader)
        concluded = reader.text("error"), reader.text("deviations"), reader.flag("inside")
        one = cls(
            forecast=reader.digest("forecast"),
            name=reader.text("name"),
            evaluation=reader.digest("evaluation"),
            predicted=reader.object("predicted", Interval.read),
            observed=decimal_of(reader, "observed"),
            extra=reader.rest(),
        )
        if concluded != (decimals.write(one.error), decimals.write(one.deviations), one.inside):
            raise MalformedRecord("The score does not follow from its own prediction and outcome.")
        return one


def compare(forecast: Forecast, outcome: Observed) -> Score:
    """Score ``forecast`` against ``outcome``. Raises ``DoesNotHold`` when it spoke of another run or another size."""
    if outcome.name != forecast.predicts:
        raise DoesNotHold(f"The forecast is of {forecast.predicts}, not of {outcome.name}.")
    if outcome.scale != forecast.scale:
        raise DoesNotHold(
            f"The forecast is of a run of {forecast.scale} {forecast.axis}; {outcome.name} had {outcome.scale}.",
            remedy="Forecast the run as it will be, before it starts.",
        )
    return Score(
        forecast=name_of(forecast),
        name=outcome.name,
        evaluation=outcome.evaluation,
        predicted=forecast.interval,
        observed=outcome.loss,
    )
