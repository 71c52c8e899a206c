"""A run that a tracker holds, as a foreign record: its settings as claims, its curves as counts, ends and a digest."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from math import isfinite
from typing import Final

from registry.core import decimals
from registry.core.adopted.foreign import claims, slug
from registry.core.adopted.record import Adopted, Ended, Origin, Role
from registry.core.canonical import Json
from registry.core.digests import Digest
from registry.core.history import Copy, Series
from registry.core.names import Name
from registry.errors import MalformedRecord

SOURCE: Final = "run"
_MOST_METRICS: Final = 1000


def of_run(
    run: tuple[str, str, Digest], copy: Copy, facts: Mapping[str, Json], *, name: str | None, time: str
) -> Adopted:
    """The record of a run. ``run`` is its system, its id there and the digest of what was read.

    ``name`` is what it is to be called; None is ``<system>/<id>``. ``facts`` are what the tracker tells beside curves;
    its ``state`` says how it ended. Raises ``MalformedRecord`` for more metrics than a record has room for.
    """
    system, run_id, digest = run
    if len(copy.history.series) > _MOST_METRICS:
        raise MalformedRecord(f"The run {run_id} has {len(copy.history.series)} metrics, over {_MOST_METRICS}.")
    told: dict[str, Json] = {
        "run": run_id,
        "points": copy.history.points,
        "history_digest": str(copy.history.digest),
        "last_metric_step": copy.history.last_step,
        "damage": "; ".join(copy.damage) or None,
        "final": {metric: _value(one) for metric, one in copy.history.series.items()},
        **facts,
    }
    return Adopted(
        name=Name.parse(name or f"{system}/{slug(run_id)}").stage,
        role=Role.RUN,
        ended=_ended(str(facts.get("state", ""))),
        origin=Origin(system=system, id=run_id, digest=digest),
        sources={SOURCE: f"the {system} run {run_id}"},
        claims=claims(told, SOURCE),
        links=(),
        absence=None,
        time=time,
    )


def _value(series: Series) -> str:
    """The last value of a metric, rounded to what a record holds."""
    value = series.values[-1]
    if not isfinite(value):
        return str(value)
    return decimals.write(decimals.round_digits(Decimal(value), 12))


def _ended(state: str) -> Ended:
    known = {"FINISHED": Ended.COMPLETE, "FAILED": Ended.FAILED, "KILLED": Ended.PARTIAL, "RUNNING": Ended.RUNNING}
    return known.get(state.upper(), Ended.UNKNOWN)
