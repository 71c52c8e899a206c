"""Recording a stage: before it runs, what is asked; afterwards, every attempt and what came out.

A stage never vouches for itself. The outputs are hashed, opened and counted here; the run log only says who ran,
when, and how it ended. Order of writing: tables, product, environment, execution. The execution's presence is the
claim of completeness. Everything written is a function of the run log and of the bytes, so that recording twice, or
two recorders at once, write the same files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from registry.core import canonical, runlog
from registry.core.canonical import Json
from registry.core.codec import record_bytes
from registry.core.digests import Digest
from registry.core.forecast import Forecast, forecast_record
from registry.core.ledger import Ledger
from registry.core.names import dvc_stage
from registry.core.openings import Opening, opening_of
from registry.core.records import Environment, Execution, Outcome, Product, Recipe
from registry.core.runlog import RunLog
from registry.errors import DoesNotHold
from registry.observing import Workshop
from registry.ports import Attempts, Openings, RecordStore, TableStore

NOT_AS_DECLARED = "NotAsDeclared"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What one call of record wrote: the executions by digest, and the product if the stage came to one."""

    stage: str
    executions: tuple[tuple[Digest, Execution], ...]
    product: Product | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorder:
    """Records stages of one working tree."""

    workshop: Workshop
    records: RecordStore
    tables: TableStore
    attempts: Attempts
    openings: Openings

    def begin(self, stage: str, hypothesis: Mapping[str, Json] | None) -> Opening:
        """Write down what is asked before the stage runs. Raises ``Refused`` when an input or code file is missing."""
        recipe = self.workshop.recipe(stage)
        opening = Opening(
            stage=stage,
            time=self.workshop.host.now(),
            recipe=self.records.put(recipe.kind, record_bytes(recipe)),
            revision=self.workshop.repository.revision(),
            host=self.workshop.host.facts(),
            hypothesis=hypothesis,
        )
        self.openings.add(opening)
        return opening

    def record(self, stage: str, status: int, ledger: Ledger) -> Recorded:
        """Write one execution for every attempt that has none, and the product if the last attempt completed.

        ``status`` is the exit status of the stage's process. Raises ``DoesNotHold`` when a stage that says it is done
        left no complete run log, ran with other settings than declared, or saw its inputs or code change while it
        ran; its attempts are recorded as failed. An attempt before any opening was run by hand and is none of ours.
        """
        logs = [log for log in self.attempts.of_stage(stage) if not self.attempts.alive(log)]
        fresh = [log for log in logs if log.started.attempt not in ledger.attempts(stage) and self._opened(log)]
        done = fresh[-1] if status == 0 and fresh and _completed(fresh[-1]) else None
        earlier = [(log, _unfinished(log)) for log in fresh if log is not done]
        written = [self._execution(log, outcome, None, cause=self._strayed(log)) for log, outcome in earlier]
        if status == 0 and done is None:
            raise DoesNotHold(
                f"The stage {stage} ended with status 0 but left no complete run log that is not yet recorded.",
                remedy="Run it through 'dvc repro', or look into artifacts/runs/ for its last attempt.",
            )
        product = None
        if done is not None:
            product, execution = self._complete(done)
            written.append(execution)
        return Recorded(stage=stage, executions=tuple(written), product=product)

    def _complete(self, log: RunLog) -> tuple[Product, tuple[Digest, Execution]]:
        stage = log.started.stage
        opening = self._opening(log)
        complaint = self._strayed(log) or self._complaint(log, opening)
        if complaint is not None:
            self._execution(log, Outcome.FAILED, None, cause=complaint)
            remedy = f"Run 'dvc repro {dvc_stage(stage)}' again and leave its inputs alone."
            raise DoesNotHold(str(complaint["message"]), remedy=remedy)
        observed = self.workshop.product(stage, opening.recipe)
        for tree in observed.trees:
            self.tables.put_files(tree)
        for root in observed.roots:
            self.tables.put_leaves(root)
        digest = self.records.put(observed.product.kind, record_bytes(observed.product))
        self._seal(observed.product)
        return observed.product, self._execution(log, Outcome.COMPLETE, digest)

    def _seal(self, product: Product) -> None:
        """Keep a forecast that came out as a record, so that it cannot change after the run that it predicts."""
        if product.stage == Forecast.KIND:
            data = self.workshop.disk.read(f"{product.outputs[0].path}/forecast.json")
            self.records.put(Forecast.KIND, record_bytes(forecast_record(data)))

    def _complaint(self, log: RunLog, opening: Opening) -> Mapping[str, Json] | None:
        """Why a completed attempt is no attempt of its recipe any more, or None."""
        stage = log.started.stage
        recipe = self.workshop.recipe(stage)
        told = log.started.determinism
        differing = sorted(key for key, value in recipe.determinism.items() if told.get(key) != value)
        if self.records.put(recipe.kind, record_bytes(recipe)) != opening.recipe:
            message = f"The inputs, settings or code of {stage} changed while it ran."
        elif differing:
            message = f"The stage {stage} ran with other determinism settings than declared: {', '.join(differing)}."
        else:
            return None
        return {"error": NOT_AS_DECLARED, "message": message}

    def _strayed(self, log: RunLog) -> Mapping[str, Json] | None:
        """The cause of failure of an attempt that ran with other settings than its opening asked for, or None."""
        asked = Recipe.from_json(canonical.decode(self.records.get(Recipe.KIND, self._opening(log).recipe)))
        if dict(log.started.settings) == dict(asked.config):
            return None
        message = f"The stage {log.started.stage} ran with other settings than dvc.yaml and params.yaml declare."
        return {"error": NOT_AS_DECLARED, "message": message}

    def _opened(self, log: RunLog) -> Opening | None:
        return opening_of(log.started.time, self.openings.of_stage(log.started.stage))

    def _opening(self, log: RunLog) -> Opening:
        opening = self._opened(log)
        if opening is None:
            raise DoesNotHold(
                f"The attempt {log.started.attempt} of {log.started.stage} was begun without 'reckon record --begin'.",
                remedy=f"Run 'dvc repro {dvc_stage(log.started.stage)}'.",
            )
        return opening

    def _execution(
        self, log: RunLog, outcome: Outcome, product: Digest | None, cause: Mapping[str, Json] | None = None
    ) -> tuple[Digest, Execution]:
        opening = self._opening(log)
        environment = self._environment(log)
        finished = log.finished
        execution = Execution(
            stage=log.started.stage,
            attempt=log.started.attempt,
            recipe=opening.recipe,
            product=product,
            outcome=outcome,
            cause=cause or _cause(log, outcome),
            steps=_steps(log),
            resumed=log.started.resumed,
            parent=log.started.parent,
            revision=opening.revision,
            host=opening.host,
            started=log.started.time,
            ended=None if finished is None else finished.time,
            environment=environment,
            trackers=tuple(_trackers(log)),
            incidents=tuple(_incidents(log)),
            hypothesis=opening.hypothesis,
        )
        return self.records.put(execution.kind, record_bytes(execution)), execution

    def _environment(self, log: RunLog) -> Digest | None:
        told = log.environment
        if told is None:
            return None
        record = Environment(
            python=told.python,
            platform=told.platform,
            accelerator=told.accelerator,
            distributions=told.distributions,
        )
        return self.records.put(record.kind, record_bytes(record))


