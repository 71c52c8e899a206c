"""MLflow: what it shows, that no kill leaves a duplicate or a half run, that waiting ends and secrets stay out."""

import json
import os
import re
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from fakes.archives import POINTS, ROOT, report
from fakes.mlflow_stores import STORE, DyingClient, Killed, place

from registry.adapters.mlflow_store import MlflowTracker
from registry.adapters.mlflow_store.client import Connection, connect
from registry.core.digests import sha256
from registry.core.history import History, compare
from registry.core.records import Outcome
from registry.errors import OutsideFailed, UnknownName, Unreachable

TWO = """
import sys
from pathlib import Path
from fakes.archives import report
from registry.adapters.mlflow_store import MlflowTracker
for attempt in (1, 2, 3):
    print(MlflowTracker(Path(sys.argv[1])).publish(report(attempt)).run_id)
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store with one complete, one failed and one interrupted execution."""
    root = place(tmp_path_factory.mktemp("store"))
    tracker = MlflowTracker(root)
    for attempt, outcome in enumerate(Outcome, start=1):
        tracker.publish(report(attempt, outcome))
    return root


@pytest.fixture
def client(store):
    return connect(f"sqlite:///{store / STORE}")


def run_of(client, told):
    """The one run of an execution, as MLflow's own client finds it."""
    experiment = client.get_experiment_by_name(f"reckon/{told.family}")
    (run,) = client.search_runs([experiment.experiment_id], f"tags.`reckon.execution` = '{told.execution}'")
    return client.get_run(run.info.run_id)


@pytest.mark.slow
def test_a_run_shows_settings_state_of_the_code_and_times(client):
    told = report()
    run = run_of(client, told)
    assert (run.info.status, run.info.start_time, run.info.end_time) == (
        "FINISHED",
        told.started_milliseconds,
        told.ended_milliseconds,
    )
    assert run.info.run_name == f"rung/d32 {told.attempt}"
    assert run.data.params["model.width"] == "32"
    assert run.data.params["determinism.NPROC"] == "2"
    tags = run.data.tags
    assert tags["reckon.complete"] == str(told.digest)
    assert tags["reckon.recipe"] == told.tags["recipe"]
    assert tags["reckon.product"] == told.tags["product"]
    assert (tags["reckon.dirty"], tags["reckon.commit"], tags["reckon.tree"]) == ("true", "c" * 40, "d" * 40)
    assert tags["mlflow.source.git.commit"] == "c" * 40
    assert tags["reckon.dvc.path"] == "artifacts/rung/d32"
    assert "authority" in tags["mlflow.note.content"]


@pytest.mark.slow
def test_a_long_parameter_is_cut_and_says_so(client):
    value = run_of(client, report()).data.params["long"]
    assert len(value) == 6000
    assert value.endswith(f"… (7000 characters, {sha256(b'x' * 7000)})")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("attempt", "outcome", "status"), [(2, Outcome.FAILED, "FAILED"), (3, Outcome.INTERRUPTED, "KILLED")]
)
def test_a_failure_is_shown_with_its_cause(client, attempt, outcome, status):
    run = run_of(client, report(attempt, outcome))
    assert run.info.status == status
    assert json.loads(run.data.tags["reckon.cause"])["error"] == "MemoryError"
    assert run.info.end_time >= run.info.start_time


@pytest.mark.slow
def test_metrics_have_their_steps(client):
    run = run_of(client, report())
    points = client.get_metric_history(run.info.run_id, "train/loss")
    assert [(one.step, one.value) for one in points] == [
        (step, value) for step, metric, value in POINTS if metric == "train/loss"
    ]


@pytest.mark.slow
def test_inputs_are_datasets_with_their_whole_digest(client):
    run = run_of(client, report())
    code, _ = sorted(run.inputs.dataset_inputs, key=lambda one: one.dataset.name)
    assert code.dataset.name == "tokens/code"
    assert sha256(b"code").hex.startswith(code.dataset.digest)
    assert json.loads(code.dataset.source) == {"path": "artifacts/tokens/code", "digest": str(sha256(b"code"))}
    assert {tag.key: tag.value for tag in code.tags}["mlflow.data.context"] == "input"


