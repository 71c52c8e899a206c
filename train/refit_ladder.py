"""What a foreign forecast rests on, read from adopted records: finished rungs, those cut short, and the run itself.

Scales are FLOPs by the ladder's arithmetic, losses as they are told. Refuses records without exactly one forecast.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from registry.core.adopted.arithmetic import rung_of
from registry.core.adopted.claims import number
from registry.core.adopted.record import Bond, Ended, Role
from registry.core.adopted.shelf import Shelf, Thing
from registry.errors import Refused
from train.scaling import Point

_FINAL, _CUT = "final_loss", "loss_at_80_percent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """What a foreign forecast rests on: finished rungs, those cut short with their last loss, and the run itself."""

    forecast: str
    finished: tuple[tuple[str, Point], ...]
    cut: tuple[tuple[str, Point], ...]
    run: str
    scale: int
    published: float


def ladder(shelf: Shelf) -> Ladder:
    """The ladder of the one forecast on the shelf. Raises ``Refused`` when there is none, or it rests on too little."""
    forecasts = [one for one in shelf.things.values() if one.role is Role.FORECAST]
    if len(forecasts) != 1:
        raise Refused(
            f"{len(forecasts)} foreign forecasts are on record, not one.",
            remedy="Adopt the document that tells of it: reckon adopt registry/facts/marin.json",
        )
    (forecast,) = forecasts
    rungs = [shelf.things[link.name] for link in forecast.bound(Bond.REST) if link.name in shelf.things]
    runs = [one for one in shelf.things.values() if any(one.bound(Bond.FORECAST))]
    run = runs[0] if len(runs) == 1 else None
    rung = None if run is None else rung_of(run)
    told = number(forecast.said["predicted_loss"][0].value) if forecast.said.get("predicted_loss") else None
    if run is None or rung is None or told is None:
        raise Refused(
            f"{forecast.name} does not tell of which run it is, or what it says.", remedy="See 'reckon show'."
        )
    return Ladder(
        forecast=forecast.name,
        finished=tuple(_points(rungs, _FINAL, cut=False)),
        cut=tuple(_points(rungs, _CUT, cut=True)),
        run=run.name,
        scale=rung.flops,
        published=float(told),
    )


def _points(rungs: Sequence[Thing], quantity: str, *, cut: bool) -> Iterator[tuple[str, Point]]:
    for one in rungs:
        rung, losses = rung_of(one), one.said.get(quantity, ())
        loss = number(losses[0].value) if losses else None
        if rung is not None and loss is not None and (one.ended is not Ended.COMPLETE) == cut:
            yield one.name, Point(scale=float(rung.flops), loss=float(loss))