def _completed(log: RunLog) -> bool:
    return log.finished is not None and log.finished.outcome is runlog.Outcome.COMPLETE


def _unfinished(log: RunLog) -> Outcome:
    """The outcome of an attempt whose outputs nobody observed: failed by its own word, else interrupted."""
    return Outcome.FAILED if log.finished is not None and not _completed(log) else Outcome.INTERRUPTED


def _cause(log: RunLog, outcome: Outcome) -> Mapping[str, Json] | None:
    if outcome is Outcome.COMPLETE:
        return None
    if log.finished is None:
        return {"error": "Interrupted", "message": "The process ended without a word."}
    if log.finished.cause is None:
        return {"error": "NotObserved", "message": "The stage completed, but its outputs were never recorded."}
    return log.finished.cause


def _steps(log: RunLog) -> Mapping[str, Json] | None:
    """First and last completed step of a training attempt, and for one that did not complete the step that is kept.

    None for a stage without steps.
    """
    if log.last_step is None:
        return None
    first = (log.started.resumed or log.started.parent or {"step": 0})["step"]
    steps = {"first": first, "reached": log.last_step}
    return steps if _completed(log) else {**steps, "kept": first if log.kept_step is None else log.kept_step}


def _trackers(log: RunLog) -> Iterator[Mapping[str, Json]]:
    for event in log.of(runlog.Tracker):
        yield {
            "system": event.system,
            "state": event.state.value,
            "run_id": event.run_id,
            "location": event.location,
            "reason": event.reason,
        }


def _incidents(log: RunLog) -> Iterator[Mapping[str, Json]]:
    for event in log.of(runlog.Incident):
        yield {
            "kind": event.incident,
            "first_step": event.first_step,
            "last_step": event.last_step,
            "text": event.text,
        }
