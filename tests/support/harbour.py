"""The shipyard's archive with what a release needs: sources with licences, a model card, and a real export of the hero.

Everything is recorded by the real recorder with the real readers; ``build`` makes one, ``copy`` another with its past.
"""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import yaml
from fakes.workshop import FakeHost
from support import exports, shipyard
from support.shipyard import Shipyard, Voyage

from registry.adapters.attempts import RunFolder
from registry.adapters.checkpoints import open_checkpoint, read_leaves
from registry.adapters.git import GitRepository
from registry.adapters.hashing import Disk
from registry.adapters.observer import LocalObserver
from registry.adapters.observers import observe
from registry.adapters.openings import OpeningFolder
from registry.adapters.pipeline import DvcPipeline
from registry.cli import wiring
from registry.core.digests import sha256
from registry.core.export import FILE, Architecture, Export, ReadBack, Source
from registry.core.names import Name
from registry.core.tensor_map import Part, Rule, TensorMap
from registry.core.tensor_operations import Transpose, form_after
from registry.core.tensors import TensorSpec
from registry.observing import Workshop
from registry.workflows.record import Recorder
from train import tensorfile
from train.exporting import weights
from train.exporting.settings import write_settings
from train.files import write_json

STAGES = (*shipyard.LADDER, "hero/1", "hero/2", "export")
SOURCE = "{name: almanac, version: '1.0', licence: MIT, sha256: '" + "a" * 64 + "'}"
CARD = Path(__file__).resolve().parents[2] / "card.md"
TIME = "2026-11-30T12:00:00Z"


class Harbour(Shipyard):
    """The archive at ``root``; the tokenizer lies in ``root/tokenizer-kit``, outside of all stages."""

    def run(self, stage: str, tweak: object = None) -> None:
        """Run and record a stage, and let DVC's lock and cache know of it."""
        self.recorder.begin(stage, wiring.hypothesis(self.root, stage))
        Loading(self, stage).sail()
        recorded = self.recorder.record(stage, 0, wiring.ledger(self.root))
        assert recorded.product is not None
        for output in recorded.product.outputs:
            if output.locator is not None:
                self._lock(stage, output.path, output.locator)
                self._cache(output.path)

    @property
    def recorder(self) -> Recorder:
        observing = partial(observe, open_tensors=open_checkpoint)
        workshop = Workshop(
            pipeline=DvcPipeline(self.root),
            repository=GitRepository(self.root),
            disk=Disk(self.root),
            observer=LocalObserver(self.root, read_leaves=read_leaves, observe=observing),
            host=self.host,
        )
        runs = self.root / "artifacts/runs"
        return Recorder(
            workshop=workshop,
            records=self.records,
            tables=self.tables,
            attempts=RunFolder(runs),
            openings=OpeningFolder(runs),
        )

    def build(self, key: Path, **options: str) -> list[str]:
        """The command line that releases the export."""
        given = {
            "name": "schooner",
            "version": "1.0.0",
            "repo": "lab/schooner",
            "key": str(key),
            "time": TIME,
            **options,
        }
        return ["release", "build", "export", *(part for name, value in given.items() for part in (f"--{name}", value))]

    @property
    def release(self) -> Path:
        """Where the release of the first version lies."""
        return self.root / "artifacts/releases/schooner/1.0.0"


class Loading(Voyage):
    """The shipyard's stages, and the export of the hero's last checkpoint."""

    def _export(self, _: str) -> None:
        folder, hero = self.yard.root / "artifacts/export", self.yard.root / "artifacts/hero/2"
        folder.mkdir(parents=True)
        state = hero / "checkpoints/step-6/state.safetensors"
        leaves = weights.leaf_views(state)
        found = tensor_map(weights.leaf_specs(leaves))
        names = weights.write_weights(folder, found, leaves, 2**20)
        write_settings(folder, exports.configuration(), exports.AGREED, self.yard.root / "tokenizer-kit/tokenizer")
        told = yaml.safe_load((hero / "evaluation.json").read_bytes())
        write_json(folder / FILE, record(folder, state, found, names, told).to_json())


def record(folder: Path, state: Path, found: TensorMap, names: tuple[str, ...], told: dict) -> Export:
    files = [file for file in sorted(folder.iterdir()) if file.name not in names]
    return Export(
        source=Source(name=Name(stage="hero/2", step=6), root=tensorfile.root(state)),
        root=weights.weights_root(folder, names),
        architecture=Architecture(name="SchoonerForCausalLM", library="none", version="1"),
        agreed=exports.AGREED,
        tensor_map=found,
        files={file.name: sha256(file.read_bytes()) for file in files},
        weights=names,
        read_back=ReadBack(readers={}, heldout={name: told.get(name) for name in ("domains", "macro")}, rounded=False),
    )


def tensor_map(specs: tuple[TensorSpec, ...]) -> TensorMap:
    """The keel transposed, the mast as it is."""
    leaves = tuple(spec for spec in specs if spec.name.startswith("model/"))
    rules = []
    for leaf in leaves:
        operations = (Transpose((1, 0)),) if len(leaf.shape) == 2 else ()
        dtype, shape = form_after(operations, leaf.dtype, leaf.shape)
        target = TensorSpec(name=leaf.name.replace("model/", "ship."), dtype=dtype, shape=shape)
        rules.append(Rule(target=target, parts=(Part(leaf=leaf.name, operations=operations),)))
    return TensorMap(leaves=leaves, rules=tuple(rules))


def build(root: Path) -> Harbour:
    """The whole archive in the empty folder ``root``."""
    yard = Harbour(root=root)
    pipeline = shipyard.pipeline()
    pipeline["stages"]["export"] = {
        "cmd": "reckon record export --begin && python -m train.ship export; reckon record export --status $?",
        "deps": ["train/ship.py", "artifacts/hero/2/checkpoints/step-6", "artifacts/words"],
        "outs": ["artifacts/export"],
    }
    yard.write("dvc.yaml", yaml.safe_dump(pipeline, sort_keys=False))
    yard.write("params.yaml", shipyard.PARAMS.replace("{shards: 20}", f"{{shards: 20, sources: [{SOURCE}]}}"))
    yard.write("requirements.lock", shipyard.LOCK)
    yard.write(".gitignore", "/artifacts\n/.dvc/cache\n/tokenizer-kit\n")
    yard.write("README.md", "# A ship\n")
    yard.write("card.md", CARD.read_bytes())
    yard.write("train/ship.py", "print('sail')\n")
    (root / "tokenizer-kit").mkdir()
    exports.small_tokenizer(root / "tokenizer-kit")
    yard.git("init", "-q", "-b", "main")
    yard.commit("Begin")
    for stage in STAGES:
        yard.run(stage)
        if stage in ("forecast", "export"):
            yard.commit(stage)
    return yard


def copy(yard: Harbour, root: Path) -> Harbour:
    """The same archive in another folder."""
    shutil.copytree(yard.root, root, symlinks=True)
    return Harbour(root=root, host=FakeHost(ticks=yard.host.ticks), attempts=yard.attempts)