@pytest.mark.slow
def test_every_kept_checkpoint_is_a_logged_model_with_step_and_root(client):
    outputs = run_of(client, report()).outputs.model_outputs
    assert sorted(one.step for one in outputs) == [2, 4]
    for one in outputs:
        model = client.get_logged_model(one.model_id)
        assert str(model.status) == "READY"
        assert model.tags["reckon.root"] == ROOT
        assert model.tags["reckon.checkpoint"] == f"rung/d32@step-{one.step}"


@pytest.mark.slow
def test_the_product_is_a_version_with_an_alias_and_a_source_in_dvc(client):
    told = report()
    version = client.get_model_version_by_alias("rung-d32", "newest")
    assert version.source == f"dvc:///artifacts/rung/d32?product={told.model.product}"
    assert version.tags["reckon.product"] == str(told.model.product)
    assert version.run_id == run_of(client, told).info.run_id


@pytest.mark.slow
def test_a_kill_before_any_call_leaves_nothing_that_the_next_try_does_not_complete(tmp_path):
    client = connect(f"sqlite:///{place(tmp_path) / STORE}")
    whole = MlflowTracker(tmp_path, make=lambda uri: client)
    calls = 0
    killed = True
    while killed:
        told = report(tree=str(calls).encode())
        dying = DyingClient(client, calls)
        try:
            MlflowTracker(tmp_path, make=lambda uri, dying=dying: dying).publish(told)
            killed = False
        except Killed:
            calls += 1
        found = whole.find(told.execution)
        published = whole.publish(told)
        assert found in (None, published)
        check_one_whole_run(client, told, published)
        assert compare(told.history, whole.read_history(published.run_id).history) == ()
    assert calls > 15


def check_one_whole_run(client, told, published):
    run = run_of(client, told)
    assert run.info.run_id == published.run_id
    assert (run.info.status, published.points) == ("FINISHED", len(POINTS))
    assert run.data.tags["reckon.complete"] == str(told.digest)
    assert len(run.inputs.dataset_inputs) == 2
    assert sorted(one.step for one in run.outputs.model_outputs) == [2, 4]
    models = client.search_logged_models([run.info.experiment_id], f"source_run_id = '{run.info.run_id}'")
    assert sorted((one.tags["reckon.step"], str(one.status)) for one in models) == [("2", "READY"), ("4", "READY")]
    (version,) = client.search_model_versions(f"tag.`reckon.product` = '{told.model.product}'")
    assert published.models[-1].version == str(version.version)
    assert client.get_model_version_by_alias("rung-d32", "newest").version == version.version


@pytest.mark.slow
def test_a_second_run_of_an_execution_is_deleted(tmp_path):
    tracker = MlflowTracker(place(tmp_path))
    published = tracker.publish(report())
    client = connect(f"sqlite:///{tmp_path / STORE}")
    experiment = client.get_experiment_by_name("reckon/rung").experiment_id
    other = client.create_run(experiment, tags={"reckon.execution": str(report().execution)})
    assert tracker.publish(report()) == published
    assert client.get_run(other.info.run_id).info.lifecycle_stage == "deleted"


@pytest.mark.slow
def test_a_run_that_was_deleted_comes_back_as_a_new_one(tmp_path):
    tracker = MlflowTracker(place(tmp_path))
    first = tracker.publish(report())
    connect(f"sqlite:///{tmp_path / STORE}").delete_run(first.run_id)
    assert tracker.find(report().execution) is None
    with pytest.raises(UnknownName, match="deleted"):
        tracker.read_history(first.run_id)
    second = tracker.publish(report())
    assert second.run_id != first.run_id
    assert second.models[-1].version == "1"


