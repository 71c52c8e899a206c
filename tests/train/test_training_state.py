"""States of real training: archived, restored, continued, and held against Levanter's own checkpoints and step."""

from __future__ import annotations

import copy
import math
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import haliax as hax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from levanter.checkpoint import load_checkpoint, save_checkpoint
from levanter.models.lm_model import LmExample
from levanter.models.mixtral import MixtralConfig
from levanter.tracker.tracker_fns import defer_tracker_for_jit
from levanter.trainer import Trainer
from support import pocket
from support.hub import HubProcess
from support.republished import export, first_losses, pulled
from support.signed import signed_release

from registry.adapters.checkpoints import read_leaves
from registry.core.tensors import tensor_root
from registry.errors import DoesNotHold, MalformedRecord, Refused
from train import fingerprint, tensorfile
from train.checkpoint import checkpoint_root, host_leaves, restore_state, save_state
from train.engine import Batch, Engine
from train.evaluate import domain_loss, evaluation
from train.plan import rung_plan
from train.step import GROUPS, Stepped

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Course:
    """Five steps of a rung: the engine, its batches, what each step told, and the states after three and five."""

    engine: Engine
    batches: list[Batch]
    told: list[Stepped]
    archived: Path
    levanter: Path
    after_five: Mapping[str, np.ndarray]


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Course]:
    root, before = tmp_path_factory.mktemp("course"), Path.cwd()
    os.chdir(root)
    try:
        pocket.lay_data(root, pocket.PARAMS)
        engine = Engine(rung_plan("d16"), tokens=root / "artifacts/tokens")
    finally:
        os.chdir(before)
    with engine.mesh():
        batches, told, state = [], [], engine.fresh()
        for step, batch in zip(range(1, 6), engine.batches(0), strict=False):
            state, stepped = engine.step(state, batch.tokens)
            batches.append(batch)
            told.append(jax.device_get(stepped))
            if step == 3:
                save_state(state, root / "step-3")
                save_checkpoint(state.saveable_state, step=3, checkpoint_path=str(root / "levanter"))
        yield Course(engine, batches, told, root / "step-3", root / "levanter", host_leaves(state))


def same(left: Mapping[str, np.ndarray], right: Mapping[str, np.ndarray]) -> bool:
    """Equal names, dtypes, shapes and bits."""
    return left.keys() == right.keys() and all(
        (left[name].dtype, left[name].shape, left[name].tobytes())
        == (right[name].dtype, right[name].shape, right[name].tobytes())
        for name in left
    )


def test_the_archive_has_the_root_of_levanters_own_save(course: Course) -> None:
    theirs = tensor_root(read_leaves(course.levanter))
    assert checkpoint_root(course.archived) == theirs
    assert tensor_root(read_leaves(course.archived)) == theirs


def test_a_restored_state_continues_to_the_same_bits(course: Course) -> None:
    state = course.engine.restored(course.archived)
    for batch, before in zip(course.batches[3:], course.told[3:], strict=True):
        state, stepped = course.engine.step(state, batch.tokens)
        assert np.asarray(stepped.loss).tobytes() == np.asarray(before.loss).tobytes()
        assert fingerprint.text(stepped.lanes) == fingerprint.text(before.lanes)
    assert same(host_leaves(state), course.after_five)


def test_a_pulled_checkpoint_continues_to_the_same_bits(course: Course, hub: HubProcess, tmp_path: Path) -> None:
    release = signed_release(tmp_path / "signed", checkpoint=course.archived)
    repository = hub.new_repo()
    release.push(hub.api(), repository)
    place = [f"hf://{repository}@v1.0.0", "--mirror-of", "lab/pocket", "--checkpoint", "step-7"]
    command = [sys.executable, "-m", "registry", "pull", *place, "-o", "step-3"]
    subprocess.run(command, cwd=tmp_path, env={**hub.environment(tmp_path), "PYTHONPATH": str(ROOT)}, check=True)
    state = course.engine.restored(tmp_path / "step-3")
    for batch in course.batches[3:]:
        state, _ = course.engine.step(state, batch.tokens)
    assert same(host_leaves(state), course.after_five)


def test_training_begins_with_a_pulled_release(course: Course, hub: HubProcess, tmp_path: Path) -> None:
    """With our trainer; and with Levanter's own reader, model, loss and trainer, and nothing of ours."""
    from transformers import AutoConfig, AutoTokenizer

    engine = course.engine
    folder = pulled(export(engine, course.archived, tmp_path / "export"), hub, tmp_path)
    assert AutoConfig.from_pretrained(folder).model_type == "mixtral"
    assert len(AutoTokenizer.from_pretrained(folder)) == pocket.VOCABULARY
    mine, checkpoints = first_losses(engine, folder, course.archived, course.batches[3])
    assert mine == checkpoints == np.asarray(course.told[3].loss).tobytes()

    def loss(model: Any, example: LmExample, *, key: Any) -> Any:
        with defer_tracker_for_jit():  # what this model tells the tracker has no gradient
            return model.compute_next_token_loss(example, key=key).scalar()

    ours = engine.trainer
    settings = replace(ours.config, log_jaxprs=False, log_xla_hlo=False)
    trainer = Trainer(settings, ours.optimizer, loss, add_default_hooks=False)
    converter = MixtralConfig().hf_checkpoint_converter(ref_checkpoint=str(folder))
    config = converter.config_from_hf_checkpoint()
    read = converter.load_pretrained(config.model_type, config=config, axis_mapping=trainer.parameter_axis_mapping)
    tokens = course.batches[3].tokens
    example = LmExample(tokens=tokens, loss_weight=hax.ones(tokens.axes))
    states = [
        trainer.initial_state(jax.random.PRNGKey(0), model=one)
        for one in (read, engine.restored(course.archived).model)
    ]
    losses = [float(trainer.train_step(state, example).loss) for state in states]
    assert losses[0] == losses[1] > 0


