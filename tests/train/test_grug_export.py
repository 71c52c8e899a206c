"""The ladder's family as a published folder: its map, what our reader makes of it, and what it refuses to load."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from support import pocket
from support.hub import HubProcess
from support.republished import first_losses, pulled
from support.wheelhouse import tree

from registry.core.export import Export
from registry.core.names import Name
from registry.core.tensors import TensorSpec
from registry.core.transcript import Line
from registry.errors import DoesNotHold, MalformedRecord, Refused
from train import export as stage
from train import tensorfile
from train.checkpoint import save_state
from train.engine import Engine
from train.evaluate import evaluation
from train.exporting import weights
from train.exporting.family import export_of
from train.files import write_json
from train.grug.published_form import read_model
from train.plan import Plan, segment_plan
from train.proof import Parent
from train.published import begun

pytestmark = pytest.mark.slow

SETTINGS: dict[str, Any] = {"source": "hero/2", "dtype": "float32", "shard_bytes": 100_000}


@dataclass(frozen=True, kw_only=True)
class Archive:
    """A hero of random weights in a folder, exported to ``folder``."""

    plan: Plan
    parent: Parent
    engine: Engine
    model: Any
    folder: Path
    export: Export

    def read(self, folder: Path) -> Any:
        files = tuple(sorted(file.name for file in folder.glob("model*.safetensors")))
        with self.engine.mesh():
            return read_model(folder, files, self.engine.trainer.parameter_axis_mapping)

    def copy(self, target: Path, **changes: Any) -> Path:
        shutil.copytree(self.folder, target)
        config = json.loads((target / "config.json").read_bytes())
        (target / "config.json").write_text(json.dumps({**config, **changes}))
        return target


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Archive]:
    root, before = tmp_path_factory.mktemp("archive"), Path.cwd()
    os.chdir(root)
    try:
        pocket.lay_data(root, {**pocket.GRUG, "export": SETTINGS})
        yield _exported(root, segment_plan("2"))
    finally:
        os.chdir(before)


def _exported(root: Path, plan: Plan) -> Archive:
    engine, out = Engine(plan), root / "artifacts/hero/2"
    folder = out / f"checkpoints/step-{plan.last_step}"
    with engine.mesh():
        state = engine.fresh()
        leaves, structure = jax.tree.flatten(state.model)
        noise = np.random.default_rng(7)
        noisy = [leaf + 0.2 * noise.normal(size=leaf.shape).astype(np.float32) for leaf in leaves]
        step = jnp.asarray(plan.last_step, jnp.int32)
        state = dataclasses.replace(state, model=jax.tree.unflatten(structure, noisy), step=step)
        save_state(state, folder)
        write_json(out / "evaluation.json", evaluation(engine.evaluate(state), step=plan.last_step))
    name = Name(stage="hero/2", step=plan.last_step)
    last = Line(step=plan.last_step, loss=0, gradient_norm=0, order="0" * 64, state="0" * 16)
    parent = Parent(name=name, root=tensorfile.root(folder / "state.safetensors"), folder=folder, last=last)
    export = stage.build(SETTINGS, plan, parent, root / "artifacts/export")
    return Archive(
        plan=plan, parent=parent, engine=engine, model=state.model, folder=root / "artifacts/export", export=export
    )


def tensors(folder: Path) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    for file in folder.glob("model*.safetensors"):
        found |= load_file(file)
    return found


def test_it_carries_its_architecture_and_says_what_it_left_out(archive: Archive) -> None:
    architecture = archive.export.architecture
    assert (architecture.name, architecture.library, architecture.version) == (
        "ReckonGrugForCausalLM",
        "deadreckon",
        "1",
    )
    config = json.loads((archive.folder / "config.json").read_bytes())
    assert (config["architectures"], config["architecture_version"]) == (["ReckonGrugForCausalLM"], "1")
    (left,) = archive.export.tensor_map.left_out
    assert left.leaf == "model/layers/stacked/moe/router_state/bias"
    recorded = json.loads((archive.parent.folder.parents[1] / "evaluation.json").read_bytes())
    assert archive.export.read_back.heldout == {name: recorded[name] for name in ("domains", "macro")}


def test_the_exported_bias_is_the_pending_one(archive: Archive) -> None:
    found, state = tensors(archive.folder), archive.model.layers.stacked.moe.router_state
    for layer in range(2):
        exported = found[f"layers.{layer}.moe.router_bias"]
        np.testing.assert_array_equal(exported, state.pending.array[layer])
        assert not np.array_equal(exported, state.bias.array[layer])
    assert len(archive.export.weights) > 1


def test_our_reader_makes_the_model_from_the_folder_alone(archive: Archive) -> None:
    found = archive.read(archive.folder)
    assert found.config == archive.engine.family.config
    wanted = jax.tree.leaves(archive.model.settled())
    for mine, theirs in zip(wanted, jax.tree.leaves(found), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_training_begins_with_a_pulled_release(archive: Archive, hub: HubProcess, tmp_path: Path) -> None:
    folder, engine = pulled(archive.folder, hub, tmp_path), archive.engine
    with engine.mesh():
        mine, checkpoints = first_losses(engine, folder, archive.parent.folder, next(engine.batches(0)))
    assert mine == checkpoints
    last = max(folder.glob("model*.safetensors"))
    last.write_bytes(last.read_bytes()[:-1] + b"?")
    with pytest.raises(DoesNotHold, match=r"not those that export\.json states"):
        begun(engine, folder)


def test_a_second_run_gives_the_same_bytes(archive: Archive, tmp_path: Path) -> None:
    stage.build(SETTINGS, archive.plan, archive.parent, tmp_path / "again")
    assert tree(tmp_path / "again") == tree(archive.folder)


@pytest.mark.parametrize(
    "change",
    [
        {"architectures": ["MixtralForCausalLM"]},
        {"architecture_version": "2"},
        {"architecture_version": None},
        {"model_type": "mixtral"},
    ],
)
def test_another_architecture_or_version_is_not_loaded(archive: Archive, tmp_path: Path, change: Any) -> None:
    with pytest.raises(DoesNotHold, match=r"architecture .* in version"):
        archive.read(archive.copy(tmp_path / "other", **change))


def test_transformers_is_not_said_to_load_it(archive: Archive) -> None:
    from train.exporting import proving

    assert not proving._known(archive.folder)
    assert proving.proved(archive.folder)["logits"].startswith("not compared here: ")


def test_mixtral_does_not_load_it(archive: Archive) -> None:
    from transformers import MixtralConfig

    stated = MixtralConfig.from_pretrained(str(archive.folder), local_files_only=True)
    assert stated.architectures == ["ReckonGrugForCausalLM"]


def test_missing_extra_and_unknown_parts_are_refused(archive: Archive, tmp_path: Path) -> None:
    config = json.loads((archive.folder / "config.json").read_bytes())
    with pytest.raises(MalformedRecord, match="lacks fields"):
        archive.read(archive.copy(tmp_path / "unknown", grug={**config["grug"], "more": 1}))
    with pytest.raises(MalformedRecord, match="says layers is"):
        archive.read(archive.copy(tmp_path / "odd", grug={**config["grug"], "layers": "2"}))
    for name, change in (("lack lm_head", {}), ("have more too much", {"more": np.zeros(1, np.float32)})):
        broken = archive.copy(tmp_path / name.replace(" ", "-"))
        for file in broken.glob("model*.safetensors"):
            kept = {key: one for key, one in load_file(file).items() if change or key != "lm_head.weight"}
            save_file({**kept, **(change if "lm_head.weight" in kept else {})}, file)
        with pytest.raises(DoesNotHold, match=name):
            archive.read(broken)


def test_other_settings_and_other_leaves_are_refused(archive: Archive, tmp_path: Path) -> None:
    exporter = export_of(archive.engine.family)
    inner = json.loads((archive.folder / "config.json").read_bytes())["grug"]
    other = archive.copy(tmp_path / "other", grug={**inner, "qk_multiplier": 1.0})
    with archive.engine.mesh(), pytest.raises(DoesNotHold, match="other settings"):
        exporter.read(other, archive.engine.trainer.parameter_axis_mapping)
    with pytest.raises(Refused, match="another model"):
        exporter.tensor_map([TensorSpec(name="model/lm_head/weight", dtype="float32", shape=(4,))], "float32")
    views = weights.leaf_views(archive.parent.folder / "state.safetensors")
    specs = [*weights.leaf_specs(views), TensorSpec(name="model/momentum/bias", dtype="float32", shape=(4,))]
    more = exporter.tensor_map(specs, "float32")
    assert "momentum.bias" in {rule.target.name for rule in more.rules}
