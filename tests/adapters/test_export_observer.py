"""Exports read back without JAX: facts of a whole one, a finding for every way in which it can be wrong."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from support import exports
from support.exports import AGREED, HELDOUT, Small

from registry.adapters.checkpoints import Checkpoint, open_checkpoint
from registry.adapters.checkpoints.safetensors import open_file
from registry.adapters.observers import observe
from registry.adapters.observers.mapping import mapped_leaves
from registry.core.canonical import Json
from registry.core.digests import sha256
from registry.core.export import FILE, Export
from registry.core.tensor_map import Part, Rule, TensorMap
from registry.core.tensor_operations import Cast
from registry.core.tensors import TensorSpec, leaf_of
from registry.errors import DoesNotHold, Refused
from train.files import write_json

FLOATS = ("bfloat16", "float16")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Small:
    return exports.made(tmp_path_factory.mktemp("whole"), shard_bytes=5200)


@pytest.fixture
def small(whole: Small, tmp_path: Path) -> Small:
    """A copy to damage."""
    return Small(root=Path(shutil.copytree(whole.root, tmp_path / "copy")))


def facts(small: Small) -> Mapping[str, Json]:
    return observe("export", small.export, open_checkpoint)


def flip(path: Path, position: int = -1) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def test_facts_of_a_whole_export(whole: Small) -> None:
    found = facts(whole)
    assert found["parameters"] == 320 * 4 + 2 * 3 * 4 * 6
    assert found["dtypes"] == ["float32"]
    assert found["agreed"] == AGREED.to_json()
    assert found["heldout"] == HELDOUT
    assert found["checkpoint"]["name"] == "hero/2@step-7"
    assert str(found["map"]).startswith("sha256:")
    assert len(list(whole.export.glob("*.safetensors"))) == 2


def test_the_facts_do_not_depend_on_the_checkpoint_beside_it(small: Small) -> None:
    before = facts(small)
    shutil.rmtree(small.root / "hero")
    assert facts(small) == before


def test_without_a_reader_of_tensors_it_is_refused(whole: Small) -> None:
    with pytest.raises(Refused, match="reader of tensors"):
        observe("export", whole.export)


def test_one_flipped_bit_of_any_file_is_named(whole: Small, tmp_path: Path) -> None:
    for file in sorted(whole.export.iterdir()):
        copy = Small(root=Path(shutil.copytree(whole.root, tmp_path / file.name)))
        flip(copy.export / file.name)
        with pytest.raises(DoesNotHold, match=r"export"):
            facts(copy)


def swap_two_experts(small: Small) -> None:
    """As an exporter with another order of experts would: all sizes fit."""
    (path,) = (path for path in small.export.glob("*.safetensors") if "layers.0.experts.0" in load_file(path))
    tensors = load_file(path)
    one, two = "layers.0.experts.0", "layers.0.experts.1"
    tensors[one], tensors[two] = tensors[two], tensors[one]
    save_file(tensors, path, {"format": "pt"})
    exports.altered_record(small, root=str(_root(small.export)))


def _root(folder: Path) -> object:
    from registry.core.tensors import tensor_root

    opened = open_checkpoint(folder)
    return tensor_root(opened.leaves(opened.specs))


def another_checkpoint(small: Small) -> None:
    exports.write_safetensors(small.checkpoint / "state.safetensors", exports.state(seed=1))


def bias_in_the_checkpoint(small: Small) -> None:
    """A leaf that the map says nothing of, in a checkpoint that the export does name."""
    state = exports.state() | {"model/router_bias": np.ones(3, np.float32)}
    exports.write_safetensors(small.checkpoint / "state.safetensors", state)
    source = {"name": "hero/2@step-7", "root": str(_root(small.checkpoint))}
    exports.altered_record(small, checkpoint=source)


def other_end_token(small: Small) -> None:
    """A configuration that was edited with its digest."""
    path = small.export / "generation_config.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "eos_token_id": 2}))
    _retell(small, path)


def no_object(small: Small) -> None:
    path = small.export / "config.json"
    path.write_text("[]")
    _retell(small, path)


def deep(small: Small) -> None:
    path = small.export / "config.json"
    path.write_text("[" * 100_000)
    _retell(small, path)


def _retell(small: Small, path: Path) -> None:
    files = json.loads((small.export / FILE).read_bytes())["files"]
    exports.altered_record(small, files={**files, path.name: str(sha256(path.read_bytes()))})


def another_loss(small: Small) -> None:
    path = small.root / "hero/2/evaluation.json"
    write_json(path, {**json.loads(path.read_bytes()), "macro": {"bits": "4002000000000001", "loss": "2.25"}})


def not_equal(small: Small) -> None:
    back = json.loads((small.export / FILE).read_bytes())["read_back"]
    exports.altered_record(small, read_back={**back, "equal": False})


def climbing(small: Small) -> None:
    exports.altered_record(small, weights=["../hero/2/checkpoints/step-7/state.safetensors"])


def map_of_part(small: Small) -> None:
    told = json.loads((small.export / FILE).read_bytes())["map"]
    exports.altered_record(small, map={**told, "tensors": told["tensors"][:-1]})


def stray(small: Small) -> None:
    (small.export / "modeling_small.py").write_text("print('hello')\n")


def missing(small: Small) -> None:
    (small.export / "tokenizer_config.json").unlink()


def linked_away(small: Small) -> None:
    (small.export / "tokenizer.json").unlink()
    (small.export / "tokenizer.json").symlink_to(small.root / "nowhere")


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (swap_two_experts, r"another layers\.0\.experts\.0 than its map makes from hero/2@step-7"),
        (another_checkpoint, "was made from another hero/2@step-7 than the one that lies here"),
        (bias_in_the_checkpoint, "says nothing of model/router_bias"),
        (other_end_token, "generation_config.json says eos_token_id 2, but the model has 1"),
        (no_object, "is no JSON object"),
        (deep, "is not JSON"),
        (another_loss, "another held-out loss"),
        (not_equal, "read back with another loss"),
        (climbing, "not a relative path inside its folder"),
        (map_of_part, "does not use all of the leaf 'model/experts'"),
        (stray, r"other files than export\.json names: modeling_small\.py"),
        (missing, r"other files than export\.json names: tokenizer_config\.json"),
        (linked_away, r"tokenizer\.json is missing"),
    ],
)
def test_a_wrong_export_is_named(small: Small, damage: Callable[[Small], None], complaint: str) -> None:
    damage(small)
    with pytest.raises(DoesNotHold, match=complaint):
        facts(small)


@pytest.mark.parametrize("dtype", FLOATS)
def test_an_export_of_a_smaller_dtype_is_made_again(tmp_path: Path, dtype: str) -> None:
    """The stage rounds with ml_dtypes; the reader rounds by hand."""
    small = exports.made(tmp_path, dtype=dtype)
    assert facts(small)["dtypes"] == [dtype]


@pytest.mark.parametrize(("old", "new"), [("float32", one) for one in FLOATS] + [(one, "float32") for one in FLOATS])
def test_casts_are_those_of_ml_dtypes(tmp_path: Path, old: str, new: str) -> None:
    """All 16-bit patterns where they are the source; else what lies on, beside and between them, and the odd ones."""
    patterns = np.arange(2**16, dtype=np.uint16)
    if old == "float32":
        words = patterns.astype(np.uint32) << 16
        near = [words, words + 1, words + 0x7FFF, words + 0x8000, words + 0x8001, words + 0x1000, words + 0x0FFF]
        values = np.concatenate(near).view(np.float32)
    else:
        values = patterns.view(getattr(ml_dtypes, old, old))
    values = values[~np.isnan(values.astype(np.float32))]
    with np.errstate(over="ignore"):
        expected = values.astype(np.dtype(getattr(ml_dtypes, new, new)))
    source = TensorSpec(name="model/w", dtype=old, shape=values.shape)
    target = TensorSpec(name="w", dtype=new, shape=values.shape)
    rule = Rule(target=target, parts=(Part(leaf="model/w", operations=(Cast(new),)),))
    path = exports.write_safetensors(tmp_path / "state.safetensors", {"model/w": values})
    with np.errstate(over="ignore"):
        (leaf,) = mapped_leaves(TensorMap(leaves=(source,), rules=(rule,)), open_checkpoint(path))
    assert leaf == leaf_of(target, expected.tobytes())


def test_a_nan_stays_a_quiet_nan(tmp_path: Path) -> None:
    values = np.array([0x7F800001, 0xFFFFFFFF, 0x7FC00000], np.uint32).view(np.float32)
    source, target = (
        TensorSpec(name=name, dtype=dtype, shape=(3,)) for name, dtype in (("model/w", "float32"), ("w", "bfloat16"))
    )
    rule = Rule(target=target, parts=(Part(leaf="model/w", operations=(Cast("bfloat16"),)),))
    path = exports.write_safetensors(tmp_path / "state.safetensors", {"model/w": values})
    (leaf,) = mapped_leaves(TensorMap(leaves=(source,), rules=(rule,)), open_checkpoint(path))
    assert leaf == leaf_of(target, np.array([0x7FC0, 0xFFFF, 0x7FC0], np.uint16).tobytes())


@dataclass(frozen=True, kw_only=True)
class Counted(Checkpoint):
    """A checkpoint that notes the length of every range that is read of it."""

    lengths: list[int] = field(default_factory=list)

    def read(self, spec: TensorSpec, start_byte: int, stop_byte: int) -> bytes:
        self.lengths.append(stop_byte - start_byte)
        return Checkpoint.read(self, spec, start_byte, stop_byte)


def test_one_slice_of_a_leaf_is_read_at_a_time(whole: Small) -> None:
    export = Export.from_json(json.loads((whole.export / FILE).read_bytes()))
    checkpoint = Counted(source=open_file(whole.checkpoint / "state.safetensors"))
    assert len(list(mapped_leaves(export.tensor_map, checkpoint))) == 7
    assert sorted(checkpoint.lengths) == [4 * 6 * 4] * 6 + [320 * 4 * 4]


def test_reading_an_export_back_needs_no_training_stack(whole: Small, root: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from registry.adapters.observers import observe;"
        "from registry.adapters.checkpoints import open_checkpoint;"
        f"observe('export', Path({str(whole.export)!r}), open_checkpoint);"
        "print({'jax', 'levanter', 'transformers', 'torch', 'ml_dtypes', 'safetensors'} & set(sys.modules))"
    )
    told = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "set()"
