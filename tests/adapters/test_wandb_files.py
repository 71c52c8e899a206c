"""W&B's own log of a real offline run: every point is read, damage is told, hostile bytes are refused."""

import math
import os
import subprocess
import sys

import pytest

from registry.adapters.wandb_files import WandbFiles
from registry.core.history import History, Missing, compare
from registry.errors import DoesNotHold, OutsideFailed, Refused, UnknownName

STEPS = 2000
RUN = """
import math, sys, wandb
run = wandb.init(mode="offline", project="test", id="tested", settings=wandb.Settings(x_disable_stats=True))
for step in range(int(sys.argv[1])):
    run.log({"train/loss": 3 / (step + 1), "router/load": math.sin(step)}, step=step)
odd = {"nan": math.nan, "inf": math.inf, "minus": -math.inf, "zero": -0.0, "tiny": 5e-324, "text": "NaN or not"}
run.log({**odd, "count": 7, "flag": True, "nested": {"a": 1.5}}, step=int(sys.argv[1]))
run.finish()
"""
OURS = History.of(
    [
        *((step, "train/loss", 3 / (step + 1)) for step in range(STEPS)),
        *((step, "router/load", math.sin(step)) for step in range(STEPS)),
        *((STEPS, name, value) for name, value in (("nan", math.nan), ("inf", math.inf), ("minus", -math.inf))),
        *(
            (STEPS, name, value)
            for name, value in (("zero", -0.0), ("tiny", 5e-324), ("count", 7.0), ("nested.a", 1.5))
        ),
    ]
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The log of a real offline run."""
    root = tmp_path_factory.mktemp("wandb")
    places = {name: str(root) for name in ("WANDB_DIR", "WANDB_DATA_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR")}
    command = [sys.executable, "-c", RUN, str(STEPS)]
    subprocess.run(command, check=True, cwd=root, env={**os.environ, **places, "WANDB_SILENT": "true"}, timeout=120)
    (log,) = root.glob("wandb/offline-run-*/run-tested.wandb")
    return log


def put(root, data, name="run-x.wandb"):
    (root / name).write_bytes(data)
    return WandbFiles(root).read(name)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["run-tested.wandb", "."])
def test_every_point_of_a_run_is_read_from_its_log_or_its_folder(run, place):
    root = run.parent.parent
    copy = WandbFiles(root).read(run.parent.name if place == "." else f"{run.parent.name}/{place}")
    assert copy.damage == ()
    assert compare(OURS, copy.history, copy.fidelity) == ()


@pytest.mark.slow
def test_a_log_that_ends_in_the_middle_is_damaged_and_lacks_points(run, tmp_path):
    data = run.read_bytes()
    copy = put(tmp_path, data[: len(data) // 2])
    assert any("incomplete" in text for text in copy.damage)
    findings = compare(OURS, copy.history, copy.fidelity)
    assert {type(one) for one in findings} == {Missing}
    assert 0 < copy.history.points < OURS.points


@pytest.mark.slow
def test_a_flipped_bit_is_damage_and_no_value_is_altered(run, tmp_path):
    data = bytearray(run.read_bytes())
    data[len(data) // 2] ^= 4
    copy = put(tmp_path, bytes(data))
    assert any("checksum" in text for text in copy.damage)
    assert {type(one) for one in compare(OURS, copy.history, copy.fidelity)} == {Missing}


@pytest.mark.slow
def test_bytes_that_are_no_log_do_not_hold(tmp_path):
    with pytest.raises(DoesNotHold, match="not a W&B log") as caught:
        put(tmp_path, os.urandom(100_000))
    assert str(tmp_path) not in str(caught.value)


@pytest.mark.slow
def test_an_empty_log_holds_nothing(tmp_path):
    assert put(tmp_path, b"").history.points == 0


@pytest.mark.slow
def test_a_reader_that_does_not_finish_is_ended(run, tmp_path, monkeypatch):
    monkeypatch.setattr("registry.adapters.wandb_files._SECONDS", 0.0)
    with pytest.raises(OutsideFailed, match="did not finish"):
        put(tmp_path, run.read_bytes())


@pytest.mark.parametrize("name", ["none.wandb", "folder"])
def test_an_absent_log_is_unknown(tmp_path, name):
    (tmp_path / "folder").mkdir()
    with pytest.raises(UnknownName):
        WandbFiles(tmp_path).read(name)


def test_a_folder_with_two_logs_is_ambiguous(tmp_path):
    for name in ("run-a.wandb", "run-b.wandb"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "sub").symlink_to(tmp_path)
    with pytest.raises(UnknownName):
        WandbFiles(tmp_path).read("sub")


def test_what_lies_outside_of_the_repository_is_not_read(tmp_path):
    (tmp_path / "run-a.wandb").write_bytes(b"")
    inside = tmp_path / "repository"
    inside.mkdir()
    (inside / "run-a.wandb").symlink_to(tmp_path / "run-a.wandb")
    with pytest.raises(Refused):
        WandbFiles(inside).read("../run-a.wandb")
    with pytest.raises(DoesNotHold, match="inside this repository"):
        WandbFiles(inside).read("run-a.wandb")


def test_another_kind_of_file_is_not_read(tmp_path):
    with pytest.raises(DoesNotHold):
        put(tmp_path, b"", name="run-x.txt")


@pytest.mark.parametrize(
    "said",
    [
        b"not json\n",
        b'{"type":"history","history":3}\n',
        b'{"type":"history","history":{"item":{"a":1}}}\n',
        b'{"type":"history","history":{"item":{"_step":"1"}}}\n',
        b'{"type":"history","history":{"item":{"_step":-1,"a":1}}}\n',
        b'{"type":"history","history":{"item":{"_step":1,"a":1' + b"0" * 400 + b"}}}\n",
        b'{"type":"history","history":{"item":{"_step":1,"a":1}}}',
    ],
)
def test_a_reader_that_says_something_else_is_not_believed(tmp_path, said, monkeypatch):
    line = said if b'"history"' in said else b'{"type":"history",' + said
    script = f"import sys; sys.stdout.buffer.write({line!r})"
    monkeypatch.setattr("registry.adapters.wandb_files._READER", ["-c", script])
    with pytest.raises(DoesNotHold, match="no history"):
        put(tmp_path, b"")