@pytest.mark.slow
def test_tags_that_somebody_changed_are_not_believed(tmp_path):
    tracker = MlflowTracker(place(tmp_path))
    published = tracker.publish(report())
    client = connect(f"sqlite:///{tmp_path / STORE}")
    client.set_tag(published.run_id, "reckon.points", "many")
    client.set_logged_model_tags(published.models[0].model_id, {"reckon.step": "first"})
    found = tracker.find(report().execution)
    assert (found.run_id, found.points) == (published.run_id, 0)
    assert [one.checkpoint for one in found.models] == ["rung/d32@step-4"]


@pytest.mark.slow
def test_a_deleted_experiment_is_refused_with_what_to_do(tmp_path):
    tracker = MlflowTracker(place(tmp_path))
    tracker.publish(report())
    client = connect(f"sqlite:///{tmp_path / STORE}")
    client.delete_experiment(client.get_experiment_by_name("reckon/rung").experiment_id)
    with pytest.raises(OutsideFailed, match="was deleted") as caught:
        tracker.publish(report(2))
    assert "mlflow experiments restore" in caught.value.remedy


@pytest.mark.slow
def test_two_processes_at_once_make_one_run_for_each_execution(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", TWO, str(tmp_path)]
    running = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    told = [one.communicate(timeout=300)[0].split() for one in running]
    assert [one.returncode for one in running] == [0, 0]
    assert told[0] == told[1]
    assert len(set(told[0])) == 3
    client = connect(f"sqlite:///{tmp_path / STORE}")
    experiment = client.get_experiment_by_name("reckon/rung").experiment_id
    assert len(client.search_runs([experiment])) == 3
    assert len(client.search_logged_models([experiment])) == 6
    assert len(client.search_model_versions("name = 'rung-d32'")) == 1


@pytest.mark.slow
def test_a_locked_store_is_waited_for(tmp_path):
    tracker = MlflowTracker(place(tmp_path), make=lambda uri: Busy(connect(uri), 2))
    assert tracker.publish(report()).points == len(POINTS)


class Busy:
    """A client whose store is locked for the first calls."""

    def __init__(self, client, failures):
        self._client, self._failures = client, failures

    def __getattr__(self, method):
        if self._failures:
            self._failures -= 1
            raise OSError("database is locked")
        return getattr(self._client, method)


def test_what_mlflow_cannot_hold_is_refused_by_name(tmp_path):
    for name in ("loss%", "a//b", "../a", "x" * 251, ""):
        told = replace(report(), history=History.of([(0, name, 1.0)]))
        with pytest.raises(OutsideFailed, match=re.escape(repr(name))):
            MlflowTracker(tmp_path).publish(told)
    assert not (tmp_path / "artifacts").exists()


def test_reading_makes_no_store(tmp_path):
    assert MlflowTracker(tmp_path).find(report().execution) is None
    with pytest.raises(UnknownName):
        MlflowTracker(tmp_path).read_history("0" * 32)
    assert not (tmp_path / "artifacts").exists()


@pytest.mark.timeout(60)  # its client alone would try for minutes
def test_a_server_that_is_down_is_known_at_once_and_no_secret_is_told(tmp_path):
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
    tracker = MlflowTracker(tmp_path, f"http://someone:hunter2@127.0.0.1:{port}/x?token=hunter2")
    with pytest.raises(Unreachable) as caught:
        tracker.publish(report())
    assert f"http://127.0.0.1:{port}/x" in caught.value.message
    assert "hunter2" not in str(caught.value)
    assert "someone" not in str(caught.value)
    assert "reckon sync" in caught.value.remedy


@pytest.mark.slow
def test_a_server_that_never_answers_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "hunter2")
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        tracker = MlflowTracker(tmp_path, f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(Unreachable) as caught:
            tracker.publish(report())
    assert "hunter2" not in str(caught.value)


def test_an_address_that_is_none_is_a_failure_of_the_outside(tmp_path):
    for uri in ("http://user:hunter2@[bad", "http://host:port/", "https://"):
        with pytest.raises(OutsideFailed) as caught:
            MlflowTracker(tmp_path, uri).publish(report())
        assert "hunter2" not in str(caught.value)


class Hostile(BaseHTTPRequestHandler):
    """Answers every request with the bytes of the test."""

    said = b""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(self.said)))
        self.end_headers()
        self.wfile.write(self.said)

    do_POST = do_GET  # noqa: N815  # the name that the standard library calls

    def log_message(self, *arguments):
        pass


