"""Planning a launch: from a name to everything that a bundle has to say.

Data and parent are named by digest: as recorded where there is a record, else as they lie here. A published rung has
no data here; its bundle names what it lacks, and can be planned and lowered, not run. What is asked is looked at first,
then this checkout. Refuses uncommitted code, windows that begin where no checkpoint is on record, and a local launch of
what has no data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from shlex import quote
from typing import Final

from registry.core import launchtold
from registry.core.adopted.shelf import Shelf
from registry.core.canonical import Json
from registry.core.digests import Digest
from registry.core.family import Family
from registry.core.ladder import Rung, Shape, derive
from registry.core.launch import (
    NODE_DEVICES,
    OBJECTS_PER_NODE,
    RACK_NODES,
    STATE_BYTES_PER_PARAMETER,
    Cluster,
    Forecast,
    Launch,
    Quotas,
    Target,
    Window,
    environment,
    local_cluster,
    rack_cluster,
)
from registry.core.ledger import Ledger
from registry.core.names import Name
from registry.core.program import Asked, Lowered
from registry.core.published import FAMILY, RACKS, SHAPES
from registry.core.records import Revision
from registry.core.resolving import artifact, root_of
from registry.errors import Refused, UnknownName
from registry.observing import LOCK, Workshop

_PERMANENT_STEPS: Final = 6000
_FILES_OF_A_CHECKPOINT: Final = 2
# Objects that a worker's shards of a small state take at most, as counted.
OBJECTS_PER_WORKER: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked: a run by name, where it shall start, and how much of it.

    ``window`` are steps (after the first, up to the last), None for all. ``processes`` is for a local launch,
    ``devices`` for a cluster.
    """

    name: str
    target: Target
    processes: int = 1
    devices: int | None = None
    resume_processes: int | None = None
    window: tuple[int, int] | None = None
    quotas: Quotas = field(default_factory=Quotas)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planner:
    """Plans launches. ``lower`` lowers what is launched, if it is to be; ``origin`` is where code is fetched."""

    workshop: Workshop
    ledger: Ledger
    shelf: Shelf
    params: Mapping[str, object]
    revision: Revision
    origin: str | None
    lower: Callable[[Asked], Lowered] | None

    def plan(self, request: Request) -> Launch:
        """The launch that is asked for. Raises ``Refused`` for one that cannot be."""
        published = request.name in SHAPES
        if published and request.target is Target.LOCAL:
            raise Refused(f"{request.name} has no data here, so it cannot run here.", remedy="Plan it for a cluster.")
        stage = f"published/{request.name}" if published else self._stage(request.name)
        rung, every = self._rung(stage)
        platform = self._platform(request.target, published)
        cluster = self._cluster(request, published, platform)
        self._require_spread(request, rung, cluster)
        window = self._window(stage, rung, every, request.window)
        if self.revision.dirty:
            raise Refused("There are changes that no commit holds.", remedy="Commit them: a bundle names a commit.")
        whole = not published and (window.first, window.last) == self._bounds(stage, rung)
        recorded = whole and cluster.devices == 1 and request.resume_processes in (None, 1)
        lowered = self._lowered(request.name if published else stage, platform, cluster)
        foreign = launchtold.published(self.shelf, rung.hidden) if published else None
        return Launch(
            name=request.name,
            stage=stage,
            target=request.target,
            commit=self.revision.commit,
            origin=self.origin,
            lock=self.workshop.digest(LOCK).hex,
            platform=platform,
            cluster=cluster,
            window=window,
            environment=environment(platform),
            inputs=() if published else tuple(self._inputs(stage)),
            parent=None if published else self._parent(stage, window),
            lacking=tuple(launchtold.lacking(self.shelf, foreign, window.first)) if published else (),
            told=tuple(launchtold.checkpoints(foreign)),
            retention=_retention(published, window),
            forecast=_forecast(rung, window, _written(request, recorded, cluster.processes), lowered),
            quotas=request.quotas,
            program=None if lowered is None else str(lowered.digest),
            resume_processes=request.resume_processes,
            recorded=recorded,
        )

    def _stage(self, name: str) -> str:
        stage = name if "/" in name else f"rung/{name}"
        if stage not in self.workshop.pipeline.stages() or not stage.startswith(("rung/", "hero/")):
            raise UnknownName(
                f"{name} is no rung and no segment.", remedy=f"Published are {', '.join(SHAPES)}; see 'reckon status'."
            )
        return stage

    def _rung(self, stage: str) -> tuple[Rung, int]:
        """The derived figures, and how often a checkpoint stays."""
        kind, _, name = stage.partition("/")
        if kind == "published":
            return derive(FAMILY, SHAPES[name]), _PERMANENT_STEPS
        rungs = self._section("rungs")
        shape = self._section("hero") if kind == "hero" else rungs.get(name)
        training = self._section("training").get("keep_every_steps")
        if not isinstance(shape, Mapping) or not isinstance(training, int):
            raise Refused(f"params.yaml has no shape for {stage}.", remedy="Compare it with its committed version.")
        return derive(Family.from_settings(self._section("family")), Shape.from_settings(shape)), training

    def _section(self, name: str) -> Mapping[str, Json]:
        found = self.params.get(name)
        if not isinstance(found, Mapping):
            raise Refused(f"params.yaml has no section {name}.", remedy="Compare it with its committed version.")
        return found

    def _platform(self, target: Target, published: bool) -> str:
        """Of the published runs, CUDA; else as the settings have it, but for a local launch, which is of CPUs."""
        if target is Target.LOCAL:
            return "cpu"
        return "cuda" if published else str(self._section("determinism").get("platform", "cpu"))

    def _cluster(self, request: Request, published: bool, platform: str) -> Cluster:
        if request.target is Target.LOCAL:
            return local_cluster(request.processes)
        if published:
            return rack_cluster(request.devices or RACKS[request.name] * RACK_NODES * NODE_DEVICES)
        if platform != "cpu":
            return rack_cluster(request.devices or NODE_DEVICES)
        return local_cluster(request.devices or request.processes)

    def _require_spread(self, request: Request, rung: Rung, cluster: Cluster) -> None:
        """Raise ``Refused`` where a batch or the experts cannot be spread, also over those that resume."""
        family = FAMILY if request.name in SHAPES else Family.from_settings(self._section("family"))
        for laid in (cluster, local_cluster(request.resume_processes or 1)):
            laid.require_dividing(rung.batch_sequences, family.routed_experts)

    def _window(self, stage: str, rung: Rung, every: int, asked: tuple[int, int] | None) -> Window:
        first, last = asked or self._bounds(stage, rung)
        if last > rung.steps:
            raise Refused(f"{stage} has {rung.steps} steps, not {last}.", remedy="Ask for fewer.")
        return Window(first=first, last=last, keep_every=every)

    def _bounds(self, stage: str, rung: Rung) -> tuple[int, int]:
        """First and last step of a whole stage: of a segment as the settings have it."""
        kind, _, number = stage.partition("/")
        if kind != "hero":
            return 0, rung.steps
        segment = self._section("segments").get(number)
        if not isinstance(segment, Mapping):
            raise Refused(f"The hero has no segment {number}.", remedy="See segments in params.yaml.")
        parent, last = segment.get("parent"), segment.get("last_step")
        first = 0 if parent is None else Name.parse(str(parent)).step or 0
        return first, last if isinstance(last, int) else rung.steps

    def _inputs(self, stage: str) -> Iterator[Mapping[str, Json]]:
        """Data by digest: as the newest execution's recipe has it, else as it lies here."""
        held = self.ledger.head(stage)
        recipe = None if held is None else self.ledger.recipes.get(held[1].recipe)
        recorded = {} if recipe is None else {one.path: one.digest for one in recipe.inputs}
        for path in self.workshop.spec(stage).inputs:
            producer = self.workshop.producer(path)
            digest = recorded.get(path) or self.workshop.digest(path)
            yield _pulled(producer or path, path, digest, recorded=path in recorded)

    def _parent(self, stage: str, window: Window) -> Mapping[str, Json] | None:
        if window.first == 0:
            return None
        segment = self._section("segments").get(stage.partition("/")[2]) if stage.startswith("hero/") else None
        declared = segment.get("parent") if isinstance(segment, Mapping) else None
        own = f"{stage}@step-{window.first}"
        name = str(declared) if declared and Name.parse(str(declared)).step == window.first else own
        held = artifact(self.ledger, Name.parse(name))
        root = root_of(held.output)
        told = _pulled(name, held.output.path, held.output.digest, recorded=True)
        return {**told, "step": window.first, "root": None if root is None else str(root)}

    def _lowered(self, name: str, platform: str, cluster: Cluster) -> Lowered | None:
        if self.lower is None:
            return None
        sizes = tuple(cluster.mesh[axis] for axis in ("replica_dcn", "data", "expert", "model"))
        return self.lower(Asked(name=name, platform=platform, devices=cluster.devices, mesh=sizes))


