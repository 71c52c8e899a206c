"""An export as people meet it: signed as a release, put on a hub, pulled from there, and trained on."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from support.hub import ROOT, HubProcess
from support.signed import signed_release

from registry.core.digests import sha256
from registry.core.export import FILE, Export, ReadBack, Source
from registry.core.names import Name
from train import tensorfile
from train.engine import Batch, Engine
from train.exporting import weights
from train.exporting.family import export_of
from train.exporting.settings import agreed, write_settings
from train.files import write_json
from train.published import begun


def export(engine: Engine, checkpoint: Path, folder: Path) -> Path:
    """The files of the stage ``export`` for a checkpoint, without its reading back."""
    folder.mkdir()
    exporter, ours = export_of(engine.family), agreed(engine.plan)
    leaves = weights.leaf_views(checkpoint / "state.safetensors")
    found = exporter.tensor_map(weights.leaf_specs(leaves), "float32")
    names = weights.write_weights(folder, found, leaves, 2**20)
    write_settings(folder, exporter.configuration(ours, "float32"), ours, engine.tokens.parent / "tokenizer")
    one = Export(
        source=Source(name=Name(stage="hero/2", step=3), root=tensorfile.root(checkpoint / "state.safetensors")),
        root=weights.weights_root(folder, names),
        architecture=exporter.architecture,
        agreed=ours,
        tensor_map=found,
        files={file.name: sha256(file.read_bytes()) for file in sorted(folder.iterdir()) if file.name not in names},
        weights=names,
        read_back=ReadBack(readers={}, heldout={"domains": {}, "macro": {}}, rounded=False),
    )
    write_json(folder / FILE, one.to_json())
    return folder


def pulled(exported: Path, hub: HubProcess, scratch: Path) -> Path:
    """The folder of a release with the files of ``exported``, pulled with ``reckon pull``."""
    release = signed_release(scratch / "signed", weights=lambda folder: shutil.copytree(exported, folder))
    repository = hub.new_repo()
    release.push(hub.api(), repository)
    place = [f"hf://{repository}@v1.0.0", "--mirror-of", "lab/pocket", "-o", "pulled"]
    command = [sys.executable, "-m", "registry", "pull", *place]
    subprocess.run(command, cwd=scratch, env={**hub.environment(scratch), "PYTHONPATH": str(ROOT)}, check=True)
    return scratch / "pulled"


def first_losses(engine: Engine, release: Path, checkpoint: Path, batch: Batch) -> tuple[bytes, bytes]:
    """The bits of the loss of a first step: begun with a release, and with the model of a checkpoint."""

    def like(model: Any, other: Any) -> Any:  # the same placement, so that one program serves both
        return jax.tree.map(lambda mine, theirs: jax.device_put(theirs, mine.sharding), model, other)

    def loss(state: Any) -> bytes:
        return np.asarray(engine.step(state, batch.tokens)[1].loss).tobytes()

    state = begun(engine, release)
    assert int(state.step) == 0
    other = replace(state, model=like(state.model, engine.restored(checkpoint).model))
    other = jax.tree.map(lambda leaf: leaf.copy(), other)
    return loss(state), loss(other)
