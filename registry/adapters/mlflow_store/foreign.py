"""Reading a run of an MLflow store that somebody else wrote: its parameters, tags, curves and how it ended.

Refuses to create a store where none is, and runs that were deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from registry.adapters.mlflow_store.client import Connection
from registry.core.canonical import Json
from registry.core.history import Copy, Fidelity, History
from registry.errors import UnknownName

_PRIVATE = ("mlflow.user", "mlflow.source.name", "mlflow.note.content", "mlflow.log-model.history")


def read_run(root: Path, uri: str | None, run_id: str) -> tuple[Copy, Mapping[str, Json]]:
    """The curves of a run, and its state, parameters and tags. Raises ``UnknownName`` when there is no such run."""
    at = Connection(root, uri)
    if at.untouched:
        raise UnknownName(f"There is no MLflow store here, so no run {run_id}.", remedy="Set MLFLOW_TRACKING_URI.")
    with at.reading():
        run = _run(at, run_id)
        if run.info.lifecycle_stage != "active":
            raise UnknownName(f"MLflow's run {run_id} was deleted.", remedy="Restore it there, then adopt it.")
        points = [
            (point.step, metric, point.value)
            for metric in sorted(run.data.metrics)
            for point in at.call("get_metric_history", run_id, metric)
        ]
    tags = {key: text for key, text in run.data.tags.items() if key not in _PRIVATE}
    commit = tags.get("mlflow.source.git.commit")
    facts: dict[str, Json] = {
        "state": str(run.info.status),
        "commit": commit or None,
        "param": dict(run.data.params),
        "tag": tags,
    }
    return Copy(history=History.of(points), fidelity=Fidelity.SQL), facts


def _run(at: Connection, run_id: str) -> Any:
    try:
        return at.call("get_run", run_id)
    except UnknownName as error:
        raise UnknownName(
            f"MLflow at {at.address} has no run {run_id[:80]!r}.",
            remedy="Name one by the id of 32 digits on its page, or set MLFLOW_TRACKING_URI to another store.",
        ) from error
