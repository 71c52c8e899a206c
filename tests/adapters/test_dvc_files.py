"""DVC's files are read as DVC means them: every stage of a toy pipeline, compared with what the real DVC did."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from support.toy import STAGES, Toy, dvc

from registry.adapters.pipeline import DvcPipeline
from registry.core.names import dvc_stage
from registry.core.pipeline import decimals
from registry.errors import Refused


def params(root: Path, text: str) -> DvcPipeline:
    (root / "params.yaml").write_text(text)
    (root / "dvc.yaml").write_text("stages: {}\n")
    return DvcPipeline(root)


@pytest.mark.parametrize(
    "scalar",
    [
        "1e-3",
        "1e20",
        "1.5e3",
        "yes",
        "No",
        "on",
        "off",
        "010",
        "09",
        "0o17",
        "0b11",
        "1_000",
        "12:30",
        "1:2.5",
        "2020-01-01",
        "1.e3",
    ],
)
def test_what_two_versions_of_yaml_read_differently_is_refused(tmp_path: Path, scalar: str) -> None:
    with pytest.raises(Refused, match=r"params\.yaml, line 2: .* is read differently"):
        params(tmp_path, f"fine: 1\nodd: {scalar}\n").params()


@pytest.mark.parametrize(
    "scalar",
    ["'yes'", '"010"', "0.001", "1.5e-3", "10", "-1", "true", "~", "", "null", "word", "a:b", "0x1F", "+1", "1."],
)
def test_what_they_read_alike_is_taken(tmp_path: Path, scalar: str) -> None:
    assert params(tmp_path, f"fine: 1\nodd: {scalar}\n").params()["fine"] == 1


@pytest.mark.parametrize(
    "text",
    [
        "a: [",
        "a: 1\na: {b: }}\n",
        "\t- x",
        "- a\n",
        "plain",
        "",
        "a: !!python/object:os.system x\n",
        "\x00",
        "a: *nowhere\n",
    ],
)
def test_malformed_settings_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(Refused, match=r"params\.yaml"):
        params(tmp_path, text).params()


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_bytes(b"a: \xff\xfe\n")
    with pytest.raises(Refused, match="not YAML"):
        DvcPipeline(tmp_path).params()


def test_missing_files_are_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"There is no dvc\.yaml here.*root of the repository"):
        DvcPipeline(tmp_path).stages()


def test_a_file_over_the_limit_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "params.yaml").open("wb") as file:
        file.truncate(2**30)
    with pytest.raises(Refused, match="over"):
        DvcPipeline(tmp_path).params()


def test_a_lock_is_read_or_absent_or_refused(tmp_path: Path) -> None:
    pipeline = DvcPipeline(tmp_path)
    assert pipeline.locked() == {}
    (tmp_path / "dvc.lock").write_text(
        "schema: '2.0'\nstages:\n  rung@d32:\n    outs:\n    - {path: a, md5: x.dir, size: 1}\n"
    )
    assert pipeline.locked() == {"rung/d32": {"a": "x.dir"}}
    for text in ("[]", "stages: []", "stages: {a"):
        (tmp_path / "dvc.lock").write_text(text)
        with pytest.raises(Refused, match=r"dvc\.lock"):
            pipeline.locked()
    for text in ("stages: {a: 3}", "stages: {a: {outs: [3, {path: b}]}}"):
        (tmp_path / "dvc.lock").write_text(text)
        assert pipeline.locked() == {"a": {}}


def test_a_lock_may_hold_any_number_that_dvc_writes(tmp_path: Path) -> None:
    """DVC writes ``1e+20`` plainly; only names and md5 are read from its lock."""
    (tmp_path / "dvc.lock").write_text(
        "stages:\n  a:\n    params: {params.yaml: {x: 1e+20}}\n    outs: [{path: b, md5: '12'}]\n"
    )
    assert DvcPipeline(tmp_path).locked() == {"a": {"b": "12"}}


@pytest.mark.slow
def test_every_stage_is_understood_as_dvc_understands_it(toy: Toy) -> None:
    """The recording is left out of the commands: here only the reading of the pipeline is on trial."""
    text = (toy.root / "dvc.yaml").read_text()
    toy.write("dvc.yaml", re.sub(r"reckon record \S+ --begin && (.*?); reckon record .*", r"\1", text))
    done = dvc(toy.root, "repro", "-q")
    assert done.returncode == 0, done.stderr
    lock = yaml.safe_load((toy.root / "dvc.lock").read_text())["stages"]
    specs = DvcPipeline(toy.root).stages()
    assert list(specs) == list(STAGES)
    assert {dvc_stage(stage) for stage in specs} == set(lock)
    for stage, spec in specs.items():
        told = lock[dvc_stage(stage)]
        assert spec.command == told["cmd"]
        assert {*spec.inputs, *spec.code} == {one["path"] for one in told["deps"]}
        assert spec.config == decimals(told.get("params", {}).get("params.yaml", {}))
        assert set(spec.outputs) == {one["path"] for one in told["outs"]}
        for one in told["outs"]:
            assert toy.workshop.disk.locator(one["path"]) == one["md5"]
    assert DvcPipeline(toy.root).locked() == {
        stage: {one["path"]: one["md5"] for one in lock[dvc_stage(stage)]["outs"]} for stage in specs
    }
