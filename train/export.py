"""Stage ``export``: the hero's last checkpoint as a folder that transformers and Levanter load, and the proof of it.

Every tensor is made by a map that stands in ``export.json``, so that anyone can make it again from the checkpoint
without the training stack. Refuses a checkpoint that is not the recorded one, and an export that is not read back as it
was meant. ``export.json`` is written last: a folder without it is no export.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from registry.core.canonical import Json
from registry.core.digests import sha256
from registry.core.export import FILE, Export, ReadBack, Source
from registry.core.names import Name
from registry.core.pipeline import decimals
from registry.errors import ReckonError, Refused
from train import paths
from train.attempt import Attempt
from train.determinism import Determinism
from train.files import fresh_folder, write_json
from train.plan import Plan, segment_plan
from train.proof import Parent, prove_parent
from train.settings import section, text, whole
from train.stage import told

if TYPE_CHECKING:
    from train.engine import Engine

EXPORT = paths.ARTIFACTS / "export"
_OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}


def main() -> None:
    """Run the stage as one attempt."""
    with told(Attempt("export")) as attempt:
        settings = section("export")
        plan = source_plan(text(settings, "source"))
        os.environ.update(_OFFLINE)
        determinism = Determinism.from_settings(plan.sections["determinism"]).apply()
        declared = {**plan.declared, "export": decimals(settings)}
        try:
            parent = prove_parent(Name(stage=plan.stage, step=plan.last_step))
        except ReckonError:
            attempt.start(declared, determinism=determinism)
            raise
        attempt.start(declared, determinism=determinism, parent=parent.facts)
        build(settings, plan, parent, EXPORT)


def source_plan(source: str) -> Plan:
    """The plan of the hero's segment whose last checkpoint is exported. Raises ``Refused`` for another name."""
    kind, _, number = source.partition("/")
    if kind != "hero" or not number:
        raise Refused(
            f"An export is made from a segment of the hero, not from {source!r}.", remedy="Set export.source."
        )
    return segment_plan(number)


def build(settings: Mapping[str, Json], plan: Plan, parent: Parent, target: Path) -> Export:
    """Write the export of the proven checkpoint ``parent`` to ``target`` and read it back.

    Raises ``DoesNotHold`` when it is read otherwise than it was meant. Everything slow to import is imported here.
    """
    from train.engine import Engine

    engine = Engine(plan)
    with engine.mesh():
        export = _build(settings, engine, parent, fresh_folder(target))
    write_json(target / FILE, export.to_json())
    return export


def _build(settings: Mapping[str, Json], engine: Engine, parent: Parent, folder: Path) -> Export:
    """Write everything but ``export.json``."""
    from train.exporting import readback, weights
    from train.exporting.family import export_of
    from train.exporting.settings import agreed, write_settings

    exporter, ours, dtype = export_of(engine.family), agreed(engine.plan), text(settings, "dtype")
    leaves = weights.leaf_views(parent.folder / "state.safetensors")
    specs = weights.leaf_specs(leaves)
    tensor_map = exporter.tensor_map(specs, dtype)
    tensor_map.require_all_of(specs)
    names = weights.write_weights(folder, tensor_map, leaves, whole(settings, "shard_bytes", least=1))
    write_settings(folder, exporter.configuration(ours, dtype), ours, paths.TOKENIZER)
    transformers = readback.read_settings(folder, ours)
    read = readback.read_weights(folder, engine, exporter, parent, dtype)
    return Export(
        source=Source(name=parent.name, root=parent.root),
        root=weights.weights_root(folder, names),
        architecture=exporter.architecture,
        agreed=ours,
        tensor_map=tensor_map,
        files={file.name: sha256(file.read_bytes()) for file in sorted(folder.iterdir()) if file.name not in names},
        weights=names,
        read_back=ReadBack(
            readers={**read.readers, "transformers": transformers}, heldout=read.heldout, rounded=read.rounded
        ),
    )


if __name__ == "__main__":
    main()
