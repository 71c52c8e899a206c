"""``reckon ladder`` from the outside: figures, marks, refusals and statuses."""

from __future__ import annotations

import json
from pathlib import Path
from types import MappingProxyType

import pytest
import yaml

from registry.cli.main import run
from registry.core import published

CUSTOM = ["ladder", "--width", "1280", "--layers", "14", "--kv", "2/1", "--batch", "2048"]


def test_every_published_figure_is_printed_and_marked_equal(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ladder"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for column in published.COLUMNS:
        row = next(line for line in lines if line.startswith(column) and " =" in line)
        assert all(f"{figures[column]} =" in row for figures in published.FIGURES.values())
    assert lines[-1].startswith("60 of 60")


def test_a_figure_that_differs_is_marked_and_fails(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = {**published.FIGURES, "d768": MappingProxyType({**published.FIGURES["d768"], "steps": "11421"})}
    monkeypatch.setattr("registry.cli.ladder._PUBLISHED", (published.FAMILY, published.SHAPES, wrong))
    assert run(["ladder"]) == 1
    out = capsys.readouterr().out
    assert "11421 !" in out
    assert out.splitlines()[-1].startswith("59 of 60")


def test_json_tells_the_same_exactly(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ladder", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["derived"]["d6144"]["flops"] == "2696023010665861685968896"
    assert facts["equal"] == {name: dict.fromkeys(published.COLUMNS, True) for name in published.SHAPES}
    assert set(facts["sources"]) >= {"launcher", "hero"}


def test_a_shape_of_ones_own_has_no_published_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*CUSTOM, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["derived"]["shape"]["heads"] == 10
    assert "published" not in facts


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ladder", "--width", "1280"], "--layers, --kv, --batch"),
        ([*CUSTOM[:-4], "--kv", "x", "--batch", "1"], "12/6"),
        ([*CUSTOM[:-4], "--kv", "1/2/3", "--batch", "1"], "12/6"),
        ([*CUSTOM[:-4], "--kv", "3/1", "--batch", "2048"], "divide 10"),
        ([*CUSTOM[:-2], "--batch", "-1"], "batch_sequences"),
        ([*CUSTOM[:-2], "--batch", "1.5"], "1.5"),
        (["ladder", "--family", "unheard"], "unheard"),
    ],
)
def test_a_shape_that_cannot_be_is_refused(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert not captured.out


POCKET = {
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
    "rungs": {"d32": {"hidden": 32, "layers": 2, "kv_heads": [1, 1], "batch_sequences": 16}},
    "hero": {"hidden": 64, "layers": 4, "kv_heads": [2, 2], "batch_sequences": 32},
}


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with just enough of an archive to have a ladder."""
    (tmp_path / "dvc.yaml").write_text("stages: {}\n")
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(POCKET))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_archives_own_ladder_comes_from_its_settings(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ladder", "--family", "pocket", "--json"]) == 0
    derived = json.loads(capsys.readouterr().out)["derived"]
    assert list(derived) == ["d32", "hero"]
    assert derived["hero"]["active_parameters"] > derived["d32"]["active_parameters"]


def test_settings_without_a_ladder_are_refused(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (archive / "params.yaml").write_text(yaml.safe_dump({**POCKET, "rungs": []}))
    assert run(["ladder", "--family", "pocket"]) == 2
    assert "rungs" in capsys.readouterr().err
