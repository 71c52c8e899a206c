"""The whole step of training as a program: model, loss, gradients, optimizer and shardings, lowered from shapes alone.

``python -m train.program NAME [--platform P] [--devices N] [--mesh R,D,E,M] [--device-memory GB] --output FILE`` writes
StableHLO in MLIR's generic form, and one line of JSON with what it was lowered for to stdout. NAME is a rung (``d48``),
a segment (``hero/2``) or a published rung (``d6144``), which has its published number of devices by default. No
parameter is made and no data read, so a model of any size fits. It is lowered *for* the platform, on this machine's
processor. Refuses unknown names and meshes that cannot hold the run.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import resource
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.core.canonical import Json
from registry.core.published import RACKS, SHAPES
from registry.errors import ReckonError, Refused
from train.determinism import LIBRARIES, Determinism
from train.launch_mesh import AXES, DETERMINISM, RACK_DEVICES, SINGLE, Layout, published_layout
from train.plan import Plan, rung_plan, segment_plan

if TYPE_CHECKING:
    from train.engine import Engine
    from train.launch_memory import DeviceBytes


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is to be lowered, and for what: None leaves it to the run."""

    name: str
    platform: str | None
    devices: int | None
    mesh: tuple[int, ...] | None
    device_gigabytes: int | None

    @property
    def published(self) -> bool:
        """Whether it is a rung of the published ladder."""
        return self.name in SHAPES


def main(arguments: list[str]) -> None:
    """Lower what the arguments name."""
    began = time.monotonic()
    try:
        asked, output = _asked(arguments)
        facts = lower(asked, output)
    except ReckonError as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(error.exit_code) from error
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    told = {**facts, "elapsed_milliseconds": round((time.monotonic() - began) * 1000), "peak_bytes": peak}
    sys.stdout.write(json.dumps(told, sort_keys=True) + "\n")


def lower(asked: Asked, output: Path) -> dict[str, Json]:
    """Lower a step and write it to ``output``; returns what it was lowered for.

    Raises ``Refused`` for a name or mesh that cannot be, and when JAX was imported before.
    """
    own = None if asked.published else _own_plan(asked.name)
    settings = Determinism.from_settings(DETERMINISM if own is None else own.sections["determinism"])
    devices = asked.devices or (RACKS[asked.name] * RACK_DEVICES if asked.published else settings.devices)
    layout = _layout(asked, devices)
    dataclasses.replace(settings, platform="cpu", devices=devices).apply()
    engine = _engine(asked.name, own, layout)
    platform = asked.platform or settings.platform
    held = _held(engine)
    if asked.device_gigabytes is not None:
        held.require_within(asked.device_gigabytes)
    told, text = lowered(engine, platform)
    output.write_text(text, encoding="utf-8")
    return {
        "name": asked.name,
        "stage": engine.plan.stage,
        "platform": platform,
        "devices": devices,
        **told,
        "device_bytes": held.to_json(),
        "batch_sequences": engine.plan.rung.batch_sequences,
        "libraries": {name: version(name) for name in LIBRARIES},
    }


def lowered(engine: Engine, platform: str) -> tuple[dict[str, Json], str]:
    """Mesh and sizes of ``engine``, and its step as a program: MLIR's generic form, with where it was written."""
    import haliax as hax
    import jax
    import jax.numpy as jnp

    with engine.mesh():
        trainer = engine.trainer
        axes = (hax.Axis("batch", engine.plan.rung.batch_sequences), engine.family.Pos)
        tokens = hax.NamedArray(jax.ShapeDtypeStruct(tuple(axis.size for axis in axes), jnp.int32), axes)
        state = _placed(engine.template, trainer.parameter_axis_mapping, trainer.device_mesh)
        batch = _placed(tokens, trainer.compute_axis_mapping, trainer.device_mesh)
        traced = jax.jit(engine.step, donate_argnums=0).trace(state, batch)
        module = traced.lower(lowering_platforms=(platform,)).compiler_ir("stablehlo")
        sizes: dict[str, Json] = _sizes(state)
        mesh: dict[str, Json] = {str(axis): int(size) for axis, size in trainer.device_mesh.shape.items()}
    return {"mesh": mesh, **sizes}, module.operation.get_asm(enable_debug_info=True, print_generic_op_form=True)


