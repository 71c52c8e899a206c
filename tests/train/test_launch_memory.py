"""What a device holds of the published runs on their published numbers of devices."""

from __future__ import annotations

import jax
import pytest

from registry.core.published import RACKS, SHAPES
from registry.errors import Refused
from train.launch_layout import PublishedEngine, published_plan
from train.launch_memory import DeviceBytes, device_bytes
from train.launch_mesh import AXES, RACK_DEVICES, SINGLE, Layout, published_layout

pytestmark = pytest.mark.slow

# Of a GB200, in GB, and the largest part of it that a run's own arrays may take.
MEMORY, MOST = 186, 0.65


def held(engine: PublishedEngine, layout: Layout) -> DeviceBytes:
    trainer, sizes = engine.trainer, dict(zip(AXES, layout.sizes, strict=True))
    return device_bytes(engine.template, trainer.parameter_axis_mapping, sizes, trainer.mp.compute_dtype)


def test_every_published_rung_fits_its_devices_and_the_hero_no_fewer() -> None:
    found = {}
    for name in SHAPES:
        layout = published_layout(RACKS[name] * RACK_DEVICES, rack_devices=RACK_DEVICES)
        engine = PublishedEngine(published_plan(name), layout=layout)
        found[name] = held(engine, layout)
        found[name].require_within(round(MEMORY * MOST))
    hero, state = found["d6144"], jax.tree.leaves(engine.template)
    alone = held(engine, SINGLE)
    assert alone.parameters + alone.optimizer == sum(leaf.size * leaf.dtype.itemsize for leaf in state)
    experts = engine.template.model.layers.stacked.moe.experts
    own = sum(leaf.size for leaf in jax.tree.leaves(experts)) // 64
    # Parameter and momentum of its six experts in float32, which eleven racks cannot divide; the rest is small beside.
    assert own * 8 < hero.parameters + hero.optimizer < own * 8 * 1.03
    assert hero.gradients == pytest.approx(hero.parameters, rel=1e-6)
    assert hero.working_copy * 2 == hero.gradients
    with pytest.raises(Refused, match=r"A device would hold 117\.\d GB \(parameters 33"):
        hero.require_within(100)
