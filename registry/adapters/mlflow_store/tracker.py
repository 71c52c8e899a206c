"""Publishing executions: one run each with every point of its history, a model per checkpoint, a version per product.

Idempotent step by step: a run is found by its execution's digest, what it lacks is added, and the last thing written is
the tag that says it is complete. Texts over MLflow's limits are cut and say so. Refuses metric names that MLflow cannot
hold, since a point left out would be a lost point.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeVar

from registry.adapters.mlflow_store.client import FOLDER, Connection, connect
from registry.core.digests import Digest, sha256
from registry.core.history import Copy, Fidelity, History
from registry.core.pointers import PointedModel, Published
from registry.core.records import Outcome
from registry.core.reports import CheckpointReport, DatasetReport, ExecutionReport, ModelReport
from registry.errors import OutsideFailed, UnknownName

T = TypeVar("T")
EXPERIMENTS: Final = "reckon/"
ALIAS: Final = "newest"
PREFIX: Final = "reckon."
EXECUTION: Final = f"{PREFIX}execution"
COMPLETE: Final = f"{PREFIX}complete"
POINTS: Final = f"{PREFIX}points"
PRODUCT: Final = f"{PREFIX}product"
CHECKPOINT: Final = f"{PREFIX}checkpoint"
STEP: Final = f"{PREFIX}step"
LOCATOR: Final = f"{PREFIX}locator"
_STATUS = {Outcome.COMPLETE: "FINISHED", Outcome.FAILED: "FAILED", Outcome.INTERRUPTED: "KILLED"}
_KEY = re.compile(r"[/\w.\- :]{1,250}")
_LONGEST_PARAM, _LONGEST_TAG, _LONGEST_DIGEST = 6000, 5000, 36
_METRICS_A_CALL, _PAIRS_A_CALL = 1000, 100


class MlflowTracker:
    """An MLflow server or store. ``uri`` as in MLFLOW_TRACKING_URI; None is the repository's own store."""

    system: Final = "mlflow"

    def __init__(self, root: Path, uri: str | None = None, make: Callable[[str], Any] = connect) -> None:
        self._at = Connection(root, uri, make)

    def publish(self, report: ExecutionReport) -> Published:
        """Make MLflow hold one complete run of the execution. See ``registry.ports.Tracker``."""
        _check_names(report)
        with self._at.writing():
            experiment = self._experiment(report.family)
            run = self._run(experiment, report)
            told = run.data.tags.get(COMPLETE)
            if told is None or (told != str(report.digest) and report.history is not None):
                self._tell(report, experiment, run)
            return self._published(run.info.run_id)

    def find(self, execution: Digest) -> Published | None:
        """Where MLflow holds the complete run of an execution."""
        if self._at.untouched:
            return None
        with self._at.reading():
            found = self._at.call("search_experiments", filter_string=f"name LIKE '{EXPERIMENTS}%'")
            experiments = [one.experiment_id for one in found]
            runs = self._runs(experiments, execution) if experiments else []
            complete = [run for run in runs if COMPLETE in run.data.tags]
            return self._published(complete[0].info.run_id) if complete else None

    def read_history(self, run_id: str) -> Copy:
        """The history of a run, without what SQL cannot hold: the sign of zero and infinities."""
        if self._at.untouched:
            raise UnknownName(f"There is no MLflow store here, so no run {run_id}.", remedy="Run 'reckon sync'.")
        with self._at.reading():
            return Copy(history=History.of(self._points(self._live(run_id))), fidelity=Fidelity.SQL)

    def facts(self, run_id: str) -> Mapping[str, str]:
        """What the tags of a run say of its execution, by the names that the report gave them."""
        if self._at.untouched:
            raise UnknownName(f"There is no MLflow store here, so no run {run_id}.", remedy="Run 'reckon sync'.")
        with self._at.reading():
            tags = self._live(run_id).data.tags
            return {key.removeprefix(PREFIX): text for key, text in tags.items() if key.startswith(PREFIX)}

    def _tell(self, report: ExecutionReport, experiment: str, run: Any) -> None:
        run_id = run.info.run_id
        self._pairs(run_id, report)
        self._history(report, run)
        for some in _chunks(map(_dataset_input, report.datasets), _PAIRS_A_CALL):
            self._at.call("log_inputs", run_id, datasets=some)
        models = self._models(report, experiment, run_id)
        if report.model is not None and models:
            self._version(report.model, run_id, models[-1])
        self._at.call("set_terminated", run_id, _STATUS[report.outcome], end_time=report.ended_milliseconds)
        self._at.call("set_tag", run_id, COMPLETE, str(report.digest))

    def _experiment(self, family: str) -> str:
        name = f"{EXPERIMENTS}{family}"
        found = self._at.call("get_experiment_by_name", name)
        if found is None:
            location = str(self._at.root / FOLDER / "artifacts" / family) if self._at.own else None
            self._at.make("create_experiment", name, artifact_location=location)
            found = self._at.call("get_experiment_by_name", name)
        if found.lifecycle_stage != "active":
            remedy = f"Restore it: mlflow experiments restore --experiment-id {found.experiment_id}"
            raise OutsideFailed(f"The MLflow experiment {name!r} was deleted.", remedy=remedy)
        return str(found.experiment_id)

    def _run(self, experiment: str, report: ExecutionReport) -> Any:
        """The one run of the execution; others, of publishers elsewhere, are deleted."""
        runs = self._runs([experiment], report.execution)
        if not runs:
            self._at.call(
                "create_run",
                experiment,
                start_time=report.started_milliseconds,
                tags={EXECUTION: str(report.execution)},
                run_name=f"{report.stage} {report.attempt}",
            )
            runs = self._runs([experiment], report.execution)
        if not runs:
            raise OutsideFailed("MLflow made a run and does not find it.", remedy="Run 'reckon sync' again.")
        for other in runs[1:]:
            self._at.call("delete_run", other.info.run_id)
        return runs[0]

    def _runs(self, experiments: Sequence[str], execution: Digest) -> list[Any]:
        """Runs of the execution: complete ones first, then by run id, so that every publisher chooses the same."""
        wanted = f"tags.`{EXECUTION}` = '{execution}'"
        found = self._at.pages("search_runs", experiments, wanted)
        return sorted(found, key=lambda run: (COMPLETE not in run.data.tags, run.info.run_id))

    def _pairs(self, run_id: str, report: ExecutionReport) -> None:
        from mlflow.entities import Param, RunTag

        tags = {f"{PREFIX}{key}": value for key, value in report.tags.items() if value}
        tags[POINTS] = str(report.points)
        tags["mlflow.note.content"] = report.note
        tags["mlflow.source.name"] = report.command
        tags["mlflow.source.git.commit"] = report.tags.get("commit", "")
        params = [Param(key, _cut(value, _LONGEST_PARAM)) for key, value in sorted(report.params.items())]
        texts = [RunTag(key, _cut(value, _LONGEST_TAG)) for key, value in sorted(tags.items())]
        for some in _chunks(params, _PAIRS_A_CALL):
            self._at.call("log_batch", run_id, params=some)
        for some in _chunks(texts, _PAIRS_A_CALL):
            self._at.call("log_batch", run_id, tags=some)

    def _history(self, report: ExecutionReport, run: Any) -> None:
        """Every point that the run lacks. Its time is the start of the execution: a history has steps and no clock."""
        from mlflow.entities import Metric

        held = {(step, metric) for step, metric, _ in self._points(run)}
        ours = () if report.history is None else report.history
        missing = (
            Metric(metric, value, report.started_milliseconds, step)
            for step, metric, value in ours
            if (step, metric) not in held
        )
        for some in _chunks(missing, _METRICS_A_CALL):
            self._at.call("log_batch", run.info.run_id, metrics=some)

    def _points(self, run: Any) -> Iterator[tuple[int, str, float]]:
        for metric in sorted(run.data.metrics):
            for point in self._at.call("get_metric_history", run.info.run_id, metric):
                yield point.step, metric, point.value

    def _models(self, report: ExecutionReport, experiment: str, run_id: str) -> list[Any]:
        """One logged model per kept checkpoint, by step, each an output of the run."""
        from mlflow.entities import LoggedModelOutput

        held = self._logged(experiment, run_id)
        kept = sorted(report.checkpoints, key=lambda one: one.step)
        models = [held.get(one.name) or self._model(one, experiment, run_id) for one in kept]
        for model in models:
            if str(model.status) != "READY":
                self._at.call("finalize_logged_model", model.model_id, "READY")
        outputs = self._live(run_id).outputs
        linked = {one.model_id for one in outputs.model_outputs} if outputs else set()
        pairs = [(model.model_id, one.step) for one, model in zip(kept, models, strict=True)]
        missing = [LoggedModelOutput(model_id, step) for model_id, step in pairs if model_id not in linked]
        if missing:
            self._at.call("log_outputs", run_id, missing)
        return models

    def _model(self, checkpoint: CheckpointReport, experiment: str, run_id: str) -> Any:
        """Its bytes lie in DVC, so it is external to MLflow."""
        tags = {
            "mlflow.model.isExternal": "true",
            CHECKPOINT: checkpoint.name,
            STEP: str(checkpoint.step),
            f"{PREFIX}root": checkpoint.root,
            f"{PREFIX}path": checkpoint.path,
        }
        name = re.sub(r"[^a-z0-9]+", "-", checkpoint.name)
        return self._at.call("create_logged_model", experiment, name, run_id, tags, model_type="checkpoint")

    def _logged(self, experiment: str, run_id: str) -> dict[str, Any]:
        """The logged models of a run by the name of their checkpoint. One without our tags is somebody else's."""
        found = self._at.call("search_logged_models", [experiment], f"source_run_id = '{run_id}'", max_results=1000)
        return {one.tags[CHECKPOINT]: one for one in found if CHECKPOINT in one.tags and _whole(one.tags.get(STEP))}

    def _version(self, model: ModelReport, run_id: str, last: Any) -> None:
        """A version stands for a product: several executions that gave the same one share it."""
        self._at.make("create_registered_model", model.name)
        held = self._at.pages("search_model_versions", f"name = '{model.name}'")
        version = next((one for one in held if one.tags.get(PRODUCT) == str(model.product)), None)
        if version is None:
            tags = {PRODUCT: str(model.product), CHECKPOINT: last.tags[CHECKPOINT], LOCATOR: model.locator or "-"}
            source = f"dvc:///{model.path}?product={model.product}"
            version = self._at.call("create_model_version", model.name, source, run_id, tags, await_creation_for=0)
        if all(int(version.version) >= int(one.version) for one in held):
            self._at.call("set_registered_model_alias", model.name, ALIAS, version.version)

    def _published(self, run_id: str) -> Published:
        """What MLflow holds of a run, read back."""
        run = self._live(run_id)
        models = sorted(self._logged(run.info.experiment_id, run_id).values(), key=lambda one: int(one.tags[STEP]))
        product = run.data.tags.get(PRODUCT)
        wanted = f"tag.`{PRODUCT}` = '{product}'"
        found = self._at.pages("search_model_versions", wanted) if models and product else []
        versions = {one.tags.get(CHECKPOINT): one for one in found}
        return Published(
            uri=self._at.address,
            run_id=run_id,
            points=int(run.data.tags[POINTS]) if _whole(run.data.tags.get(POINTS)) else 0,
            models=tuple(_pointed(one, versions.get(one.tags[CHECKPOINT])) for one in models),
        )

    def _live(self, run_id: str) -> Any:
        run = self._at.call("get_run", run_id)
        if run.info.lifecycle_stage != "active":
            raise UnknownName(f"MLflow's run {run_id} was deleted.", remedy="See 'reckon sync --recheck'.")
        return run


