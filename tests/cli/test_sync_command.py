"""``reckon sync`` from the outside: exit statuses, JSON, and no secret in any record."""

import json
import socket
from contextlib import closing

import pytest
from fakes.archives import POINTS, STAGE, Archive
from fakes.mlflow_stores import place

from registry.cli import wiring
from registry.core.records import Outcome


@pytest.fixture
def archive(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    (tmp_path / "dvc.yaml").write_text("stages: {}\n", encoding="utf-8")
    (tmp_path / "params.yaml").write_text("{}\n", encoding="utf-8")
    return Archive(root=tmp_path)


@pytest.fixture
def down(monkeypatch):
    """MLflow's address is a port that nobody listens on, with a user and a password."""
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://someone:hunter2@127.0.0.1:{port}")
    return port


def written(archive):
    """All bytes of all pointer records."""
    folder = archive.root / "manifests/pointers"
    return b"".join(file.read_bytes() for file in folder.iterdir()) if folder.is_dir() else b""


def test_an_empty_archive_has_nothing_to_tell(archive, reckon):
    ended = reckon("sync")
    assert ended.status == 0
    assert "Nothing to tell" in ended.stdout


def test_a_tracker_that_is_down_ends_with_3_and_loses_nothing(archive, reckon, down):
    archive.execution(1)
    archive.execution(2)
    ended = reckon("sync", "--json")
    facts = json.loads(ended.stdout)
    assert (ended.status, facts["done"], facts["waiting"]) == (3, False, 1)
    assert "does not answer" in facts["synced"][0]["pointer"]["reason"]
    assert len(archive.pointers.readable) == 1
    assert "1 execution more not tried" in reckon("sync").stdout
    assert b"does not answer" in written(archive)
    for secret in (b"hunter2", b"someone", str(archive.root).encode()):
        assert secret not in written(archive)


def test_recording_goes_on_while_the_tracker_is_down(archive, down):
    said = []
    wiring.publish(archive.root, [archive.execution(1, Outcome.FAILED)], said.append)
    (line,) = said
    assert f"{STAGE} is recorded" in line
    assert "reckon sync" in line


def test_a_damaged_pointer_is_told_and_passed_over(archive, reckon, down):
    archive.execution(1)
    reckon("sync")
    (file,) = (archive.root / "manifests/pointers").iterdir()
    file.write_bytes(b"{}")
    ended = reckon("sync")
    assert ended.status == 3
    assert "cannot be read" in ended.stderr


def test_a_check_of_nothing_does_not_hold(archive, reckon):
    ended = reckon("sync", "--check")
    assert ended.status == 1
    assert "no history lies here" in ended.stdout


def test_an_unknown_name_is_refused(archive, reckon):
    archive.execution(1)
    ended = reckon("sync", "rung/d23")
    assert ended.status == 2
    assert STAGE in ended.stderr


@pytest.mark.slow
def test_mlflow_is_told_checked_and_rechecked(archive, reckon):
    place(archive.root)
    archive.execution(1)
    archive.execution(2, Outcome.INTERRUPTED)
    ended = reckon("sync", STAGE)
    assert ended.status == 0
    assert ended.stdout.count(STAGE) == 2
    assert json.loads(reckon("sync", "--json").stdout) == {"synced": [], "waiting": 0, "done": True}
    assert reckon("sync", "--recheck").status == 0
    assert {one.uri for one in archive.pointers.readable} == {"sqlite:///artifacts/mlflow/mlflow.db"}
    assert len(archive.pointers.readable) == 2
    assert str(archive.root).encode() not in written(archive)
    checked = reckon("sync", "--check", "--json")
    facts = json.loads(checked.stdout)
    assert (checked.status, facts["holds"]) == (0, True)
    assert [(one["system"], one["points"]) for one in facts["compared"]] == [
        ("history", len(POINTS)),
        ("mlflow", len(POINTS)),
    ]
    assert "Holds" in reckon("sync", "--check").stdout
