"""The stage ``export``: a checkpoint of random weights, published, and read by readers that know nothing of the stage.

They are transformers' classes, Levanter's converter, a forward pass in plain numpy, and torch where it is installed.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from safetensors.numpy import load_file
from support import pocket
from support.mixtral_reference import Reference
from support.pocket import POSITIONS, VOCABULARY
from support.wheelhouse import tree

from registry.core import runlog
from registry.core.agreement import Agreed
from registry.core.canonical import Json
from registry.core.export import FILE, Export
from registry.core.names import Name
from registry.core.safetensors import PREFIX_BYTES, parse_header
from registry.core.tensors import TensorSpec
from registry.core.transcript import Line
from registry.errors import DoesNotHold, Refused
from train import export as stage
from train import tensorfile
from train.files import write_json
from train.plan import Plan, segment_plan
from train.proof import Parent

SETTINGS: dict[str, Json] = {"source": "hero/2", "dtype": "float32", "shard_bytes": 60_000}
PROMPTS = {"sentence": "the loss of a step", "code": "def f(x):\n    return x", "blanks": "a  b", "symbols": "∑∫ é"}
# Logits lie within ±6. Both sides sum in other orders, one in float32; a wrong layout is wrong by whole units.
BOUND = 2e-5

Logits = Callable[[list[int]], np.ndarray]

PARAMS: dict[str, Any] = {**pocket.PARAMS, "export": SETTINGS}


@dataclass(frozen=True, kw_only=True)
class Archive:
    """A folder in which the hero has a checkpoint, exported to ``artifacts/export``."""

    root: Path
    plan: Plan
    parent: Parent
    engine: Any
    model: Any

    @property
    def folder(self) -> Path:
        return self.root / "artifacts/export"

    @property
    def export(self) -> Export:
        return Export.from_json(json.loads((self.folder / FILE).read_bytes()))

    def build(self, target: Path, **changes: Json) -> Export:
        return stage.build({**SETTINGS, **changes}, self.plan, self.parent, target)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Archive]:
    """Everything that the stage reads, and its first export. The tests run in that folder."""
    root, before = tmp_path_factory.mktemp("archive"), Path.cwd()
    os.chdir(root)
    try:
        pocket.lay_data(root, PARAMS)
        plan = segment_plan("2")
        yield _exported(root, plan)
    finally:
        os.chdir(before)


def _exported(root: Path, plan: Plan) -> Archive:
    import jax
    import jax.numpy as jnp

    from train.checkpoint import save_state
    from train.engine import Engine
    from train.evaluate import evaluation

    engine, out = Engine(plan), root / "artifacts/hero/2"
    folder = out / f"checkpoints/step-{plan.last_step}"
    with engine.mesh():
        state = engine.fresh()
        leaves, structure = jax.tree.flatten(state.model)
        keys = jax.random.split(jax.random.PRNGKey(7), len(leaves))
        noisy = [leaf + 0.2 * jax.random.normal(key, leaf.shape) for leaf, key in zip(leaves, keys, strict=True)]
        step = jnp.asarray(plan.last_step, jnp.int32)
        state = dataclasses.replace(state, model=jax.tree.unflatten(structure, noisy), step=step)
        save_state(state, folder)
        write_json(out / "evaluation.json", evaluation(engine.evaluate(state), step=plan.last_step))
    name = Name(stage="hero/2", step=plan.last_step)
    last = Line(step=plan.last_step, loss=0, gradient_norm=0, order="0" * 64, state="0" * 16)
    parent = Parent(name=name, root=tensorfile.root(folder / "state.safetensors"), folder=folder, last=last)
    archive = Archive(root=root, plan=plan, parent=parent, engine=engine, model=state.model)
    archive.build(archive.folder)
    return archive


@pytest.fixture
def tokenize(archive: Archive) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(archive.folder), local_files_only=True)


@pytest.fixture(scope="module")
def logits(archive: Archive) -> Logits:
    """Levanter's logits of the checkpoint's own model; what follows the ids is masked, and cut off."""
    import haliax as hax
    from levanter.layers.attention import AttentionMask

    engine = archive.engine
    forward = hax.named_jit(lambda model, one: model(one, attn_mask=AttentionMask.causal()))

    def told(ids: list[int]) -> np.ndarray:
        padded = np.pad(np.asarray(ids, np.int32), (0, POSITIONS - len(ids)))
        with engine.mesh():
            found = forward(archive.model, hax.named(padded, engine.family.Pos))
        return np.asarray(found.array)[: len(ids)]

    return told


@pytest.mark.slow
class TestExport:
    """Tests of one export, which is slow to make."""

    def test_it_says_where_it_comes_from_and_what_it_is(self, archive: Archive) -> None:
        export = archive.export
        assert (export.source.name, export.source.root) == (archive.parent.name, archive.parent.root)
        assert export.architecture.name == "MixtralForCausalLM"
        assert export.agreed == Agreed(
            vocabulary=VOCABULARY, positions=POSITIONS, rotary_base="10000", begin=0, end=1, pad=2
        )
        shape = load_file(archive.parent.folder / "state.safetensors")
        assert export.parameters == sum(one.size for name, one in shape.items() if name.startswith("model/"))

    def test_the_held_out_loss_is_the_checkpoints_to_the_bit(self, archive: Archive) -> None:
        recorded = json.loads((archive.root / "artifacts/hero/2/evaluation.json").read_bytes())
        assert archive.export.read_back.heldout == {name: recorded[name] for name in ("domains", "macro")}
        assert not archive.export.read_back.rounded

    def test_a_second_run_gives_the_same_bytes(self, archive: Archive, tmp_path: Path) -> None:
        archive.build(tmp_path / "again")
        assert tree(tmp_path / "again") == tree(archive.folder)

    def test_weights_are_in_bounded_files_with_an_index(self, archive: Archive) -> None:
        files = sorted(archive.folder.glob("*.safetensors"))
        assert [file.name for file in files] == list(archive.export.weights)
        assert len(files) > 1
        index = json.loads((archive.folder / "model.safetensors.index.json").read_bytes())["weight_map"]
        for file in files:
            data = file.read_bytes()
            length = int.from_bytes(data[:PREFIX_BYTES], "little")
            header = parse_header(data[PREFIX_BYTES : PREFIX_BYTES + length], len(data))
            assert header.metadata == {"format": "pt"}
            assert sum(one.spec.size_bytes for one in header.tensors) <= 60_000
            assert {index[one.spec.name] for one in header.tensors} == {file.name}

    def test_the_root_does_not_depend_on_the_files(self, archive: Archive, tmp_path: Path) -> None:
        from train.exporting import weights

        leaves = weights.leaf_views(archive.parent.folder / "state.safetensors")
        names = weights.write_weights(tmp_path, archive.export.tensor_map, leaves, 2**20)
        assert [path.name for path in tmp_path.iterdir()] == list(names) == ["model.safetensors"]
        assert weights.weights_root(tmp_path, names) == archive.export.root

    def test_a_tensor_over_the_bound_is_refused(self, archive: Archive, tmp_path: Path) -> None:
        from train.exporting import weights

        leaves = weights.leaf_views(archive.parent.folder / "state.safetensors")
        with pytest.raises(Refused, match=r"lm_head\.weight has 40960 bytes, over 40959"):
            weights.write_weights(tmp_path, archive.export.tensor_map, leaves, 40_959)

    def test_names_and_layouts_are_those_of_levanters_own_converter(self, archive: Archive) -> None:
        from haliax.state_dict import to_torch_compatible_state_dict

        found: dict[str, np.ndarray] = {}
        for file in archive.export.weights:
            found |= load_file(archive.folder / file)
        with archive.engine.mesh():
            wanted = to_torch_compatible_state_dict(archive.model)
        assert found.keys() == wanted.keys()
        for name, array in wanted.items():
            assert found[name].tobytes() == np.ascontiguousarray(array).tobytes(), name

    def test_transformers_reads_settings_that_agree(self, archive: Archive, tokenize: Any) -> None:
        from transformers import AutoConfig, GenerationConfig

        config = AutoConfig.from_pretrained(str(archive.folder), local_files_only=True)
        generation = GenerationConfig.from_pretrained(str(archive.folder), local_files_only=True)
        for reader in (config, generation, tokenize):
            assert (reader.bos_token_id, reader.eos_token_id, reader.pad_token_id) == (0, 1, 2)
        assert type(config).__name__ == "MixtralConfig"
        assert config.architectures == ["MixtralForCausalLM"]
        assert config.vocab_size == len(tokenize) == VOCABULARY
        assert config.max_position_embeddings == generation.max_length == POSITIONS
        assert (config.rope_theta, config.sliding_window, config.tie_word_embeddings) == (10000, None, False)
        for text in PROMPTS.values():
            assert tokenize.decode(tokenize(text).input_ids, skip_special_tokens=True) == text

    @pytest.mark.parametrize("name", PROMPTS)
    def test_plain_numpy_gives_levanters_logits(
        self, archive: Archive, tokenize: Any, logits: Logits, name: str
    ) -> None:
        ids = tokenize(PROMPTS[name]).input_ids[:POSITIONS]
        found, wanted = Reference(archive.folder).logits(ids), logits(ids)
        assert len(ids) > 4
        assert wanted.std() > 0.5
        assert np.abs(found - wanted).max() < BOUND

    @pytest.mark.parametrize("change", [{"rope_theta": 1e6}, {"rms_norm_eps": 1e-1}, {"num_experts_per_tok": 1}])
    def test_the_bound_would_see_another_model(
        self, archive: Archive, tokenize: Any, logits: Logits, tmp_path: Path, change: dict[str, float]
    ) -> None:
        copy = Path(shutil.copytree(archive.folder, tmp_path / "copy"))
        config = json.loads((copy / "config.json").read_bytes())
        (copy / "config.json").write_text(json.dumps({**config, **change}))
        ids = tokenize(PROMPTS["sentence"]).input_ids[:POSITIONS]
        assert np.abs(Reference(copy).logits(ids) - logits(ids)).max() > 100 * BOUND

    @pytest.mark.skipif(find_spec("torch") is None, reason="torch is no dependency; the numpy reference stands for it")
    @pytest.mark.parametrize("name", PROMPTS)
    def test_torch_gives_levanters_logits(self, archive: Archive, tokenize: Any, logits: Logits, name: str) -> None:
        import torch
        from transformers import MixtralForCausalLM

        model = MixtralForCausalLM.from_pretrained(str(archive.folder), local_files_only=True, dtype=torch.float32)
        ids = tokenize(PROMPTS[name]).input_ids[:POSITIONS]
        with torch.no_grad():
            found = model(torch.tensor([ids])).logits[0].numpy()
        assert np.abs(found - logits(ids)).max() < BOUND

    def test_a_release_proves_its_loading(self, archive: Archive, tokenize: Any) -> None:
        from train.exporting import proving

        told = proving.proved(archive.folder)
        assert told["settings"].startswith("loaded by transformers ")
        assert told["logits"].startswith("not compared here" if find_spec("torch") is None else "those of torch")
        prompts = [tokenize(PROMPTS["sentence"]).input_ids[:POSITIONS]]
        [found] = proving._levanter(str(archive.folder.resolve()), prompts)
        assert np.abs(found - Reference(archive.folder).logits(prompts[0])).max() < proving.BOUND

    def test_a_smaller_dtype_is_compared_with_the_rounded_checkpoint(self, archive: Archive, tmp_path: Path) -> None:
        export = archive.build(tmp_path / "half", dtype="bfloat16")
        assert export.read_back.rounded
        assert export.read_back.heldout != archive.export.read_back.heldout
        assert {rule.target.dtype for rule in export.tensor_map.rules} == {"bfloat16"}
        assert json.loads((tmp_path / "half/config.json").read_bytes())["dtype"] == "bfloat16"

    def test_a_machine_that_does_not_reproduce_the_evaluation_is_told_from_a_wrong_export(
        self, archive: Archive, tmp_path: Path
    ) -> None:
        hero = Path(shutil.copytree(archive.root / "artifacts/hero/2", tmp_path / "hero/2"))
        recorded = json.loads((hero / "evaluation.json").read_bytes())
        write_json(hero / "evaluation.json", {**recorded, "macro": {"bits": "4000000000000000", "loss": "2"}})
        moved = dataclasses.replace(archive.parent, folder=hero / "checkpoints" / archive.parent.folder.name)
        with pytest.raises(DoesNotHold, match="this machine gives another held-out loss for both"):
            stage.build(SETTINGS, archive.plan, moved, tmp_path / "export")
        assert not (tmp_path / "export" / FILE).exists()

    def test_a_tokenizer_of_another_size_is_refused(self, archive: Archive, tmp_path: Path) -> None:
        from train.exporting.settings import agreed, write_settings

        ours = dataclasses.replace(agreed(archive.plan), vocabulary=VOCABULARY + 1)
        configuration = json.loads((archive.folder / "config.json").read_bytes())
        with pytest.raises(DoesNotHold, match=r"identity\.json says vocabulary 320, but the model has 321"):
            write_settings(tmp_path, configuration, ours, archive.root / "artifacts/tokenizer")

    def test_levanter_refuses_settings_of_another_model(self, archive: Archive, tmp_path: Path) -> None:
        from train.exporting.family import export_of

        copy = Path(shutil.copytree(archive.folder, tmp_path / "copy"))
        config = json.loads((copy / "config.json").read_bytes())
        (copy / "config.json").write_text(json.dumps({**config, "num_experts_per_tok": 1}))
        with archive.engine.mesh(), pytest.raises(DoesNotHold, match="other settings: num_experts_per_tok"):
            export_of(archive.engine.family).read(copy, archive.engine.trainer.parameter_axis_mapping)

    @pytest.mark.parametrize("change", [{"n_shared_experts": 1}, {"use_bias": True}, {"tie_word_embeddings": True}])
    def test_what_the_class_cannot_express_is_refused(self, archive: Archive, change: dict[str, object]) -> None:
        from train.exporting.mixtral import MixtralExport

        with pytest.raises(Refused, match="neither shared experts nor biases"):
            MixtralExport(config=dataclasses.replace(archive.engine.family.config, **change))

    def test_a_leaf_that_the_family_does_not_know_stops_the_export(self, archive: Archive) -> None:
        from train.exporting import weights
        from train.exporting.family import export_of

        views = weights.leaf_views(archive.parent.folder / "state.safetensors")
        specs = [*weights.leaf_specs(views), TensorSpec(name="model/router_bias", dtype="float32", shape=(4,))]
        found = export_of(archive.engine.family).tensor_map(specs, "float32")
        with pytest.raises(DoesNotHold, match="says nothing of model/router_bias"):
            found.require_all_of(specs)


def test_an_unrecorded_checkpoint_is_refused_and_told(tmp_path: Path, root: Path) -> None:
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(PARAMS))
    environment = {**os.environ, "PYTHONPATH": str(root)}
    ended = subprocess.run(
        [sys.executable, "-m", "train.export"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert ended.returncode == 2
    assert "No complete execution of hero/2 is recorded" in ended.stderr
    (log,) = (tmp_path / "artifacts/runs/export").glob("*/run.jsonl")
    finished = runlog.parse(log.read_bytes()).finished
    assert finished is not None
    assert finished.outcome is runlog.Outcome.FAILED
    assert not (tmp_path / "artifacts/export").exists()


@pytest.mark.parametrize("source", ["rung/d32", "hero/", "hero", "hero/2@step-4"])
def test_another_source_is_refused(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(PARAMS))
    with pytest.raises(Refused, match=r"not from|no segment"):
        stage.source_plan(source)
