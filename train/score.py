"""Stage ``score``: the sealed forecast beside what the hero came to.

The forecast that is scored must be the one that the archive sealed, byte for byte. Refuses any other, and an outcome of
another run or another size.
"""

from __future__ import annotations

from pathlib import Path

from registry.core.codec import record_bytes
from registry.core.digests import sha256
from registry.core.forecast import Forecast, forecast_record
from registry.core.scoring import Observed, Score, compare
from registry.errors import DoesNotHold
from train import paths
from train.attempt import Attempt
from train.files import fresh_folder, write_whole
from train.outcomes import read_outcome, read_whole
from train.stage import told

SEALED = Path("manifests/forecasts")


def build(target: Path) -> Score:
    """Score ``artifacts/forecast`` against the run that it predicts and write ``score.json`` to ``target``.

    Raises ``DoesNotHold`` when the forecast is not the sealed one or speaks of another run.
    """
    forecast = sealed_forecast(paths.ARTIFACTS / "forecast" / "forecast.json", SEALED)
    outcome = read_outcome(forecast.predicts, paths.ARTIFACTS / forecast.predicts, forecast.axis)
    score = compare(
        forecast,
        Observed(name=outcome.name, evaluation=outcome.evaluation, scale=outcome.scale, loss=outcome.loss),
    )
    write_whole(fresh_folder(target) / "score.json", record_bytes(score))
    return score


def sealed_forecast(path: Path, seals: Path) -> Forecast:
    """The forecast at ``path``, if ``seals`` holds the very same bytes under their digest."""
    data = read_whole(path)
    sealed = seals / f"{sha256(data).hex}.json"
    if not sealed.is_file() or read_whole(sealed) != data:
        raise DoesNotHold(
            f"{path} is not a sealed forecast: it was altered after it was recorded, or never recorded.",
            remedy="Restore it with 'dvc checkout', or run the stage forecast and after it the hero anew.",
        )
    return forecast_record(data)


def main() -> None:
    """Run the stage as one attempt. It has no settings."""
    with told(Attempt("score")) as attempt:
        attempt.start({})
        build(paths.ARTIFACTS / "score")


if __name__ == "__main__":
    main()
