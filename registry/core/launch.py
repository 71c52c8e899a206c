"""Launches: what a run needs to be started again somewhere, as plain facts; nodes by rack, and what it will write.

Pure arithmetic over a rung and a cluster. Refuses layouts that are no whole number of nodes or racks, and windows that
the run does not have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import prod
from shlex import quote
from types import MappingProxyType
from typing import Final

from registry.core.canonical import Json
from registry.errors import Refused

RACK_NODES: Final = 16
RACK_SLOTS: Final = 18
NODE_DEVICES: Final = 4
# Matrices have parameters and a momentum in float32, the rest a second moment too: the least that a state takes.
STATE_BYTES_PER_PARAMETER: Final = 8
# Objects that a node's share of one checkpoint takes: 26,795 and 28,098 over 176 nodes were told, of which the larger.
OBJECTS_PER_NODE: Final = 160
# A line of a transcript, and a step's metrics in the history, at most.
STEP_BYTES: Final = 4096
# How long a start may take, how long nothing may move then, how long a process has to end, and how often it is started
# again; the same on every target.
WATCHDOG: Final[Mapping[str, int]] = MappingProxyType(
    {"start_seconds": 3600, "stall_seconds": 1800, "grace_seconds": 300, "restarts": 20}
)


class Target(StrEnum):
    """Where a bundle starts its run."""

    SLURM = "slurm"
    KUBERNETES = "kubernetes"
    LOCAL = "local"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Processes and their devices. A rack has ``RACK_SLOTS`` nodes, of which ``RACK_NODES`` are used."""

    processes: int
    devices_per_process: int
    mesh: Mapping[str, int]

    @property
    def devices(self) -> int:
        """All devices."""
        return self.processes * self.devices_per_process

    def require_dividing(self, batch_sequences: int, routed_experts: int) -> None:
        """Raise ``Refused`` unless sequences and experts can be spread evenly over the mesh."""
        over = prod(self.mesh[axis] for axis in ("replica_dcn", "data", "expert"))
        if batch_sequences % over:
            raise Refused(
                f"A batch of {batch_sequences} sequences cannot be spread over {over} devices.",
                remedy="Choose a number of processes or devices that divides the batch.",
            )
        if routed_experts % self.mesh["expert"]:
            raise Refused(
                f"{routed_experts} experts cannot be spread over {self.mesh['expert']} devices.",
                remedy="Choose a number of devices that divides them.",
            )

    def ranks(self) -> Iterator[tuple[int, int, int, range]]:
        """Process, rack, place in the rack, and the numbers of its devices in the mesh."""
        for process in range(self.processes):
            rack, place = divmod(process, RACK_NODES)
            first = process * self.devices_per_process
            yield process, rack, place, range(first, first + self.devices_per_process)

    def to_json(self) -> dict[str, Json]:
        return {
            "processes": self.processes,
            "devices_per_process": self.devices_per_process,
            "devices": self.devices,
            "mesh": dict(self.mesh),
            "ranks": [
                {"process": process, "rack": rack, "place": place, "devices": [places.start, places.stop - 1]}
                for process, rack, place, places in self.ranks()
            ],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The steps to run, in completed updates: after ``first`` up to ``last``; a checkpoint every ``keep_every``."""

    first: int
    last: int
    keep_every: int

    def __post_init__(self) -> None:
        if not 0 <= self.first < self.last or self.keep_every < 1:
            raise Refused(
                f"There is no window of steps {self.first} to {self.last}.", remedy="Give a step before the last one."
            )

    @property
    def kept(self) -> int:
        """Checkpoints that stay."""
        return (
            len(range(self.first // self.keep_every * self.keep_every + self.keep_every, self.last, self.keep_every))
            + 1
        )

    def to_json(self) -> dict[str, Json]:
        return {"first_step": self.first, "last_step": self.last, "keep_every_steps": self.keep_every}


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What a run will write: bytes of one checkpoint, checkpoints that stay, objects of one, and everything together.

    Beside those that stay, one more is there while it is written, and each is written ``copies`` times.
    ``device_bytes`` is what one device holds, by name, None where the program was not lowered.
    """

    checkpoint_bytes: int
    kept: int
    checkpoint_objects: int
    steps: int
    exact: bool
    copies: int = 1
    device_bytes: Mapping[str, int] | None = None

    @property
    def total_bytes(self) -> int:
        """At the fullest moment."""
        return self.checkpoint_bytes * self.copies * (self.kept + 1) + self.steps * STEP_BYTES

    @property
    def total_objects(self) -> int:
        """At the fullest moment."""
        return self.checkpoint_objects * (self.kept + 1) + 16

    def exceeded(self, quotas: Quotas) -> list[str]:
        """Which quotas the run would break, in words."""
        over = []
        for what, needed, allowed in (
            ("bytes", self.total_bytes, quotas.disk_bytes),
            ("objects", self.total_objects, quotas.objects),
        ):
            if allowed is not None and needed > allowed:
                over.append(f"The run needs {needed} {what}, but the quota is {allowed}.")
        return over

    def to_json(self) -> dict[str, Json]:
        return {
            "checkpoint_bytes": self.checkpoint_bytes,
            "checkpoints_kept": self.kept,
            "checkpoint_objects": self.checkpoint_objects,
            "total_bytes": self.total_bytes,
            "total_objects": self.total_objects,
            "exact": self.exact,
            "copies": self.copies,
            "device_bytes": None if self.device_bytes is None else dict(self.device_bytes),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    """What may be written; None where nobody said."""

    disk_bytes: int | None = None
    objects: int | None = None

    def to_json(self) -> dict[str, Json]:
        return {"disk_bytes": self.disk_bytes, "objects": self.objects}


_MODULES = {"rung": "train.rung", "hero": "train.segment"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A launch bundle's facts. ``inputs`` have name, path, digest and pull command; ``parent`` also step and root.

    ``lacking`` are inputs that nobody gave this archive: what, name, digest, why, and how one would be given. With any
    of them nothing starts. ``told`` is what others say of the run's checkpoints.
    ``program`` is the fingerprint of what will run, None when it was not lowered. ``recorded`` says whether the run is
    a stage of this archive as it stands: then the stage itself is started, and ``reckon record`` opens and closes it.
    """

    name: str
    stage: str
    target: Target
    commit: str
    origin: str | None
    lock: str
    platform: str
    cluster: Cluster
    window: Window
    environment: Mapping[str, str]
    inputs: tuple[Mapping[str, Json], ...]
    parent: Mapping[str, Json] | None
    lacking: tuple[Mapping[str, Json], ...]
    told: tuple[str, ...]
    retention: str
    forecast: Forecast
    quotas: Quotas
    program: str | None
    resume_processes: int | None
    recorded: bool

    @property
    def slug(self) -> str:
        """A name that schedulers take: lower-case letters, digits and dashes."""
        return re.sub(r"[^a-z0-9-]", "-", f"reckon-{self.stage}".lower())[:50].strip("-")

    @property
    def own_command(self) -> str:
        """What the pipeline runs as this stage; only a ``recorded`` launch is one."""
        kind, _, which = self.stage.partition("/")
        return f"python -m {_MODULES[kind]} {quote(which)}"

    @property
    def own_progress(self) -> str:
        """A pattern of the transcript that the stage writes while it runs."""
        return f"artifacts/scratch/{self.stage}/*/*/transcript.jsonl"

    def to_json(self) -> dict[str, Json]:
        return {
            "kind": "launch",
            "schema": 1,
            "name": self.name,
            "stage": self.stage,
            "target": self.target.value,
            "commit": self.commit,
            "origin": self.origin,
            "lock": self.lock,
            "platform": self.platform,
            "cluster": self.cluster.to_json(),
            "window": self.window.to_json(),
            "environment": dict(self.environment),
            "inputs": [dict(one) for one in self.inputs],
            "parent": None if self.parent is None else dict(self.parent),
            "lacking": [dict(one) for one in self.lacking],
            "told": list(self.told),
            "retention": self.retention,
            "forecast": self.forecast.to_json(),
            "quotas": self.quotas.to_json(),
            "program": self.program,
            "resume_processes": self.resume_processes,
            "recorded": self.recorded,
            "watchdog": dict(WATCHDOG),
        }


def rack_cluster(devices: int) -> Cluster:
    """A cluster of racks that share experts. Raises ``Refused`` for parts of nodes, or of a rack among several."""
    nodes, rest = divmod(devices, NODE_DEVICES)
    racks, over = divmod(nodes, RACK_NODES)
    if rest or nodes < 1 or (over and racks):
        raise Refused(
            f"{devices} devices are no whole racks of {RACK_NODES} nodes with {NODE_DEVICES} each.",
            remedy=f"Give a multiple of {RACK_NODES * NODE_DEVICES}, or part of one rack.",
        )
    expert = min(devices, RACK_NODES * NODE_DEVICES)
    mesh = {"replica_dcn": max(racks, 1), "data": 1, "expert": expert, "model": 1}
    return Cluster(processes=nodes, devices_per_process=NODE_DEVICES, mesh=mesh)


def local_cluster(processes: int) -> Cluster:
    """Processes with one device each, over which batches are spread."""
    return Cluster(
        processes=processes,
        devices_per_process=1,
        mesh={"replica_dcn": 1, "data": processes, "expert": 1, "model": 1},
    )


def environment(platform: str) -> dict[str, str]:
    """Flags of XLA and NCCL for a cluster's devices, and what keeps a run from asking the network."""
    common = {"HF_HUB_OFFLINE": "1", "WANDB_MODE": "offline", "PYTHONNOUSERSITE": "1", "TZ": "UTC"}
    if platform == "cpu":
        return {**common, "JAX_PLATFORMS": "cpu", "JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo"}
    return {
        **common,
        "JAX_PLATFORMS": "cuda",
        "RECKON_XLA_FLAGS": "--xla_gpu_deterministic_ops=true --xla_gpu_enable_latency_hiding_scheduler=true",
        "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.94",
        "NCCL_NVLS_ENABLE": "1",
        "NCCL_MNNVL_ENABLE": "1",
        "NCCL_CUMEM_ENABLE": "1",
        "NCCL_DEBUG": "WARN",
        "CUDA_DEVICE_MAX_CONNECTIONS": "1",
    }
