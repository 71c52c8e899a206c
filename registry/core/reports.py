"""What a tracker shows of one execution, gathered from the records.

Pure: records in, one flat report out, with texts instead of types. It knows no tracker's limits or names. The report is
a function of the records alone, so that publishing it again changes nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from registry.core.canonical import Json
from registry.core.codec import name_of
from registry.core.digests import Digest, record_digest
from registry.core.history import History
from registry.core.names import Name, dvc_stage
from registry.core.records import Execution, Input, Outcome, Output, Product, Recipe
from registry.errors import MalformedRecord

HISTORY_FILE: Final = "history.parquet"
_TRAINED = re.compile(r"(rung)/([a-z0-9._-]+)|(hero)/[0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetReport:
    """What the stage was given: its name, full digest, path in the repository, and counts of its contents."""

    name: str
    digest: Digest
    path: str
    profile: Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointReport:
    """A kept checkpoint after ``step`` completed updates, by its tensor root."""

    name: str
    step: int
    root: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReport:
    """The registered model that the product is a version of. ``path`` and ``locator`` are DVC's."""

    name: str
    product: Digest
    path: str
    locator: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionReport:
    """One execution as a tracker shows it. Times are milliseconds since 1970, UTC."""

    execution: Digest
    stage: str
    attempt: str
    outcome: Outcome
    started_milliseconds: int
    ended_milliseconds: int
    command: str
    note: str
    params: Mapping[str, str]
    tags: Mapping[str, str]
    datasets: tuple[DatasetReport, ...]
    checkpoints: tuple[CheckpointReport, ...]
    model: ModelReport | None
    history: History | None

    @property
    def family(self) -> str:
        """The kind of stage: ``rung`` of ``rung/d48``."""
        return self.stage.partition("/")[0]

    @property
    def points(self) -> int:
        """The number of metric values."""
        return 0 if self.history is None else self.history.points

    @property
    def digest(self) -> Digest:
        """SHA-256 of everything that the report says."""
        return record_digest(
            {
                "execution": str(self.execution),
                "times": [self.started_milliseconds, self.ended_milliseconds],
                "words": [self.stage, self.attempt, self.outcome.value, self.command, self.note],
                "params": self.params,
                "tags": self.tags,
                "datasets": [[one.name, str(one.digest), one.path, one.profile] for one in self.datasets],
                "checkpoints": [[one.name, one.step, one.root, one.path] for one in self.checkpoints],
                "model": None if self.model is None else [self.model.name, str(self.model.product), self.model.path],
                "history": None if self.history is None else str(self.history.digest),
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The records behind one report. ``producers`` are products that made the inputs, as far as they are known."""

    execution: Execution
    recipe: Recipe
    product: Product | None
    producers: Sequence[Product]


def report_of(told: Told, history: History | None) -> ExecutionReport:
    """Gather what a tracker shows. ``history`` is None where the execution has none or where it is not at hand.

    Raises ``MalformedRecord`` for a time that is none.
    """
    one = told.execution
    started = milliseconds(one.started)
    return ExecutionReport(
        execution=name_of(one),
        stage=one.stage,
        attempt=one.attempt,
        outcome=one.outcome,
        started_milliseconds=started,
        ended_milliseconds=started if one.ended is None else milliseconds(one.ended),
        command=" ".join(told.recipe.command),
        note=_note(one),
        params=dict(_params(told.recipe)),
        tags=dict(_tags(told)),
        datasets=tuple(_dataset(given, told.producers) for given in told.recipe.inputs),
        checkpoints=() if told.product is None else tuple(_checkpoints(told.product)),
        model=None if told.product is None else _model(told.product),
        history=history,
    )


def flat(value: Json, prefix: str = "") -> Iterator[tuple[str, str]]:
    """The leaves of a JSON value as (``a.b``, text); a list is one leaf, written as JSON."""
    if isinstance(value, Mapping) and (value or not prefix):
        for key in sorted(value):
            yield from flat(value[key], f"{prefix}.{key}" if prefix else key)
    elif isinstance(value, str):
        yield prefix, value
    else:
        yield prefix, _json(value)


def milliseconds(time: str) -> int:
    """Milliseconds since 1970 of an ISO 8601 time. Raises ``MalformedRecord`` when it is none or has no zone."""
    try:
        parsed = datetime.fromisoformat(time)
    except ValueError as error:
        raise MalformedRecord(f"{time!r} is not a time.") from error
    if parsed.tzinfo is None:
        raise MalformedRecord(f"The time {time!r} has no zone.")
    return int(parsed.timestamp() * 1000)


def _params(recipe: Recipe) -> Iterator[tuple[str, str]]:
    yield from flat(recipe.config)
    yield from flat(recipe.determinism, "determinism")


def _tags(told: Told) -> Iterator[tuple[str, str]]:
    one, product = told.execution, told.product
    yield "recipe", str(one.recipe)
    yield "product", "" if one.product is None else str(one.product)
    yield "stage", one.stage
    yield "attempt", one.attempt
    yield "outcome", one.outcome.value
    yield "commit", one.revision.commit
    yield "tree", one.revision.tree
    yield "dirty", str(one.revision.dirty).lower()
    yield "patch", "" if one.revision.patch is None else str(one.revision.patch)
    yield "dvc.stage", dvc_stage(one.stage)
    yield "environment", "" if one.environment is None else str(one.environment)
    yield "lock", str(told.recipe.lock)
    for name, fact in (("cause", one.cause), ("steps", one.steps), ("resumed", one.resumed), ("parent", one.parent)):
        yield name, "" if fact is None else _json(fact)
    yield "hypothesis", "" if one.hypothesis is None else _json(one.hypothesis)
    yield "host", _json(one.host)
    yield "incidents", _json(list(one.incidents))
    yield "trackers", _json(list(one.trackers))
    own = [out for out in product.outputs if "step" not in out.contents] if product is not None else []
    yield "dvc.path", " ".join(out.path for out in own)
    yield "dvc.locator", " ".join(out.locator or "-" for out in own)
    yield "outputs", _json([[out.name, str(out.digest), out.size_bytes, dict(out.contents)] for out in own])


def _note(one: Execution) -> str:
    """A few lines for a reader who opens the run in a tracker."""
    lines = [f"{one.stage}, attempt {one.attempt}: {one.outcome.value}."]
    if one.cause is not None:
        lines.append(f"Cause: {one.cause.get('error', 'unknown')}: {one.cause.get('message', '')}")
    if one.hypothesis is not None:
        lines.append(f"Hypothesis: {_json(one.hypothesis)}")
    lines.append("The record in manifests/ is the authority; this run is a copy of it.")
    return "\n\n".join(lines)


def _dataset(given: Input, producers: Sequence[Product]) -> DatasetReport:
    made = (out for product in producers for out in product.outputs)
    profile = next((out.contents for out in made if out.name == given.name and out.digest == given.digest), {})
    return DatasetReport(name=given.name, digest=given.digest, path=given.path, profile=profile)


def _checkpoints(product: Product) -> Iterator[CheckpointReport]:
    for out in product.outputs:
        step, root = _step(out), out.contents.get("tensors")
        if step is not None and isinstance(root, str):
            yield CheckpointReport(name=out.name, step=step, root=root, path=out.path)


def _step(out: Output) -> int | None:
    return Name.parse(out.name).step


def _model(product: Product) -> ModelReport | None:
    """Rungs have one registered model each, all segments of the hero share one."""
    match = _TRAINED.fullmatch(product.stage)
    if match is None or not product.outputs:
        return None
    first = product.outputs[0]
    name = match[3] or f"{match[1]}-{match[2]}"
    return ModelReport(name=name, product=name_of(product), path=first.path, locator=first.locator)


def _json(value: Json) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(", ", ": "), default=_plain)


def _plain(value: object) -> object:
    """Mappings and sequences of records are not always dict and list."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    raise TypeError(f"A {type(value).__name__} has no JSON form.")