def _held(engine: Engine) -> DeviceBytes:
    """What one device holds of the engine's state."""
    from train.launch_memory import device_bytes

    trainer = engine.trainer
    sizes = {str(axis): int(size) for axis, size in trainer.device_mesh.shape.items()}
    return device_bytes(engine.template, trainer.parameter_axis_mapping, sizes, trainer.mp.compute_dtype)


def _sizes(state: Any) -> dict[str, Json]:
    """Bytes of a training state, all of it and the part that one device holds."""
    import math

    import jax

    leaves = jax.tree.leaves(state)
    each = [math.prod(one.sharding.shard_shape(one.shape)) * one.dtype.itemsize for one in leaves]
    return {"state_bytes": sum(one.size * one.dtype.itemsize for one in leaves), "state_bytes_per_device": sum(each)}


def _placed(tree: Any, mapping: Any, mesh: Any) -> Any:
    """Shapes with the shardings that arrays of these axes get. What has no axes lies on every device."""
    import jax
    from haliax.partitioning import pspec_for_axis
    from haliax.util import is_named_array
    from jax.sharding import NamedSharding, PartitionSpec

    def place(leaf: Any) -> Any:
        spec = pspec_for_axis(leaf.axes, mapping) if is_named_array(leaf) else PartitionSpec()
        sharding = NamedSharding(mesh, spec)
        # An array that was made or restored has a settled type, whatever the rule that it was made by.
        return jax.tree.map(lambda one: jax.ShapeDtypeStruct(one.shape, one.dtype, sharding=sharding), leaf)

    return jax.tree.map(place, tree, is_leaf=is_named_array)


def _own_plan(name: str) -> Plan:
    kind, _, number = name.partition("/")
    return segment_plan(number) if kind == "hero" and number else rung_plan(name.removeprefix("rung/"))


def _layout(asked: Asked, devices: int) -> Layout | None:
    """The mesh that was asked for, or that a published rung has. None: as the stage itself lays its devices out."""
    if asked.mesh is not None:
        layout = Layout.of(dict(zip(AXES, asked.mesh, strict=True)))
    elif asked.published:
        layout = published_layout(devices, rack_devices=RACK_DEVICES)
    else:
        return None
    if layout.devices != devices:
        raise Refused(f"The mesh {layout.sizes} uses {layout.devices} devices, not {devices}.")
    return layout


def _engine(name: str, own: Plan | None, layout: Layout | None) -> Engine:
    """The engine whose step is lowered: of this archive's ladder if it has a plan of its own, else a published one."""
    if layout is None and own is not None:
        from train.engine import Engine

        return Engine(own)
    from train.launch_layout import LaidOutEngine, PublishedEngine, published_plan

    held = layout or SINGLE
    return PublishedEngine(published_plan(name), layout=held) if own is None else LaidOutEngine(own, layout=held)


def _asked(arguments: list[str]) -> tuple[Asked, Path]:
    parser = argparse.ArgumentParser(prog="python -m train.program", description="Lower a step of training.")
    parser.add_argument("name")
    parser.add_argument("--platform", choices=("cpu", "cuda"))
    parser.add_argument("--devices", type=int)
    parser.add_argument("--mesh", help="Sizes of replica_dcn,data,expert,model.")
    parser.add_argument("--device-memory", type=int, help="Of one device, in GB; what it cannot hold is refused.")
    parser.add_argument("--output", type=Path, required=True)
    read = parser.parse_args(arguments)
    sizes = None if read.mesh is None else read.mesh.split(",")
    if sizes is not None and (len(sizes) != len(AXES) or not all(size.isdecimal() for size in sizes)):
        raise Refused(f"--mesh is {read.mesh!r}, not four numbers.", remedy="Write it like 11,1,64,1.")
    if read.devices is not None and not 1 <= read.devices <= 2**14:
        raise Refused(f"{read.devices} is no number of devices.", remedy="Give 1 to 16384.")
    mesh = None if sizes is None else tuple(int(size) for size in sizes)
    asked = Asked(
        name=read.name,
        platform=read.platform,
        devices=read.devices,
        mesh=mesh,
        device_gigabytes=read.device_memory,
    )
    return asked, read.output


if __name__ == "__main__":
    main(sys.argv[1:])
