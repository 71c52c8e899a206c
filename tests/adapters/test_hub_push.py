"""The writing side of a hub: what a token may do, what errors say, and that nothing waits or leaks."""

from __future__ import annotations

import io
import json

import pytest
import requests
from support.liar import Liar

from registry.adapters.hub_push import HubRepository, _Counted, _session
from registry.core.publications import Place
from registry.core.pushing import Busy, Change, Overtaken
from registry.errors import OutsideFailed, Refused

TOKEN = "hf_secretsecretsecret"
COMMIT = "a" * 40


@pytest.fixture
def repository(client_at) -> HubRepository:
    client_at("http://127.0.0.1:9")
    return HubRepository(Place(endpoint="http://127.0.0.1:9", repository="lab/pocket"), TOKEN)


def at(liar: Liar) -> HubRepository:
    return HubRepository(Place(endpoint=liar.endpoint, repository="lab/pocket"), TOKEN)


def fine(name: str, *rights: str, **more: object) -> dict:
    return {
        "role": "fineGrained",
        "fineGrained": {"scoped": [{"entity": {"name": name}, "permissions": rights}], **more},
    }


@pytest.mark.parametrize(
    ("token", "writes"),
    [
        ({"role": "write"}, True),
        ({"role": "read"}, False),
        ({}, False),
        (fine("lab/pocket", "repo.content.read", "repo.write"), True),
        (fine("lab", "repo.write"), True),
        (fine("lab", "repo.content.read"), False),
        (fine("lab/other", "repo.write"), False),
        (fine("else", **{"global": ["repo.write"]}), True),
        ({"role": "fineGrained", "fineGrained": {"scoped": ["odd", {"entity": None}]}}, False),
    ],
)
def test_a_token_writes_where_its_scope_says(liar, token, writes):
    liar.json("/api/whoami-v2", {"name": "someone", "auth": {"accessToken": token}})
    assert at(liar).access().writes is writes


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (429, Busy), (500, Busy), (503, Busy), (409, Overtaken), (412, Overtaken), (401, Refused), (403, Refused),
        (404, OutsideFailed), (413, OutsideFailed), (507, OutsideFailed),
    ],
)  # fmt: skip
def test_an_answer_becomes_an_error_without_the_token(liar, status, kind):
    message = f"no, {TOKEN}, at http://u:p@hub.example/x?signature=abc"
    liar.answers[f"/api/models/lab/pocket/tag/{COMMIT}"] = (
        status,
        {"X-Error-Message": message, "Retry-After": "7"},
        b"",
    )
    with pytest.raises(kind) as failed:
        at(liar).tag("v1.0.0", COMMIT, "text")
    assert type(failed.value) in (kind, *kind.__subclasses__())
    assert not [word for word in (TOKEN, "signature", "u:p") if word in str(failed.value)]
    if kind is Busy:
        assert failed.value.wait_seconds == 7


def test_no_connection_is_busy_and_a_bad_card_is_not(repository, liar):
    with pytest.raises(Busy, match=r"^The hub at http://127\.0\.0\.1:9 cannot be reached, .* HF_ENDPOINT"):
        repository.access()
    liar.json(
        "/api/models/lab/pocket/preupload/main",
        {"files": [{"path": "README.md", "uploadMode": "regular", "shouldIgnore": False, "oid": None}]},
    )
    errors = json.dumps({"errors": [{"message": f"licence {TOKEN} is none"}], "warnings": []}).encode()
    liar.answers["/api/validate-yaml"] = (400, {"Content-Type": "application/json"}, errors)
    change = Change(branch="main", parent=COMMIT, title="A release", added={"README.md": b"---\nlicense: x\n---\n"})
    with pytest.raises(OutsideFailed, match=r"(?s)Invalid metadata in README\.md.*<secret>"):
        at(liar).commit(change, lambda _: None)
    assert "/api/models/lab/pocket/commit/main" not in [path.partition("?")[0] for path, _ in liar.seen]


def test_every_request_has_an_end(client_at, monkeypatch):
    client_at("http://127.0.0.1:9")
    waited = []
    monkeypatch.setattr(
        requests.adapters.HTTPAdapter,
        "send",
        lambda *_, **named: waited.append(named["timeout"]) or requests.Response(),
    )
    session = _session()
    for timeout in (None, 3):
        session.get("http://127.0.0.1:9/x", timeout=timeout)
    assert waited == [(15.0, 600.0), 3]


def test_what_is_sent_twice_counts_once(tmp_path):
    (tmp_path / "weights").write_bytes(bytes(1000))
    told: list[int] = []
    with _Counted(tmp_path / "weights", told.append) as file:
        file.read()  # hashed
        file.seek(0)
        file.counts = True
        file.read(600)
        file.seek(0, io.SEEK_SET)
        file.read(700)
        assert (sum(told), file.rest) == (700, 300)
