"""What MLflow does not know: damage where a run was told to this store, nothing where it ran in another checkout."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from fakes.trackers import FakeTracker
from support.executions import ONE

from registry.core.codec import record_bytes
from registry.core.digests import Digest, sha256
from registry.core.ledger import Ledger
from registry.core.pointers import Pointers, Published, pointer_to
from registry.workflows.witnesses import WitnessReader

EMBEDDED, SERVER = "sqlite:///artifacts/mlflow/mlflow.db", "https://mlflow.example"
EXECUTION = sha256(record_bytes(ONE))


def read(tracker: FakeTracker, uri: str, *, here: bool):
    """What the reader says of one execution, whose pointer names a run at ``uri``."""
    published = Published(uri=uri, run_id=f"run-{EXECUTION.hex}", points=0, models=())
    reader = WitnessReader(
        tracker=tracker,
        pointers=Pointers(readable=(pointer_to(EXECUTION, tracker.system, published, ONE.started),)),
        ran_here=lambda execution: here and execution == ONE,
        curves=lambda *_: SimpleNamespace(compared=(), unread=()),
    )
    copies, told = reader.read(Ledger.build([("execution", EXECUTION, record_bytes(ONE))]), [EXECUTION])
    return [finding for found in copies.values() for copy in found for finding in copy.findings], told["mlflow"]


def test_a_foreign_run_that_the_embedded_store_does_not_know_is_no_contradiction() -> None:
    findings, told = read(FakeTracker(system="mlflow"), EMBEDDED, here=False)
    assert findings == []
    assert told == "not consulted: rung/d32 ran in another checkout, which has its own store"


@pytest.mark.parametrize(("uri", "here"), [(EMBEDDED, True), (SERVER, True), (SERVER, False)])
def test_a_run_that_was_told_to_this_store_and_is_gone_is_one(uri: str, here: bool) -> None:
    [finding], told = read(FakeTracker(system="mlflow"), uri, here=here)
    assert "There is no run" in finding.text
    assert told == "consulted"


def test_a_run_that_the_store_knows_is_read_wherever_it_ran() -> None:
    [*differing], _ = read(known(EXECUTION), EMBEDDED, here=False)
    assert {finding.part for finding in differing} >= {"commit", "product"}, "its tags are held against the record"


def known(execution: Digest) -> FakeTracker:
    tracker = FakeTracker(system="mlflow")
    tracker.reports[execution] = SimpleNamespace(tags={"commit": "e" * 40}, history=None)  # type: ignore[assignment]
    return tracker