def test_levanter_saves_and_loads_the_restored_state(course: Course, tmp_path: Path) -> None:
    state = course.engine.restored(course.archived)
    save_checkpoint(state.saveable_state, step=3, checkpoint_path=str(tmp_path / "again"))
    loaded = load_checkpoint(course.engine.restored(course.archived), str(tmp_path / "again"))
    assert same(host_leaves(loaded), tensorfile.read_arrays(course.archived / "state.safetensors"))
    assert tensor_root(read_leaves(tmp_path / "again")) == checkpoint_root(course.archived)


def test_the_batches_go_on_where_a_resume_begins(course: Course) -> None:
    for ours, before in zip(course.engine.batches(3), course.batches[3:], strict=False):
        assert np.array_equal(ours.ids, before.ids)
        assert np.array_equal(ours.host_tokens, before.host_tokens)
        assert np.array_equal(np.asarray(ours.tokens.array), before.host_tokens)


def test_the_fingerprint_of_a_step_is_that_of_the_archived_state(course: Course) -> None:
    arrays = tensorfile.read_arrays(course.archived / "state.safetensors")
    assert int(arrays["step"]) == 3
    assert fingerprint.text(fingerprint.of_arrays(arrays)) == fingerprint.text(course.told[2].lanes)


def test_saving_twice_gives_the_same_bytes_and_never_writes_over(course: Course, tmp_path: Path) -> None:
    state = course.engine.restored(course.archived)
    (tmp_path / ".step-3.partial").mkdir()
    (tmp_path / ".step-3.partial" / "state.safetensors").write_text("of a process that was killed")
    save_state(state, tmp_path / "step-3")
    names = sorted(path.name for path in (tmp_path / "step-3").iterdir())
    assert names == ["checkpoint.json", "state.safetensors"]
    for name in names:
        assert (tmp_path / "step-3" / name).read_bytes() == (course.archived / name).read_bytes()
    with pytest.raises(Refused, match="never written over"):
        save_state(state, tmp_path / "step-3")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-3"]


def _missing(arrays: dict[str, np.ndarray]) -> str:
    del arrays["model/lm_head/weight"]
    return "model/lm_head/weight"


def _extra(arrays: dict[str, np.ndarray]) -> str:
    arrays["model/more"] = np.zeros(1, np.float32)
    return "model/more"


def _misshaped(arrays: dict[str, np.ndarray]) -> str:
    arrays["model/lm_head/weight"] = arrays["model/lm_head/weight"].T.copy()
    return "model/lm_head/weight"


def _retyped(arrays: dict[str, np.ndarray]) -> str:
    arrays["step"] = arrays["step"].astype(np.int64)
    return "step"


@pytest.mark.parametrize("harm", [_missing, _extra, _misshaped, _retyped])
def test_another_models_state_is_refused_by_name(course: Course, tmp_path: Path, harm: Any) -> None:
    arrays = tensorfile.read_arrays(course.archived / "state.safetensors")
    name = harm(arrays)
    tensorfile.write_arrays(tmp_path / "state.safetensors", arrays)
    with pytest.raises(DoesNotHold, match=name):
        restore_state(tmp_path, course.engine.template, course.engine.trainer.parameter_axis_mapping)


def test_a_cut_state_is_refused(course: Course, tmp_path: Path) -> None:
    data = (course.archived / "state.safetensors").read_bytes()
    (tmp_path / "state.safetensors").write_bytes(data[:-1])
    with pytest.raises(MalformedRecord, match="cut"):
        course.engine.restored(tmp_path)


def test_our_step_is_levanters_step(course: Course) -> None:
    """Another program, so not the same bits; but the same loss and the same update."""

    def loss(model: Any, tokens: hax.NamedArray, *, key: Any) -> Any:
        return course.engine.family.loss(model, tokens)

    mine = course.engine.trainer
    trainer = Trainer(
        replace(mine.config, log_jaxprs=False, log_xla_hlo=False), mine.optimizer, loss, add_default_hooks=False
    )
    info = trainer.train_step(course.engine.restored(course.archived), course.batches[3].tokens)
    ours, _ = course.engine.step(course.engine.restored(course.archived), course.batches[3].tokens)
    np.testing.assert_allclose(info.loss, course.told[3].loss, rtol=1e-5)
    theirs, found = host_leaves(info.state), host_leaves(ours)
    assert theirs.keys() == found.keys()
    for name, array in found.items():
        np.testing.assert_allclose(theirs[name], array, rtol=2e-3, atol=2e-5, err_msg=name)


