"""A parent is proven from its bytes and the records: stale, partial, altered and unrecorded ones are refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.recorded import put, record

from registry.core import transcript
from registry.core.names import Name
from registry.core.records import Outcome
from registry.core.transcript import Line
from registry.errors import DoesNotHold, Refused
from train import tensorfile
from train.proof import prove_parent, require_sealed_forecast

PARENT = Name(stage="hero/1", step=4)


@pytest.fixture
def ship(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A recorded first segment with checkpoints at steps 2 and 4."""
    monkeypatch.chdir(tmp_path)
    lay(Path("artifacts/hero/1"), seed=0)
    record("20261130t100000z-00000001", "2026-11-30T10:00:00.000000Z")
    return tmp_path


def lay(output: Path, *, seed: int) -> None:
    shutil.rmtree(output, ignore_errors=True)
    for step in (2, 4):
        folder = output / "checkpoints" / f"step-{step}"
        folder.mkdir(parents=True)
        values = np.arange(6, dtype=np.float32).reshape(2, 3) + step + seed
        tensorfile.write_arrays(folder / "state.safetensors", {"w": values, "step": np.asarray(step, np.int32)})
        (folder / "checkpoint.json").write_text("{}\n")
    lines = [Line(step=step, loss=1, gradient_norm=1, order="0" * 64, state="0" * 16) for step in range(1, 5)]
    (output / "transcript.jsonl").write_bytes(b"".join(transcript.line(one) for one in lines))


def test_the_last_checkpoint_of_the_latest_product_is_proven(ship: Path) -> None:
    parent = prove_parent(PARENT)
    state = ship / "artifacts/hero/1/checkpoints/step-4/state.safetensors"
    assert parent.root == tensorfile.root(state)
    assert parent.facts == {"name": "hero/1", "step": 4, "root": str(parent.root)}
    assert parent.last.step == 4
    assert parent.folder.resolve() == state.parent


@pytest.mark.usefixtures("ship")
@pytest.mark.parametrize("step", [2, 3, 5])
def test_another_step_than_the_last_is_refused(step: int) -> None:
    with pytest.raises(DoesNotHold, match=r"not the last checkpoint .* \[2, 4\]"):
        prove_parent(Name(stage="hero/1", step=step))


def flip_state(output: Path) -> None:
    path = output / "checkpoints/step-4/state.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))


def cut_state(output: Path) -> None:
    path = output / "checkpoints/step-4/state.safetensors"
    path.write_bytes(path.read_bytes()[:-4])


def swap_states(output: Path) -> None:
    shutil.copy(output / "checkpoints/step-2/state.safetensors", output / "checkpoints/step-4/state.safetensors")


def drop_state(output: Path) -> None:
    (output / "checkpoints/step-4/state.safetensors").unlink()


def drop_facts(output: Path) -> None:
    (output / "checkpoints/step-4/checkpoint.json").unlink()


def drop_earlier(output: Path) -> None:
    shutil.rmtree(output / "checkpoints/step-2")


def add_file(output: Path) -> None:
    (output / "checkpoints/step-4/more").write_text("")


def alter_transcript(output: Path) -> None:
    path = output / "transcript.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"loss":"00000001"', b'"loss":"00000002"', 1))


def remove_all(output: Path) -> None:
    shutil.rmtree(output)


@pytest.mark.usefixtures("ship")
@pytest.mark.parametrize(
    "harm",
    [
        flip_state,
        cut_state,
        swap_states,
        drop_state,
        drop_facts,
        drop_earlier,
        add_file,
        alter_transcript,
        remove_all,
    ],
)
def test_an_altered_or_partial_parent_is_refused(harm: Callable[[Path], None]) -> None:
    harm(Path("artifacts/hero/1"))
    with pytest.raises((DoesNotHold, Refused)) as refused:
        prove_parent(PARENT)
    assert refused.value.remedy


@pytest.mark.usefixtures("ship")
def test_a_stale_parent_is_told_from_an_altered_one() -> None:
    before = Path("before")
    shutil.copytree("artifacts/hero/1", before)
    lay(Path("artifacts/hero/1"), seed=1)
    record("20261130t110000z-00000002", "2026-11-30T11:00:00.000000Z")
    assert prove_parent(PARENT).name == PARENT
    shutil.rmtree("artifacts/hero/1")
    shutil.copytree(before, "artifacts/hero/1")
    with pytest.raises(DoesNotHold, match="earlier product"):
        prove_parent(PARENT)


@pytest.mark.usefixtures("ship")
def test_failed_attempts_and_other_stages_are_no_proof() -> None:
    lay(Path("artifacts/hero/1"), seed=1)
    record("20261130t120000z-00000003", "2026-11-30T12:00:00.000000Z", outcome=Outcome.FAILED)
    with pytest.raises(DoesNotHold):
        prove_parent(PARENT)
    shutil.rmtree("manifests")
    lay(Path("artifacts/hero/2"), seed=1)
    record("20261130t120000z-00000003", "2026-11-30T12:00:00.000000Z", stage="hero/2")
    with pytest.raises(Refused, match="No complete execution of hero/1"):
        prove_parent(PARENT)


@pytest.mark.usefixtures("ship")
def test_records_under_a_false_name_are_refused() -> None:
    [product] = Path("manifests/products").iterdir()
    product.write_bytes(product.read_bytes().replace(b"step-4", b"step-5"))
    with pytest.raises(DoesNotHold, match="other bytes than its name"):
        prove_parent(PARENT)
    product.unlink()
    with pytest.raises(Refused, match="missing"):
        prove_parent(PARENT)


def test_a_forecast_counts_when_it_is_sealed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = next((Path(__file__).parents[1] / "golden/forecasts").glob("*.json"))
    data = source.read_bytes()
    path = Path("artifacts/forecast/forecast.json")
    with pytest.raises(Refused, match="no forecast"):
        require_sealed_forecast()
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    with pytest.raises(Refused, match="not sealed"):
        require_sealed_forecast()
    digest = put("forecasts", data)
    assert require_sealed_forecast() == digest
    sealed = Path("manifests/forecasts") / f"{digest.hex}.json"
    sealed.write_bytes(data.replace(b"hero", b"zero"))
    with pytest.raises(DoesNotHold, match="other bytes"):
        require_sealed_forecast()
    path.write_bytes(data.replace(b'"predicts":"hero/2"', b'"predicts":"rung/d99"'))
    with pytest.raises(Refused, match="not the hero"):
        require_sealed_forecast()