@pytest.mark.slow
@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"<html>",
        b"[]",
        b"null",
        b"{}",
        b'{"experiment":5}',
        b'{"experiment":{"experiment_id":"1","lifecycle_stage":"active"}}',
        b'{"experiment":{"experiment_id":"1","lifecycle_stage":"active"},"runs":[{}]}',
        b"\xff\xfe",
    ],
)
def test_a_server_that_speaks_something_else_is_a_failure_of_the_outside(tmp_path, said):
    handler = type("Answering", (Hostile,), {"said": said})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(OutsideFailed):
            MlflowTracker(tmp_path, f"http://127.0.0.1:{server.server_port}").publish(report())
        server.shutdown()


@pytest.mark.slow
def test_a_store_that_is_no_database_is_a_failure_of_the_outside(tmp_path):
    (tmp_path / STORE).parent.mkdir(parents=True)
    (tmp_path / STORE).write_bytes(b"not a database, but long enough to look like one" * 100)
    with pytest.raises(OutsideFailed) as caught:
        MlflowTracker(tmp_path).publish(report())
    assert str(tmp_path) not in str(caught.value)


@pytest.mark.slow
def test_a_store_of_another_schema_is_a_failure_of_the_outside(tmp_path):
    place(tmp_path)
    with closing(sqlite3.connect(tmp_path / STORE)) as database:
        database.execute("update alembic_version set version_num = '0123456789ab'")
        database.commit()
    with pytest.raises(OutsideFailed):
        MlflowTracker(tmp_path).publish(report())


def test_a_folder_that_cannot_be_written_is_a_failure_of_the_outside(tmp_path):
    (tmp_path / "artifacts").write_bytes(b"")
    with pytest.raises(OutsideFailed), Connection(tmp_path, None).writing():
        pass


@contextmanager
def server(folder: Path):
    """MLflow's own server on a free port, with its store in ``folder``."""
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    command = [
        *(sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"),
        *("--backend-store-uri", f"sqlite:///{folder / STORE}", "--artifacts-destination", str(folder / "served")),
    ]
    environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    log = (folder / "server.log").open("wb")
    with log, subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder) as running:
        try:
            wait_for(port, running)
            yield port
        finally:
            running.terminate()
            running.wait(30)


def wait_for(port: int, running: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 180
    while time.monotonic() < until and running.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.2)
    raise TimeoutError("MLflow's server did not start.")


@pytest.mark.slow
def test_over_http_everything_is_as_in_a_local_store_and_no_secret_is_returned(tmp_path):
    place(tmp_path)
    odd = [(0, "odd", -0.0), (1, "odd", float("nan")), (2, "odd", float("inf")), (3, "odd", 0.1)]
    told = replace(report(), history=History.of([*POINTS, *odd]))
    with server(tmp_path) as port:
        uri = f"http://someone:hunter2@127.0.0.1:{port}"
        published = MlflowTracker(tmp_path, uri).publish(told)
        assert published.uri == f"http://127.0.0.1:{port}"
        assert MlflowTracker(tmp_path, uri).publish(told) == published
        assert MlflowTracker(tmp_path, uri).find(told.execution) == published
        assert published.models[-1].version == "1"
        copy = MlflowTracker(tmp_path, uri).read_history(published.run_id)
        assert compare(told.history, copy.history, copy.fidelity) == ()
        with pytest.raises(UnknownName):
            MlflowTracker(tmp_path, uri).read_history("0" * 32)
