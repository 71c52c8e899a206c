"""The writing side of a hub: what a token may do, what errors say, and that nothing waits or leaks."""

from __future__ import annotations

import io

import pytest
import requests

from registry.adapters.hub_push import HubRepository, _Counted, _session
from registry.core.publications import Place
from registry.core.pushing import Busy, Overtaken
from registry.errors import OutsideFailed, Refused

TOKEN = "hf_secretsecretsecret"


@pytest.fixture
def repository(client_at) -> HubRepository:
    client_at("http://127.0.0.1:9")
    return HubRepository(Place(endpoint="http://127.0.0.1:9", repository="lab/pocket"), TOKEN)


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
def test_a_token_writes_where_its_scope_says(repository, monkeypatch, token, writes):
    told = {"name": "someone", "auth": {"accessToken": token}}
    monkeypatch.setattr(repository._api, "whoami", lambda: told)
    assert repository.access().writes is writes


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (429, Busy), (500, Busy), (503, Busy), (409, Overtaken), (412, Overtaken), (401, Refused), (403, Refused),
        (404, OutsideFailed), (413, OutsideFailed), (507, OutsideFailed),
    ],
)  # fmt: skip
def test_an_answer_becomes_an_error_without_the_token(repository, monkeypatch, status, kind):
    answer = requests.Response()
    answer.status_code = status
    answer.headers["X-Error-Message"] = f"no, {TOKEN}, at http://u:p@hub.example/x?signature=abc"
    answer.headers["Retry-After"] = "7"

    def fail(*_arguments: object, **_named: object) -> None:
        raise RuntimeError(f"upload with {TOKEN} failed") from requests.HTTPError(response=answer)

    monkeypatch.setattr(repository._api, "create_tag", fail)
    with pytest.raises(kind) as failed:
        repository.tag("v1.0.0", "a" * 40, "text")
    assert type(failed.value) in (kind, *kind.__subclasses__())
    assert not {TOKEN, "signature", "u:p"} & {word for word in (TOKEN, "signature", "u:p") if word in str(failed.value)}
    if kind is Busy:
        assert failed.value.wait_seconds == 7


def test_no_connection_is_busy_and_a_bad_card_is_not(repository, monkeypatch):
    with pytest.raises(Busy, match="the connection failed"):
        repository.access()

    def fail(*_arguments: object, **_named: object) -> None:
        raise ValueError(f"Invalid metadata in README.md. {TOKEN}")

    monkeypatch.setattr(repository._api, "create_tag", fail)
    with pytest.raises(OutsideFailed, match=r"Invalid metadata in README\.md\. <secret>"):
        repository.tag("v1.0.0", "a" * 40, "text")


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
