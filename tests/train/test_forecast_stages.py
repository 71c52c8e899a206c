"""Stages ``forecast`` and ``score`` on small hand-made runs: same bytes twice, sealed or refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from registry.core import canonical, runlog
from registry.core.codec import record_bytes
from registry.core.digests import sha256
from registry.core.family import Family
from registry.core.forecast import Forecast, forecast_record
from registry.core.ladder import Shape, derive
from registry.core.scoring import Score
from registry.core.source import import_closure
from registry.errors import DoesNotHold, Refused
from train import forecast as forecast_stage
from train import score as score_stage
from train.picture import draw
from train.scaling import Law, Point, Prior, fit

pytestmark = pytest.mark.slow

TRUTH = Law(floor=2.0, amplitude=2.5, exponent=0.15, reference=1e12)
SETTINGS: dict[str, Any] = {
    "family": {
        "name": "pocket",
        "vocabulary": 4096,
        "context_tokens": 128,
        "head_dim": 16,
        "routed_experts": 8,
        "experts_per_token": 2,
        "shared_experts": 0,
        "expert_width": "1/2",
        "latent_width": None,
        "sliding_window": None,
        "global_every": None,
        "last_layer_global": False,
        "tokens_per_active_parameter": 20,
        "rates": {
            "adam_coefficient": 0.087571,
            "tokens_exponent": -0.3461,
            "width_exponent": -0.3448,
            "muonh_ratio": "13/3",
            "largest": 0.05,
            "epsilon_coefficient": "9.676e-18",
            "beta2_base": 0.999,
            "beta2_reference_tokens": 131072,
            "beta2_smallest": 0.95,
            "beta2_largest": 0.9999,
        },
        "schedule": {"warmup_fraction": 0.01, "final_ratio": 0.05, "switch_fraction": 0.8, "block_sequences": 64},
    },
    "rungs": {
        f"d{hidden}": {"hidden": hidden, "layers": 2, "kv_heads": [1, 1], "batch_sequences": 16}
        for hidden in (32, 48, 64, 96)
    },
    "hero": {"hidden": 128, "layers": 4, "kv_heads": [2, 2], "batch_sequences": 16},
    "forecast": {
        "predicts": "hero/2",
        "axis": "flops",
        "level": 0.9,
        "exponent_low": 0.02,
        "exponent_high": 0.6,
        "noise": 0.005,
        "noise_weight": 4,
    },
}


def write_run(folder: Path, shape: dict[str, Any], *, worse: float = 0.0) -> None:
    """A finished run of ``shape`` whose loss obeys the true law, but for ``worse``."""
    flops = derive(Family.from_settings(SETTINGS["family"]), Shape.from_settings(shape)).flops
    folder.mkdir(parents=True, exist_ok=True)
    loss = f"{TRUTH.loss(float(flops)) + worse:.6f}1"
    (folder / "evaluation.json").write_bytes(canonical.encode({"macro": {"loss": loss}}) + b"\n")
    (folder / "summary.json").write_bytes(canonical.encode({"flops": str(flops)}) + b"\n")


def prepare(folder: Path, patch: pytest.MonkeyPatch) -> Path:
    """Settings and four finished rungs in ``folder``, where the stages then run."""
    (folder / "params.yaml").write_text(yaml.safe_dump(SETTINGS, sort_keys=False))
    for name, shape in SETTINGS["rungs"].items():
        write_run(folder / "artifacts/rung" / name, shape)
    patch.chdir(folder)
    return folder


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A prepared archive."""
    return prepare(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def forecast_bytes(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The forecast that the four rungs give, made once."""
    with pytest.MonkeyPatch.context() as patch:
        made = prepare(tmp_path_factory.mktemp("made"), patch)
        run_forecast()
        return (made / "artifacts/forecast/forecast.json").read_bytes()


@pytest.fixture
def sealed(archive: Path, forecast_bytes: bytes) -> Path:
    """The archive after the forecast was made and recorded: its bytes are kept under their digest."""
    for path in ("artifacts/forecast/forecast.json", f"manifests/forecasts/{sha256(forecast_bytes).hex}.json"):
        (archive / path).parent.mkdir(parents=True)
        (archive / path).write_bytes(forecast_bytes)
    return archive


def run_forecast() -> Forecast:
    return forecast_stage.build(SETTINGS, Path("artifacts/forecast"))


def run_score() -> Score:
    return score_stage.build(Path("artifacts/score"))


def test_the_forecast_rests_on_all_rungs_by_digest_and_meets_the_truth(archive: Path) -> None:
    forecast = run_forecast()
    assert [run.name for run in forecast.runs] == ["rung/d32", "rung/d48", "rung/d64", "rung/d96"]
    assert forecast.runs[0].evaluation == sha256((archive / "artifacts/rung/d32/evaluation.json").read_bytes())
    assert forecast.interval.holds(Decimal(TRUTH.loss(float(forecast.scale))))
    assert forecast.backtest is not None
    assert forecast.backtest.name == "rung/d96"
    assert forecast.backtest.predicted.holds(forecast.backtest.observed)


def test_the_file_is_the_record_and_twice_the_same(archive: Path, forecast_bytes: bytes) -> None:
    forecast = run_forecast()
    written = (archive / "artifacts/forecast/forecast.json").read_bytes()
    assert written == record_bytes(forecast) == forecast_bytes
    assert forecast_record(written) == forecast


def test_the_picture_shows_every_run_and_the_hero_and_is_twice_the_same(archive: Path) -> None:
    forecast = run_forecast()
    data = (archive / "artifacts/forecast/forecast.svg").read_bytes()
    picture = ElementTree.fromstring(data)  # noqa: S314  # our own
    words = {element.text for element in picture.iter("{http://www.w3.org/2000/svg}text")}
    assert {"rung/d32", "rung/d48", "rung/d64", "rung/d96", "hero/2"} <= words
    assert len(list(picture.iter("{http://www.w3.org/2000/svg}circle"))) == 5
    points = [Point(scale=float(run.scale), loss=float(run.loss)) for run in forecast.runs]
    prior = Prior(**{name: float(value) for name, value in forecast.prior.items()})
    assert draw(forecast, fit(points, prior)) == data


def test_another_evaluation_gives_another_forecast(archive: Path, forecast_bytes: bytes) -> None:
    write_run(archive / "artifacts/rung/d48", SETTINGS["rungs"]["d48"], worse=1e-6)
    assert record_bytes(run_forecast()) != forecast_bytes


def test_the_score_compares_the_sealed_forecast_with_the_hero(sealed: Path) -> None:
    write_run(sealed / "artifacts/hero/2", SETTINGS["hero"])
    score = run_score()
    assert score.inside
    assert score.forecast == sha256((sealed / "artifacts/forecast/forecast.json").read_bytes())
    assert json.loads((sealed / "artifacts/score/score.json").read_bytes())["inside"] is True
    write_run(sealed / "artifacts/hero/2", SETTINGS["hero"], worse=0.5)
    assert not run_score().inside


def test_a_forecast_altered_after_it_was_sealed_is_not_scored(sealed: Path) -> None:
    write_run(sealed / "artifacts/hero/2", SETTINGS["hero"], worse=0.3)
    path = sealed / "artifacts/forecast/forecast.json"
    altered = json.loads(path.read_bytes())
    altered["interval"]["high"] = "9"
    path.write_bytes(canonical.encode(altered))
    with pytest.raises(DoesNotHold, match="not a sealed forecast") as refusal:
        run_score()
    assert refusal.value.remedy


def test_a_seal_whose_bytes_were_altered_is_no_seal(sealed: Path) -> None:
    write_run(sealed / "artifacts/hero/2", SETTINGS["hero"])
    (seal,) = (sealed / "manifests/forecasts").iterdir()
    seal.write_bytes(seal.read_bytes() + b" ")
    with pytest.raises(DoesNotHold):
        run_score()


def test_a_hero_of_another_size_is_not_scored(sealed: Path) -> None:
    write_run(sealed / "artifacts/hero/2", {**SETTINGS["hero"], "layers": 3})
    with pytest.raises(DoesNotHold, match="flops"):
        run_score()


def test_a_missing_rung_is_named(archive: Path) -> None:
    (archive / "artifacts/rung/d64/evaluation.json").unlink()
    with pytest.raises(Refused, match="rung/d64/evaluation"):
        run_forecast()


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"{}", b'{"macro":{"loss":"4.10"}}', b'{"macro":{"loss":4.1}}', b'{"macro": {"loss":"4.1"}}'],
)
def test_a_malformed_evaluation_is_refused(archive: Path, data: bytes) -> None:
    (archive / "artifacts/rung/d64/evaluation.json").write_bytes(data)
    with pytest.raises(Refused):
        run_forecast()


@pytest.mark.parametrize(
    "change",
    [
        {"axis": "label"},
        {"axis": "__class__"},
        {"level": 1},
        {"noise": 0},
        {"exponent_low": 0.7},
        {"predicts": "rung/d32"},
    ],
)
def test_settings_that_make_no_sense_are_refused(archive: Path, change: dict[str, Any]) -> None:
    with pytest.raises(Refused):
        forecast_stage.build({**SETTINGS, "forecast": {**SETTINGS["forecast"], **change}}, Path("artifacts/forecast"))


@pytest.mark.slow
def test_both_stages_run_as_processes_and_tell_their_attempts(sealed: Path, root: Path) -> None:
    """Real processes, from settings to run log, and only the code that a stage may load."""
    write_run(sealed / "artifacts/hero/2", SETTINGS["hero"])
    shipped = {
        path.relative_to(root).as_posix(): path.read_bytes()
        for package in ("registry", "train")
        for path in (root / package).rglob("*.py")
    }
    for stage in ("forecast", "score"):
        script = (
            f"import sys; from train.{stage} import main; main(); "
            "print(*(m.__file__ for m in sys.modules.values() if getattr(m, '__file__', None)), sep='\\n')"
        )
        ended = subprocess.run(
            [sys.executable, "-c", script],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(root)},
        )
        (log,) = (sealed / "artifacts/runs" / stage).glob("*/run.jsonl")
        told = runlog.parse(log.read_bytes())
        assert told.finished is not None
        assert told.finished.outcome is runlog.Outcome.COMPLETE
        loaded = {
            Path(path).relative_to(root).as_posix()
            for path in ended.stdout.splitlines()
            if Path(path).is_relative_to(root)
        }
        assert loaded & set(shipped) <= set(import_closure(f"train.{stage}", shipped))
