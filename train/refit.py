"""The scaling law of a foreign ladder, fitted again from its adopted losses by the method that forecasts our own hero.

Reads ``manifests/adopted``, writes ``law.json`` (canonical) and ``law.svg``. A rung that ended gives a point; one that
was cut short gives only a bound, for nobody saw where it would have ended. Beside it stand the same law without that
rung, what comes out when its last loss is taken for a final one, and the end of that rung which the published figure
would need. No stage of the pipeline imports this. Refuses a forecast that rests on fewer than three finished rungs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from scipy.optimize import brentq

from registry.core import canonical, decimals
from registry.core.adopted.shelf import Shelf
from registry.core.canonical import Json
from registry.core.digests import Digest, sha256
from registry.core.forecast import PLACES
from registry.errors import ReckonError, Refused
from train.files import write_whole
from train.refit_ladder import Ladder, ladder
from train.refit_picture import Curve, draw
from train.scaling import Point, Posterior, Prediction, Prior, fit

LEVEL = 0.9
PRIOR = Prior(exponent_low=0.02, exponent_high=0.6, noise=0.005, noise_weight=4.0)
BOUND, WITHOUT, AS_FINAL = "cut-short-as-bound", "left-out", "cut-short-as-final"
_WHY = {
    BOUND: "the finished rungs as points; the one that was cut short ends no higher than what it had",
    WITHOUT: "the finished rungs alone",
    AS_FINAL: "the last loss of the rung that was cut short taken for a final one, which it is not",
}


def cases(told: Ladder) -> dict[str, Posterior]:
    """The laws by case; those of a rung that was cut short only where there is one."""
    finished = [point for _, point in told.finished]
    laws = {WITHOUT: fit(finished, PRIOR)}
    if told.cut:
        bounded = laws[WITHOUT]
        for _, point in told.cut:
            bounded = bounded.at_most(point)
        laws = {BOUND: bounded, **laws, AS_FINAL: fit([*finished, *(point for _, point in told.cut)], PRIOR)}
    return laws


def implied(told: Ladder) -> float | None:
    """The final loss of the one rung that was cut short at which this method's median is the published figure."""
    if len(told.cut) != 1:
        return None
    ((_, last),) = told.cut
    finished = [point for _, point in told.finished]

    def off(loss: float) -> float:
        law = fit([*finished, Point(scale=last.scale, loss=loss)], PRIOR)
        return law.predict(float(told.scale), LEVEL).median - told.published

    low = last.loss - 0.15
    return None if off(low) * off(last.loss) > 0 else float(brentq(off, low, last.loss, xtol=2e-5))


def facts(told: Ladder, laws: dict[str, Posterior]) -> dict[str, Json]:
    """Everything that was found, numbers rounded to six decimals."""
    wanted = implied(told)
    return {
        "schema": 1,
        "forecast": told.forecast,
        "predicts": told.run,
        "axis": "flops",
        "scale": str(told.scale),
        "published": _text(told.published),
        "level": _text(LEVEL),
        "prior": {
            "exponent_low": _text(PRIOR.exponent_low),
            "exponent_high": _text(PRIOR.exponent_high),
            "noise": _text(PRIOR.noise),
            "noise_weight": _text(PRIOR.noise_weight),
        },
        "finished": [_point(name, point) for name, point in told.finished],
        "cut_short": [_point(name, point) for name, point in told.cut],
        "cases": {name: _case(name, law.predict(float(told.scale), LEVEL), told) for name, law in laws.items()},
        "published_would_need": None if wanted is None else decimals.write(decimals.round_places(wanted, 4)),
    }


def _case(name: str, one: Prediction, told: Ladder) -> dict[str, Json]:
    return {
        "means": _WHY[name],
        "median": _text(one.median),
        "low": _text(one.low),
        "high": _text(one.high),
        "deviation": _text(one.deviation),
        "published_is_inside": one.low <= told.published <= one.high,
        "published_less_median": _text(told.published - one.median),
    }


def _point(name: str, point: Point) -> dict[str, Json]:
    return {"name": name, "flops": f"{int(point.scale)}", "loss": _text(point.loss)}


def _text(value: float) -> str:
    return decimals.write(decimals.round_places(value, PLACES))


def build(folder: Path, target: Path) -> dict[str, Json]:
    """Fit the law of the records in ``folder`` and write it and its picture to ``target``. Raises ``Refused``."""
    told = ladder(Shelf.build(_records(folder)))
    laws = cases(told)
    found = facts(told, laws)
    curves = [Curve(name=name, law=laws[name]) for name in (BOUND, WITHOUT, AS_FINAL) if name in laws]
    target.mkdir(parents=True, exist_ok=True)
    write_whole(target / "law.json", canonical.encode(found))
    write_whole(target / "law.svg", draw(told, curves, LEVEL))
    return found


def _records(folder: Path) -> Iterator[tuple[Digest, bytes]]:
    """The records of a folder. Raises ``Refused`` for one that is too large or has not the bytes of its name."""
    for path in sorted(folder.glob("*.json")):
        if path.is_symlink() or not path.is_file() or path.stat().st_size > canonical.MAXIMUM_BYTES:
            raise Refused(f"{path.name} is no record.", remedy="Run 'reckon verify --all'.")
        data = path.read_bytes()
        if sha256(data).hex != path.stem:
            raise Refused(f"{path.name} has not the bytes of its name.", remedy="Run 'reckon verify --all'.")
        yield sha256(data), data


def main() -> int:
    """``python -m train.refit RECORDS TARGET``: exit status 0, or 2 with a sentence on stderr."""
    if len(sys.argv) != 3:
        sys.stderr.write("Give the folder of foreign records and the folder to write to.\n")
        return 2
    try:
        build(Path(sys.argv[1]), Path(sys.argv[2]))
    except ReckonError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