def test_the_facts_of_a_step_add_up(course: Course) -> None:
    facts = {name: float(value) for name, value in course.told[0].facts.items()}
    groups = [value for name, value in facts.items() if name.startswith("gradient_norm/")]
    assert math.isclose(math.hypot(*groups), float(course.told[0].gradient_norm), rel_tol=1e-5)
    assert {name.removeprefix("parameter_norm/") for name in facts if name.startswith("parameter_norm/")} == {
        *(group for group, _ in GROUPS if group not in {"shared", "latent", "convolutions"}),
        "norms",
    }
    assert facts["router/dropped_assignments"] == 0
    assert math.isclose(facts["router/layer0/load_mean"], 1, rel_tol=1e-6)
    assert 1 <= facts["router/layer0/load_max"] <= 4 / 2
    assert 0 < facts["router/layer0/entropy"] <= math.log(4) + 1e-6
    model = course.engine.plan.sections["model"]
    expected = facts["loss/cross_entropy"] + float(str(model["logit_z_loss"])) * facts["loss/logit_z"]
    expected += float(str(model["router_z_loss"])) * facts["router/z_loss"]
    expected += float(str(model["load_balancing_loss"])) * facts["router/load_balancing_loss"]
    assert math.isclose(expected, float(course.told[0].loss), rel_tol=1e-5)


def test_the_held_out_loss_is_the_mean_cross_entropy_of_the_models_own_logits(course: Course) -> None:
    state = course.engine.restored(course.archived)
    rows, Pos, Vocab = course.batches[4].host_tokens[:5], course.engine.family.Pos, course.engine.family.Vocab  # noqa: N806
    Batched = hax.Axis("batch", len(rows))  # noqa: N806
    logits = state.model(hax.named(jnp.asarray(rows), (Batched, Pos)), attn_mask=_mask(course, rows))
    values = np.asarray(logits.rearrange((Batched, Pos, Vocab)).array, np.float64)[:, :-1]
    shifted = values - values.max(-1, keepdims=True)
    normalised = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    wanted = -np.take_along_axis(normalised, rows[:, 1:, None], axis=-1).mean()
    losses = course.engine.family.token_losses

    def run(tokens: hax.NamedArray, present: hax.NamedArray) -> tuple[jax.Array, jax.Array]:
        found, weights = losses(state.model, tokens)
        return hax.sum(found * weights * present).scalar(), hax.sum(weights * present).scalar()

    for batch in (1, 2, 5, 8):
        found = domain_loss(run, rows, (hax.Axis("batch", batch), Pos))
        assert math.isclose(found.loss, wanted, rel_tol=1e-5)
        assert (found.sequences, found.tokens) == (5, 5 * (Pos.size - 1))


def test_the_evaluation_is_deterministic_and_canonical(course: Course) -> None:
    state = course.engine.restored(course.archived)
    first, second = course.engine.evaluate(state), course.engine.evaluate(state)
    assert first == second
    told = evaluation(first, step=3)
    assert told["macro"]["loss"]  # type: ignore[index, call-overload]
    mean = math.fsum(one.loss for one in first.values()) / len(first)
    assert told["macro"]["bits"] == np.float64(mean).byteswap().tobytes().hex()  # type: ignore[index, call-overload]


def test_decay_of_a_group_changes_that_group_alone(course: Course) -> None:
    """An intervention leaves the leaves of the state as they are, and moves only what it names."""
    sections = copy.deepcopy(dict(course.engine.plan.sections))
    sections["training"] = {**sections["training"], "weight_decay": "0.5", "decayed": ["gate"]}
    decaying = Engine(replace(course.engine.plan, sections=sections), tokens=course.engine.tokens)
    state = decaying.restored(course.archived)
    decayed, _ = decaying.step(state, course.batches[3].tokens)
    plain, _ = course.engine.step(course.engine.restored(course.archived), course.batches[3].tokens)
    left, right = host_leaves(decayed), host_leaves(plain)
    assert left.keys() == right.keys()
    moved = {
        name
        for name in left
        if name.startswith("model/") and not np.allclose(left[name], right[name], rtol=0, atol=1e-6)
    }
    assert moved == {name for name in left if name.startswith("model/") and "/gate/" in name}


def _mask(course: Course, rows: np.ndarray) -> Any:
    from levanter.layers.attention import AttentionMask

    begins = np.roll(rows, 1, axis=1) == course.engine.family.end  # type: ignore[attr-defined]
    begins[:, 0] = False
    axes = (hax.Axis("batch", len(rows)), course.engine.family.Pos)
    return AttentionMask.causal().with_segment_ids(hax.named(jnp.asarray(np.cumsum(begins, axis=1)), axes))
