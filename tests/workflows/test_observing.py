"""The working tree as recipes and products: what is asked, what lies there, and under which names."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes.workshop import FakeDisk, FakeHost, FakeObserver, FakePipeline, FakeRepository

from registry.core.digests import FileEntry, git_blob, sha256, tree_digest
from registry.core.pipeline import StageSpec
from registry.errors import DoesNotHold, Refused, UnknownName
from registry.observing import Workshop, checkpoints, stage_command

SPEC = StageSpec(
    name="hero/2",
    command="python -m train.hero 2",
    code=("train/hero.py",),
    inputs=(
        "artifacts/shards",
        "artifacts/shards/report.json",
        "artifacts/hero/1/checkpoints/step-40",
        "artifacts/hero/1/checkpoints/step-40/checkpoint.json",
        "artifacts/forecast.json",
        "data/list.csv",
    ),
    config={"hero": {"steps": 4}},
    outputs=("artifacts/hero/2",),
)
FILES = {
    "requirements.lock": b"x==1",
    "train/hero.py": b"train()",
    "artifacts/shards/report.json": b"{}",
    "artifacts/shards/code/train-00000.parquet": b"P",
    "artifacts/hero/1/checkpoints/step-40/checkpoint.json": b"{1}",
    "artifacts/hero/1/checkpoints/step-40/w.tensor": b"w",
    "artifacts/forecast.json": b"{2}",
    "data/list.csv": b"a,b",
}


def workshop(**files: bytes) -> Workshop:
    disk = FakeDisk({**FILES, **files})
    specs = {
        "shards": replace(SPEC, name="shards", inputs=(), outputs=("artifacts/shards",)),
        "forecast": replace(SPEC, name="forecast", inputs=(), outputs=("artifacts/forecast.json",)),
        "hero/1": replace(SPEC, name="hero/1", inputs=(), outputs=("artifacts/hero/1",)),
        "hero/2": SPEC,
    }
    return Workshop(
        pipeline=FakePipeline(specs=specs),
        repository=FakeRepository(disk),
        disk=disk,
        observer=FakeObserver(disk),
        host=FakeHost(),
    )


def entry(path: str, data: bytes) -> FileEntry:
    return FileEntry(path=path, size_bytes=len(data), digest=sha256(data))


def test_inputs_are_named_by_the_stage_that_makes_them() -> None:
    recipe = workshop().recipe("hero/2")
    assert [one.name for one in recipe.inputs] == [
        "shards",
        "shards:report.json",
        "hero/1@step-40",
        "hero/1:checkpoints/step-40/checkpoint.json",
        "forecast",
        "data/list.csv",
    ]


def test_a_folder_is_named_by_its_tree_and_a_file_by_its_bytes() -> None:
    digests = {one.name: one.digest for one in workshop().recipe("hero/2").inputs}
    assert digests["shards"] == tree_digest([entry("report.json", b"{}"), entry("code/train-00000.parquet", b"P")])
    assert digests["shards:report.json"] == sha256(b"{}")
    assert digests["hero/1@step-40"] == tree_digest([entry("checkpoint.json", b"{1}"), entry("w.tensor", b"w")])
    assert digests["forecast"] == sha256(b"{2}")


def test_code_lock_and_settings_are_in_the_recipe() -> None:
    recipe = workshop().recipe("hero/2")
    assert recipe.source[0].blob == git_blob(b"train()")
    assert recipe.lock == sha256(b"x==1")
    assert recipe.config == {"hero": {"steps": 4}}
    assert recipe.command == ("python", "-m", "train.hero", "2")


def test_only_a_stage_that_declares_determinism_depends_on_the_host() -> None:
    shop = workshop()
    assert shop.recipe("hero/2").determinism == {}
    spec = replace(SPEC, config={"determinism": {"nproc": 2}})
    shop.pipeline.specs["hero/2"] = spec
    assert shop.recipe("hero/2").determinism == {"nproc": 2, "machine": "x86_64", "jax": "1.0"}


def test_two_outputs_with_a_common_beginning_are_not_mixed_up() -> None:
    shop = workshop(**{"artifacts/hero/10/x": b"1"})
    shop.pipeline.specs["hero/10"] = replace(SPEC, name="hero/10", inputs=(), outputs=("artifacts/hero/10",))
    assert shop.producer("artifacts/hero/10/x") == "hero/10"
    assert shop.producer("artifacts/hero/1/x") == "hero/1"
    assert shop.producer("artifacts/hero") is None


def test_a_product_has_its_checkpoints_by_step() -> None:
    made = {
        "artifacts/hero/2/checkpoints/step-100/w.tensor": b"late",
        "artifacts/hero/2/checkpoints/step-20/w.tensor": b"early",
        "artifacts/hero/2/transcript.jsonl": b"1\n",
    }
    observed = workshop(**made).product("hero/2", sha256(b"recipe"))
    assert [one.name for one in observed.product.outputs] == ["hero/2", "hero/2@step-20", "hero/2@step-100"]
    assert [len(tree) for tree in observed.trees] == [3, 1, 1]
    assert len(observed.roots) == 2
    own = observed.product.outputs[0]
    assert (own.files, own.size_bytes, own.contents) == (3, 11, {"lines": 1})
    assert own.locator.endswith(".dir")


def test_a_container_of_tensors_has_a_root_of_its_own() -> None:
    observed = workshop(
        **{
            "artifacts/hero/2/model.safetensors": b"x",
            "artifacts/hero/2/w.tensor": b"w",
            "artifacts/hero/2/a/b.safetensors": b"",
        }
    ).product("hero/2", sha256(b"recipe"))
    [own] = observed.product.outputs
    assert own.contents["leaves"] == 1
    assert len(observed.roots) == 1
    nested = workshop(**{"artifacts/hero/2/a/b.safetensors": b""}).product("hero/2", sha256(b"recipe"))
    assert "tensors" not in nested.product.outputs[0].contents


def test_what_is_not_there_is_refused() -> None:
    shop = workshop()
    with pytest.raises(DoesNotHold, match="left no artifacts/hero/2"):
        shop.product("hero/2", sha256(b"recipe"))
    with pytest.raises(UnknownName, match="Did you mean hero/2 or hero/1"):
        shop.recipe("hero/3")
    del shop.disk.held["data/list.csv"]
    with pytest.raises(Refused, match=r"data/list\.csv does not exist"):
        shop.recipe("hero/2")


@pytest.mark.parametrize(
    ("line", "made"),
    [
        ("python -m train.x", "python -m train.x"),
        ("reckon record x --begin && python -m train.x a; reckon record x --status $?", "python -m train.x a"),
        ("  reckon record x --begin&&python -m train.x ;reckon record x --status $? ", "python -m train.x"),
    ],
)
def test_the_command_of_a_stage_is_what_makes_its_product(line: str, made: str) -> None:
    assert stage_command(line) == made


@pytest.mark.parametrize("line", ["", "reckon record x --begin", "a && b", "a; b", "reckon record x; a; b"])
def test_a_stage_is_one_command(line: str) -> None:
    with pytest.raises(Refused, match="one stage between"):
        stage_command(line)


def test_only_kept_steps_are_checkpoints() -> None:
    entries = [
        entry(path, b"x")
        for path in (
            "checkpoints/step-1/a",
            "checkpoints/step-1/b/c",
            "checkpoints/step-01/a",
            "checkpoints/best/a",
            "a/checkpoints/step-2/a",
        )
    ]
    assert {step: [one.path for one in found] for step, found in checkpoints(entries).items()} == {1: ["a", "b/c"]}