def _pointed(model: Any, version: Any) -> PointedModel:
    return PointedModel(
        checkpoint=model.tags[CHECKPOINT],
        model_id=model.model_id,
        name=None if version is None else version.name,
        version=None if version is None else str(version.version),
    )


def _whole(text: str | None) -> bool:
    """Whether a tag holds a whole number; people can change tags."""
    return text is not None and re.fullmatch(r"[0-9]{1,15}", text) is not None


def _check_names(report: ExecutionReport) -> None:
    for name in (*report.params, *(report.history.series if report.history is not None else ())):
        if not _KEY.fullmatch(name) or posixpath.normpath(name) != name or name.startswith(("/", "..")):
            raise OutsideFailed(
                f"MLflow cannot hold a metric or parameter of the name {name!r}.",
                remedy="Use letters, digits, blanks and _ - . : / in its name.",
            )


def _cut(text: str, longest: int) -> str:
    """``text``, or as much of it as fits with the digest of the whole behind it."""
    if len(text) <= longest:
        return text
    tail = f"… ({len(text)} characters, {sha256(text.encode('utf-8', 'surrogatepass'))})"
    return text[: longest - len(tail)] + tail


def _dataset_input(given: DatasetReport) -> Any:
    """The input as MLflow holds it: a short digest as its key, the whole one and the path in the source."""
    from mlflow.data.meta_dataset import MetaDataset
    from mlflow.entities import Dataset, DatasetInput, InputTag

    source = _source_type()(given.path, str(given.digest))
    known = MetaDataset(source, name=given.name, digest=given.digest.hex[:_LONGEST_DIGEST]).to_dict()
    tags = [InputTag("mlflow.data.context", "input"), InputTag(f"{PREFIX}digest", str(given.digest))]
    return DatasetInput(Dataset(**known, profile=json.dumps(dict(given.profile), sort_keys=True)), tags)


@cache
def _source_type() -> Any:
    """MLflow's class for sources, extended; made late because importing MLflow takes seconds."""
    from mlflow.data.dataset_source import DatasetSource

    class RecordedSource(DatasetSource):  # type: ignore[misc]  # MLflow is Any
        """A file or folder that DVC tracks, by its recorded digest."""

        def __init__(self, path: str, digest: str) -> None:
            self._facts = {"path": path, "digest": digest}

        @staticmethod
        def _get_source_type() -> str:
            return "reckon"

        def load(self) -> Any:
            raise OutsideFailed("MLflow holds no bytes of it.", remedy=f"dvc pull {self._facts['path']}")

        @staticmethod
        def _can_resolve(raw_source: Any) -> bool:
            return False

        @classmethod
        def _resolve(cls, raw_source: Any) -> Any:
            raise OutsideFailed("A recorded source is made from a record, not from a path.")

        def to_dict(self) -> dict[Any, Any]:
            return self._facts

        @classmethod
        def from_dict(cls, source_dict: dict[Any, Any]) -> Any:
            return cls(source_dict["path"], source_dict["digest"])

    return RecordedSource


def _chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(items)
    while some := list(islice(rest, size)):
        yield some
