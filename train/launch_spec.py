"""A launch bundle's ``plan.json`` as the processes of the run read it. Imports no JAX. Refuses what is no plan."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from registry.errors import Refused
from train.launch_mesh import AXES, Layout
from train.plan import Plan, rung_plan, segment_plan

LARGEST_BYTES: Final = 16 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """What a process needs to know of its launch. Steps are completed updates."""

    facts: Mapping[str, Any]
    stage: str
    platform: str
    processes: int
    devices_per_process: int
    mesh: Mapping[str, int]
    first_step: int
    last_step: int

    @property
    def layout(self) -> Layout:
        """The mesh."""
        return Layout.of(self.mesh)

    @property
    def parent(self) -> Path | None:
        """The folder of the checkpoint that the window begins from; None for fresh parameters."""
        held = self.facts.get("parent")
        return None if held is None else Path(str(held["path"]))

    def plan(self) -> Plan:
        """The plan of the run. Raises ``Refused`` for a run that this archive has no data for."""
        kind, _, name = self.stage.partition("/")
        if kind == "hero":
            return segment_plan(name)
        if kind != "rung":
            raise Refused(f"{self.stage} has no data here: it can be planned, not run.")
        return rung_plan(name)


def read_spec(path: Path) -> Spec:
    """The launch in a ``plan.json``. Raises ``Refused`` when it is none."""
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise Refused(f"{path} is too large for a plan.")
        facts = json.loads(path.read_bytes())
        cluster, window = facts["cluster"], facts["window"]
        return Spec(
            facts=facts,
            stage=str(facts["stage"]),
            platform=str(facts["platform"]),
            processes=int(cluster["processes"]),
            devices_per_process=int(cluster["devices_per_process"]),
            mesh={axis: int(cluster["mesh"][axis]) for axis in AXES},
            first_step=int(window["first_step"]),
            last_step=int(window["last_step"]),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Refused(f"{path} is no launch plan: {error}.", remedy="Make it with 'reckon plan'.") from error
