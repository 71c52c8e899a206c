"""Engines on a cluster's mesh, and of runs that are larger than this machine.

A batch is spread over racks, data and experts. Of parameters, optimizer and gradients, routed experts are spread over
``expert`` and their width over ``data``, everything else with the model's width over both: a rack holds one copy. The
published rungs are engines like any other, with the published shapes, model, optimizer and precision. Refuses a mesh
that does not use every device, or cannot divide the run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

import jax
import jmp
import numpy as np
from jax.sharding import Mesh
from levanter.trainer import Trainer, TrainerConfig
from levanter.utils.mesh import MeshConfig

from registry.core.canonical import Json
from registry.core.ladder import Rung, derive
from registry.core.published import FAMILY, SHAPES
from registry.errors import Refused
from train.engine import Engine
from train.grug.config import PUBLISHED
from train.grug.family import Grug, grug
from train.launch_mesh import AXES, DETERMINISM, SINGLE, Layout
from train.optimizer import optimizer
from train.plan import Plan

BATCH: Final = ("replica_dcn", "data", "expert")
# Of the public tokenizer of the published ladder: <|end_of_text|>.
END_OF_TEXT: Final = 128001
# Parameters and optimizer in float32, the model's work in bfloat16, its results in float32.
PRECISION: Final = "p=f32,c=bfloat16,o=f32"
# Groups and rates are the ladder's; nothing is clipped or decayed, as at the public run's launch.
TRAINING: Final[Mapping[str, Json]] = MappingProxyType(
    {
        "optimizer": "ladder",
        "beta1": "0.9",
        "clip_norm": None,
        "rate_factor": "1",
        "weight_decay": "0",
        "decayed": [],
        "keep_every_steps": 6000,
    }
)


@dataclass
class LaidOut(TrainerConfig):
    """Levanter's configuration with a mesh of all four axes over the devices in the order of their hosts."""

    layout: Layout = SINGLE

    @property
    def device_mesh(self) -> Mesh:
        """The mesh. Raises ``Refused`` when it does not use all devices."""
        devices = jax.devices()
        if len(devices) != self.layout.devices:
            raise Refused(f"The mesh {self.layout.sizes} needs {self.layout.devices} devices, not {len(devices)}.")
        return Mesh(np.asarray(devices).reshape(self.layout.sizes), AXES)


def mesh_config(layout: Layout, rung: Rung) -> MeshConfig:
    """Which axis of an array lies on which axis of the mesh. A width that ``data`` cannot divide is not spread over it.

    Routers, norms of the latent width and convolutions of keys and values are small and whole on every device.
    """
    spread = {
        "expert": ("expert",),
        "embed": layout.spreading(rung.hidden, "data", "expert"),
        "width": layout.spreading(rung.latent_width or rung.hidden, "data"),
    }
    return MeshConfig(
        axes=dict(zip(AXES, layout.sizes, strict=True)),
        dcn_axes={},
        shared_mapping={"mlp": "model", "heads": "model", "vocab": "model"},
        compute_mapping={"batch": list(BATCH)},
        param_mapping={name: list(axes) for name, axes in spread.items() if axes},
    )


@dataclass(frozen=True)
class LaidOutEngine(Engine):
    """An engine of this archive's own ladder, on a mesh of all four axes."""

    layout: Layout = SINGLE

    @cached_property
    def trainer(self) -> Trainer:
        """The engine's trainer on the layout's mesh."""
        inner = super().trainer
        self.layout.require_dividing(self.plan.family, self.plan.rung)
        return laid_out(inner.config, inner.optimizer, self)


@dataclass(frozen=True)
class PublishedEngine(LaidOutEngine):
    """An engine of the published ladder. It has no data here: it can be lowered and planned, not run."""

    @cached_property
    def family(self) -> Grug:
        """The model behind its interface."""
        return grug(self.plan.family, self.plan.rung, self.plan.sections["model"], end=END_OF_TEXT)

    @cached_property
    def trainer(self) -> Trainer:
        """Levanter's trainer at the published precision."""
        rung = self.plan.rung
        self.layout.require_dividing(self.plan.family, rung)
        config = TrainerConfig(
            id=self.plan.stage,
            seed=self.seed,
            mp=jmp.get_policy(PRECISION),
            train_batch_size=rung.batch_sequences,
            num_train_steps=rung.steps,
            require_accelerator=False,
            load_checkpoint=False,
        )
        built = optimizer(self.plan.sections["training"], rung, self.plan.family.schedule).build(rung.steps)
        return laid_out(config, built, self)


def laid_out(config: TrainerConfig, optimizer: Any, engine: LaidOutEngine) -> Trainer:
    """A trainer like ``config`` on the mesh of ``engine``."""
    from levanter.tracker.tracker import NoopConfig

    told = {field.name: getattr(config, field.name) for field in dataclasses.fields(TrainerConfig)}
    own = LaidOut(
        **{
            **told,
            "mesh": mesh_config(engine.layout, engine.plan.rung),
            "tracker": NoopConfig(),
            "layout": engine.layout,
        }
    )
    return Trainer(own, optimizer, engine.family.loss, add_default_hooks=False)


def published_plan(name: str) -> Plan:
    """The plan of a published rung. Raises ``Refused`` for an unknown name."""
    shape = SHAPES.get(name)
    if shape is None:
        raise Refused(f"No rung {name!r} was published.", remedy=f"Published are: {', '.join(SHAPES)}.")
    rung = derive(FAMILY, shape)
    sections: Mapping[str, Mapping[str, Json]] = {
        "determinism": DETERMINISM,
        "model": PUBLISHED,
        "order": {"seed": 0},
        "training": TRAINING,
    }
    return Plan(
        stage=f"published/{name}",
        parent=None,
        first_step=0,
        last_step=rung.steps,
        family=FAMILY,
        rung=rung,
        sections=sections,
        declared={},
        reason="",
    )
