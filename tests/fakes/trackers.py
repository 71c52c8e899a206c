"""A tracker in memory, under the same contract as the real ones."""

from __future__ import annotations

from dataclasses import dataclass, field

from registry.core.digests import Digest
from registry.core.history import Copy, Fidelity, History
from registry.core.pointers import PointedModel, Published
from registry.core.reports import ExecutionReport
from registry.errors import ReckonError, UnknownName


@dataclass
class FakeTracker:
    """Holds reports by execution and versions by product. ``broken`` is raised by every call while it is set."""

    system: str = "fake"
    uri: str = "http://tracker.example"
    broken: ReckonError | None = None
    reports: dict[Digest, ExecutionReport] = field(default_factory=dict)
    versions: dict[str, list[Digest]] = field(default_factory=dict)
    published: int = 0

    def publish(self, report: ExecutionReport) -> Published:
        self._answer()
        self.published += 1
        held = self.reports.get(report.execution)
        if held is None or report.history is not None:
            self.reports[report.execution] = report
        if report.model is not None and report.model.product not in self.versions.setdefault(report.model.name, []):
            self.versions[report.model.name].append(report.model.product)
        return self._published(report.execution)

    def find(self, execution: Digest) -> Published | None:
        self._answer()
        return self._published(execution) if execution in self.reports else None

    def read_history(self, run_id: str) -> Copy:
        self._answer()
        for execution, report in self.reports.items():
            if run_id == f"run-{execution.hex}":
                return Copy(history=report.history or History.of([]), fidelity=Fidelity.BITS)
        raise UnknownName(f"There is no run {run_id}.")

    def facts(self, run_id: str) -> dict[str, str]:
        self._answer()
        for execution, report in self.reports.items():
            if run_id == f"run-{execution.hex}":
                return {"execution": str(execution), **{key: text for key, text in report.tags.items() if text}}
        raise UnknownName(f"There is no run {run_id}.")

    def _answer(self) -> None:
        if self.broken is not None:
            raise self.broken

    def _published(self, execution: Digest) -> Published:
        report = self.reports[execution]
        kept = sorted(report.checkpoints, key=lambda one: one.step)
        models = [
            PointedModel(checkpoint=one.name, model_id=f"m-{execution.hex}-{one.step}", name=None, version=None)
            for one in kept
        ]
        if report.model is not None and models:
            version = str(self.versions[report.model.name].index(report.model.product) + 1)
            models[-1] = PointedModel(
                checkpoint=models[-1].checkpoint,
                model_id=models[-1].model_id,
                name=report.model.name,
                version=version,
            )
        return Published(uri=self.uri, run_id=f"run-{execution.hex}", points=report.points, models=tuple(models))
