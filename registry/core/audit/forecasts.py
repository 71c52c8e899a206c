"""Forecasts and hypotheses: what was expected of a run, and that it was said before the run.

A run is a chain of segments. Its forecast must be sealed (on record under its digest), predict a segment of it, rest on
evaluations that the ladder's products hold, and be there before the first segment began: by the times of executions,
and by git where both were committed. A hypothesis is part of an execution; the commit that ran must hold it. Refuses a
forecast that nobody made before the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from registry.core import canonical
from registry.core.audit.code import DIRTY, PARAMS
from registry.core.audit.edges import Edge, Kind, Place, State
from registry.core.audit.evidence import EVALUATION, FORECAST, SUMMARY, Evidence, Node, Surveyed
from registry.core.digests import Digest
from registry.core.findings import Finding, Trouble
from registry.core.forecast import FittedRun, Forecast
from registry.core.lineage import Artifact, Role
from registry.core.pipeline import decimals
from registry.core.records import Execution
from registry.errors import ReckonError

_MOST = 100


@dataclass(frozen=True, slots=True)
class Run:
    """The segments of one run, the first one first."""

    members: tuple[Node, ...]

    @property
    def began(self) -> str | None:
        """When the first execution of it began."""
        return min((node.first_start for node in self.members if node.first_start is not None), default=None)

    def holder(self, forecast: object) -> Node:
        """The segment that a forecast predicts, else the first."""
        predicts = forecast.predicts if isinstance(forecast, Forecast) else None
        return next((node for node in self.members if node.product.stage == predicts), self.members[0])


def edges(evidence: Evidence) -> Iterator[Edge]:
    """The edges to the forecasts of every run of the lineage."""
    by_stage: dict[str, list[Node]] = {}
    for node in evidence.nodes.values():
        by_stage.setdefault(node.product.stage, []).append(node)
    for run in _runs(evidence):
        for digest, forecast in _predicting(run, evidence).items():
            place = Place(run.holder(forecast).label, Kind.FORECAST, digest.short)
            edge = _forecast(place, run, (digest, forecast), evidence)
            fitted = forecast.runs if isinstance(forecast, Forecast) else ()
            rests = [one for run in fitted for one in _rests(place, run, by_stage.get(run.name, ()), evidence)]
            yield place.edge(edge.state, edge.reason, [*edge.findings, *rests]) if rests else edge


def hypothesis(node: Node, evidence: Evidence) -> Iterator[Edge]:
    """The edge to the hypothesis of a product, if its executions or their commits state one."""
    place = Place(node.label, Kind.HYPOTHESIS)
    told = [one for _, one in node.executions[:_MOST] if one.hypothesis is not None]
    committed = {one.revision.commit: _committed(node, one, evidence) for _, one in node.executions[:_MOST]}
    if not told and not any(committed.values()):
        return
    findings = []
    for digest, one in node.executions[:_MOST]:
        held, said = committed[one.revision.commit], _plain(one.hypothesis)
        if held is not None and held != said and not one.revision.dirty:
            text = f"The execution {digest.short} states another hypothesis than its commit."
            findings.append(place.finding(Trouble.HYPOTHESIS, text, held, said))
    if any(one.revision.dirty for one in told):
        yield place.edge(State.CLAIMED, DIRTY, findings)
    elif None in committed.values():
        yield place.edge(State.CLAIMED, "stated in the execution; no commit was consulted", findings)
    else:
        yield place.edge(State.VERIFIED, "the commit that ran states it", findings)


def _runs(evidence: Evidence) -> Sequence[Run]:
    """The trained products of the lineage, segments of one run together, in the order of the chain."""
    parents = {node.digest: _parent(node, evidence) for node in evidence.nodes.values() if node.trained}
    depths: dict[Digest, tuple[Digest, int]] = {}
    members: dict[Digest, list[tuple[int, Node]]] = {}
    for digest in parents:
        chain: list[Digest] = []
        at: Digest | None = digest
        while at is not None and at not in depths:
            chain.append(at)
            at = parents.get(at)
        first, depth = depths[at] if at is not None else (chain[-1], -1)
        for one in reversed(chain):
            depth += 1
            depths[one] = (first, depth)
            members.setdefault(first, []).append((depth, evidence.nodes[one]))
    ordered = (sorted(found, key=lambda pair: (pair[0], pair[1].label)) for found in members.values())
    return [Run(tuple(node for _, node in found)) for found in ordered]


def _parent(node: Node, evidence: Evidence) -> Digest | None:
    sources = (link.source for link in node.links if link.role is Role.PARENT)
    products = (source.product for source in sources if isinstance(source, Artifact))
    return next((one for one in products if one in evidence.nodes and evidence.nodes[one].trained), None)


def _predicting(run: Run, evidence: Evidence) -> Mapping[Digest, Forecast | ReckonError | None]:
    """Forecasts that were given to the run; without any, all on record that name it. None: given and not on record."""
    given: dict[Digest, Forecast | ReckonError | None] = {}
    for node in run.members:
        for link in node.links:
            source = link.source
            maker = evidence.nodes.get(source.product) if isinstance(source, Artifact) else None
            digest = _sealed(maker, evidence) if maker is not None else None
            if digest is not None:
                given[digest] = evidence.forecasts.get(digest)
    stages = {node.product.stage for node in run.members}
    named = {
        digest: one
        for digest, one in evidence.forecasts.items()
        if isinstance(one, Forecast) and one.predicts in stages
    }
    return given or named


def _sealed(maker: Node, evidence: Evidence) -> Digest | None:
    found = (evidence.part(output, FORECAST) for output in maker.own)
    return next((digest for digest in found if digest is not None), None)


def _forecast(place: Place, run: Run, told: tuple[Digest, Forecast | ReckonError | None], evidence: Evidence) -> Edge:
    digest, forecast = told
    if not isinstance(forecast, Forecast):
        text = f"The forecast {digest.short} that the run was given is not sealed on record."
        text = f"{text[:-1]}: {forecast.message}" if forecast is not None else text
        return place.edge(State.CONTRADICTED, text, [place.finding(Trouble.FORECAST, text, digest)])
    findings = [
        *_predicts(place, run, forecast),
        *_before(place, run, digest, evidence),
    ]
    if _committed_before(run, digest, evidence):
        return place.edge(State.VERIFIED, "sealed in a commit that the run's own commit descends from", findings)
    return place.edge(State.CLAIMED, "sealed before the run by the times on record", findings)


def _predicts(place: Place, run: Run, forecast: Forecast) -> Iterator[Finding]:
    stages = sorted({node.product.stage for node in run.members})
    if forecast.predicts.partition("/")[0] not in {stage.partition("/")[0] for stage in stages}:
        text = f"The forecast predicts {forecast.predicts}, and was given to {', '.join(stages)}."
        yield place.finding(Trouble.FORECAST, text, forecast.predicts, ", ".join(stages))


def _before(place: Place, run: Run, digest: Digest, evidence: Evidence) -> Iterator[Finding]:
    made, began = evidence.sealed.get(digest), run.began
    if began is not None and (made is None or made > began):
        when = "no execution says when it was made" if made is None else f"it was made at {made}"
        text = f"The run began at {began}, before its forecast {digest.short}: {when}."
        yield place.finding(Trouble.FORECAST, text, made, began)
    sealing = _addition(evidence, f"manifests/forecasts/{digest.hex}.json")
    for execution, _ in (pair for node in run.members for pair in node.executions[:_MOST]):
        running = _addition(evidence, f"manifests/executions/{execution.hex}.json")
        if sealing and running and sealing != running and evidence.precedes(running, sealing):
            text = f"The forecast {digest.short} was committed in {sealing[:12]}, after the run in {running[:12]}."
            yield place.finding(Trouble.FORECAST, text, sealing, running)


def _committed_before(run: Run, digest: Digest, evidence: Evidence) -> bool:
    """Whether every commit that ran already held the forecast."""
    sealing = _addition(evidence, f"manifests/forecasts/{digest.hex}.json")
    commits = {revision.commit for node in run.members for revision in node.revisions[:_MOST]}
    return sealing is not None and all(evidence.precedes(sealing, commit) for commit in commits)


def _addition(evidence: Evidence, path: str) -> str | None:
    return None if evidence.additions is None else evidence.additions.get(path)


def _rests(place: Place, fitted: FittedRun, rungs: Iterable[Node], evidence: Evidence) -> Iterator[Finding]:
    """Evaluation and summary that a forecast rests on are those of the run on record."""
    rungs = list(rungs)
    for name, digest in ((EVALUATION, fitted.evaluation), (SUMMARY, fitted.summary)):
        held = {
            evidence.part(output, name) for node in rungs for output in node.own if _readable(output.digest, evidence)
        }
        if held and digest not in held:
            text = f"The forecast rests on another {name} of {fitted.name} than the one on record."
            yield place.finding(Trouble.FORECAST, text, digest, ", ".join(sorted(map(str, held))))


def _readable(tree: Digest, evidence: Evidence) -> bool:
    return isinstance(evidence.surveyed.get(tree), Surveyed)


def _committed(node: Node, execution: Execution, evidence: Evidence) -> str | None:
    """What the commit's settings expect of the stage, as canonical text; None when no commit was consulted."""
    try:
        data = None if evidence.git is None else evidence.git.content(execution.revision.commit, PARAMS)
        params = None if data is None else evidence.settings(data)
        stated = params.get("hypotheses") if isinstance(params, Mapping) else None
        if params is None:
            return None
        return _plain(decimals(stated.get(node.product.stage) if isinstance(stated, Mapping) else None))
    except ReckonError:
        return None


def _plain(value: canonical.Json) -> str:
    return "" if value is None else canonical.encode(value).decode()
