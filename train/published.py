"""Training that begins with published weights: a release, as it was pulled, is a model without an optimizer's state.

``begun(engine, folder)`` is a first state of ``engine``'s own run, with the model of the folder in the place of a
random one; what goes on from a run's whole state is a checkpoint (``Engine.restored``). Nothing here checks
signatures: ``reckon pull`` did, or ``reckon audit DIR`` does. Refuses weights that are not those which ``export.json``
states, and a model of other settings than the engine's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import jax
import jax.numpy as jnp
from levanter.trainer_state import TrainerState

from registry.core import canonical
from registry.core.export import FILE, Export
from registry.errors import DoesNotHold
from train.engine import Engine
from train.exporting import weights
from train.exporting.family import export_of
from train.order import Keys

_REMEDY: Final = "Pull the release again into an empty folder."


def begun(engine: Engine, folder: Path) -> TrainerState:
    """The state before the first step of ``engine``'s run, with the weights in ``folder`` and a fresh optimizer.

    Call it inside of ``engine.mesh()``. Raises ``DoesNotHold`` when the weights have another tensor root than
    ``export.json`` says, or ``config.json`` gives another model than the engine's.
    """
    stated = Export.from_json(canonical.decode((folder / FILE).read_bytes().removesuffix(b"\n")))
    if weights.weights_root(folder, stated.weights) != stated.root:
        raise DoesNotHold(f"The weights in {folder.name} are not those that {FILE} states.", remedy=_REMEDY)
    read = export_of(engine.family).read(folder, engine.trainer.parameter_axis_mapping)
    model = jax.tree.map(jnp.copy, read)  # Levanter takes the model's memory, of which a reader may use a part twice
    return engine.trainer.initial_state(Keys.of(engine.seed).training, model=model)
