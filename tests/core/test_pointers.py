"""Pointer records: canonical, closed to secrets and machine paths, open to unknown fields."""

import pytest

from registry.core import canonical
from registry.core.codec import record_bytes
from registry.core.digests import sha256
from registry.core.pointers import (
    ELSEWHERE,
    PointedModel,
    Pointer,
    Pointers,
    PointerState,
    Published,
    pointer_failed,
    pointer_to,
    public_uri,
    scrubbed,
)
from registry.errors import MalformedRecord, UnknownName

EXECUTION = sha256(b"an execution")
MODEL = PointedModel(checkpoint="rung/d32@step-400", model_id="m-1", name="rung-d32", version="2")
PUBLISHED = Published(uri="sqlite:///artifacts/mlflow/mlflow.db", run_id="r1", points=12, models=(MODEL,))
TIME = "2026-01-02T03:04:05.000006Z"
OK = pointer_to(EXECUTION, "mlflow", PUBLISHED, TIME)
FAILED = pointer_failed(EXECUTION, "mlflow", "It does not answer.", TIME)


@pytest.mark.parametrize("pointer", [OK, FAILED])
def test_a_pointer_is_read_and_written_back_byte_for_byte(pointer):
    data = record_bytes(pointer)
    assert Pointer.from_json(canonical.decode(data)) == pointer
    assert record_bytes(Pointer.from_json(canonical.decode(data))) == data


def test_the_bytes_of_a_pointer_are_fixed():
    assert record_bytes(FAILED) == (
        b'{"execution":"' + str(EXECUTION).encode() + b'","kind":"pointer","models":[],"points":0,'
        b'"reason":"It does not answer.","run_id":null,"schema":1,"state":"failed","system":"mlflow",'
        b'"time":"2026-01-02T03:04:05.000006Z","uri":null}'
    )


def test_unknown_fields_are_kept_and_an_unknown_schema_is_refused():
    grown = {**OK.to_json(), "colour": "blue"}
    assert record_bytes(Pointer.from_json(grown)) == canonical.encode(grown)
    with pytest.raises(MalformedRecord, match="schema 2"):
        Pointer.from_json({**OK.to_json(), "schema": 2})


@pytest.mark.parametrize(
    "change",
    [
        {"reason": "why"},
        {"run_id": None},
        {"uri": None},
        {"state": "perhaps"},
        {"state": "failed"},
        {"uri": "http://user:secret@host/"},
        {"uri": "http://host/?token=1"},
        {"uri": "sqlite:////srv/me/mlflow.db"},
        {"points": -1},
        {"models": [{"checkpoint": "x"}]},
        {"models": [{**MODEL.to_json(), "more": 1}]},
    ],
)
def test_a_pointer_that_contradicts_itself_or_tells_too_much_is_refused(change):
    with pytest.raises(MalformedRecord):
        Pointer.from_json({**OK.to_json(), **change})


def test_published_is_what_an_ok_pointer_says():
    assert OK.published == PUBLISHED
    assert FAILED.published is None


@pytest.mark.parametrize(
    ("uri", "public"),
    [
        ("sqlite:////repo/artifacts/mlflow/mlflow.db", "sqlite:///artifacts/mlflow/mlflow.db"),
        ("sqlite:///artifacts/mlflow/mlflow.db", "sqlite:///artifacts/mlflow/mlflow.db"),
        ("sqlite:////srv/me/mlflow.db?key=secret", f"sqlite:///{ELSEWHERE}"),
        ("sqlite:////repo/../srv/me/mlflow.db", f"sqlite:///{ELSEWHERE}"),
        ("sqlite:////repository/x.db", f"sqlite:///{ELSEWHERE}"),
        ("/srv/me/mlruns", ELSEWHERE),
        ("/repo/mlruns", "mlruns"),
        ("file:///repo/mlruns", "file:mlruns"),
        ("file://localhost/srv/me", f"file:{ELSEWHERE}"),
        ("http://user:secret@host:5000/path?token=1#part", "http://host:5000/path"),
        ("HTTPS://user:secret@host", "https://host"),
        ("https://user:sec@ret@host", "https://host"),
        ("http://user:secret@[bad/x", "http://[bad/x"),
        ("http://[::1]:5000/?a#b", "http://[::1]:5000/"),
        ("//user:secret@host/x", ELSEWHERE),
        ("user:secret@host/x", "user"),
        ("postgresql+psycopg://user:se%40cret@db:5432/name?sslmode=x", "postgresql+psycopg://db:5432/name"),
        ("databricks://me", "databricks"),
        ("databricks", "databricks"),
    ],
)
def test_an_address_loses_secrets_and_machine_paths(uri, public):
    assert public_uri(uri, "/repo") == public
    assert public_uri(public) == public


def test_a_reason_is_scrubbed():
    said = (
        "API request to http://user:secret@host:5000/api?token=abc failed;\n '/srv/me/x.db', sqlite:////srv/a.db,"
        " file:///srv/b (/srv) x=/a/b and/or key hunter2"
    )
    assert scrubbed(said, ["hunter2", ""]) == (
        "API request to http://host:5000/api failed; '<path>', sqlite:<path> file:<path> (<path>) x=<path> and/or"
        " key <secret>"
    )
    assert len(scrubbed("x" * 10_000)) == 500
    assert pointer_failed(EXECUTION, "mlflow", "at http://u:p@h/", TIME).reason == "at http://h/"


def test_pointers_are_indexed_by_time_and_one_bad_record_hides_no_other():
    later = pointer_to(EXECUTION, "mlflow", PUBLISHED, "2026-02-02T03:04:05.000006Z")
    raw = [
        (sha256(b"1"), record_bytes(later)),
        (sha256(b"2"), record_bytes(FAILED)),
        (sha256(b"3"), b"{}"),
        (sha256(b"4"), UnknownName("It is gone.")),
    ]
    pointers = Pointers.build(raw)
    assert pointers.of(EXECUTION, "mlflow") == (FAILED, later)
    assert pointers.current(EXECUTION, "mlflow") == later
    assert pointers.current(EXECUTION, "wandb") is None
    assert Pointers.build(raw[1:2]).current(EXECUTION, "mlflow") is None
    assert [str(sha256(b"3")) in text or "gone" in text for text in pointers.damages] == [True, True]
    assert PointerState("ok") is PointerState.OK
