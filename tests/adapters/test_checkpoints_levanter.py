"""Checkpoints as Levanter saves them: one root after a re-save, over devices, and in our own file."""

import os
import subprocess
import sys

import pytest
from support.containers import write_safetensors, write_zarr

from registry.adapters.checkpoints import open_checkpoint, read_leaves
from registry.core.tensors import tensor_root

pytestmark = pytest.mark.slow

SAVE = """
import sys
from pathlib import Path

import equinox, haliax, jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from levanter.checkpoint import save_checkpoint

folder = Path(sys.argv[1])
assert len(jax.devices()) == 4


class Model(equinox.Module):
    embed: haliax.NamedArray
    experts: jax.Array
    scale: jax.Array
    half: jax.Array
    frozen: jax.Array
    bias: None = None


def state(devices):
    mesh = Mesh(np.array(jax.devices()[:devices]), ("x",))

    def spread(array, *axes):
        return jax.device_put(array, NamedSharding(mesh, PartitionSpec(*axes)))

    key = jax.random.PRNGKey(3)
    vocab, width = haliax.Axis("vocab", 512), haliax.Axis("width", 64)
    model = Model(
        embed=haliax.NamedArray(spread(jax.random.normal(key, (512, 64)), None, "x"), (vocab, width)),
        experts=spread(jax.random.normal(key, (8, 384, 512)), "x"),
        scale=jnp.float32(-0.0),
        half=spread(jax.random.normal(key, (64, 32)).astype(jnp.bfloat16), "x"),
        frozen=jnp.array([True, False]),
    )
    params = {"embed": model.embed.array, "experts": model.experts}
    return {
        "model": model,
        "opt_state": optax.adam(1e-3).init(params),
        "training_key": key,
        "step": jnp.array(20),
        "started": True,
        "rate": 0.5,
    }


for name, devices in (("one", 1), ("again", 1), ("four", 4)):
    save_checkpoint(state(devices), step=20, checkpoint_path=str(folder / name))
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The same state saved twice on one device and once over four."""
    base = tmp_path_factory.mktemp("levanter")
    environment = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "NPROC": "2"}
    subprocess.run([sys.executable, "-c", SAVE, str(base)], env=environment, check=True, timeout=300)
    return [base / "one", base / "again", base / "four"]


def files(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_a_resave_and_other_devices_give_other_bytes_and_the_same_root(saved):
    assert len({tuple(files(folder)) for folder in saved}) == 3
    assert len({(folder / "metadata.json").read_bytes() for folder in saved}) == 3
    roots = {tensor_root(read_leaves(folder)) for folder in saved}
    assert len(roots) == 1


def test_names_and_dtypes_are_those_of_the_state(saved):
    specs = {spec.name: (spec.dtype, spec.shape) for spec in open_checkpoint(saved[0]).specs}
    assert specs == {
        "model/embed": ("float32", (512, 64)),
        "model/experts": ("float32", (8, 384, 512)),
        "model/frozen": ("bool", (2,)),
        "model/half": ("bfloat16", (64, 32)),
        "model/scale": ("float32", ()),
        "opt_state/0/count": ("int32", ()),
        "opt_state/0/mu/embed": ("float32", (512, 64)),
        "opt_state/0/mu/experts": ("float32", (8, 384, 512)),
        "opt_state/0/nu/embed": ("float32", (512, 64)),
        "opt_state/0/nu/experts": ("float32", (8, 384, 512)),
        "rate": ("float32", ()),
        "started": ("bool", ()),
        "step": ("int32", ()),
        "training_key": ("uint32", (2,)),
    }


def test_the_same_arrays_in_other_containers_have_the_root(saved, tmp_path):
    arrays = load(saved[2])
    expected = tensor_root(read_leaves(saved[0]))
    one = write_safetensors(tmp_path / "state.safetensors", arrays)
    tree = write_zarr(tmp_path / "zarr", arrays, grid=lambda shape: tuple(-(-size // 3) for size in shape))
    assert tensor_root(read_leaves(one)) == expected
    assert tensor_root(read_leaves(tree)) == expected


def load(folder):
    import tensorstore

    base = {"driver": "file", "path": f"{folder}/"}
    specs = {
        spec.name: {"driver": "zarr3", "kvstore": {"driver": "ocdbt", "base": base, "path": f"{spec.name}/"}}
        for spec in open_checkpoint(folder).specs
    }
    return {name: tensorstore.open(spec).result().read().result() for name, spec in specs.items()}