def _pulled(name: str, path: str, digest: Digest, *, recorded: bool) -> dict[str, Json]:
    stage = name.partition("@")[0]
    verify = f"reckon verify {quote(name)}" if recorded else f"test -e {quote(path)}"
    pull = f"reckon pull {quote(f'dvc:{stage}')}" if recorded else f"dvc pull {quote(path)}"
    return {"name": name, "path": path, "digest": str(digest), "pull": pull, "verify": verify}


def _forecast(rung: Rung, window: Window, written: tuple[int, int], lowered: Lowered | None) -> Forecast:
    size, held = (None if lowered is None else lowered.facts.get(name) for name in ("state_bytes", "device_bytes"))
    copies, objects = written
    return Forecast(
        checkpoint_bytes=size if isinstance(size, int) else rung.total_parameters * STATE_BYTES_PER_PARAMETER,
        kept=window.kept,
        checkpoint_objects=objects,
        steps=window.last - window.first,
        exact=isinstance(size, int),
        copies=copies,
        device_bytes=_whole(held),
    )


def _written(request: Request, recorded: bool, processes: int) -> tuple[int, int]:
    """How often a state is written, and in how many objects in all.

    A stage writes it once, a published run its shards alone. A worker writes it whole and as shards, and a local launch
    has a reference that does the same.
    """
    if recorded:
        return 1, _FILES_OF_A_CHECKPOINT
    if request.name in SHAPES:
        return 1, OBJECTS_PER_NODE * processes
    runs = 2 if request.target is Target.LOCAL else 1
    return 2 * runs, runs * (_FILES_OF_A_CHECKPOINT + OBJECTS_PER_WORKER * processes)


def _whole(held: object) -> Mapping[str, int] | None:
    """Whole numbers by name; None when it is nothing of the kind."""
    return None if not isinstance(held, Mapping) else {str(name): int(size) for name, size in held.items()}


def _retention(published: bool, window: Window) -> str:
    often = f"every {window.keep_every} steps and at the end a checkpoint stays"
    note = (
        "; the public run lost its hand-overs in a clean-up: give each the class 'handoff' at once" if published else ""
    )
    return f"{often} (reckon gc keeps what is reached, and never the last copy away){note}"
