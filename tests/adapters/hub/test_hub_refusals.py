"""Every byte of a request is hostile: tokens, names, addresses, sizes, cards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from huggingface_hub import CommitOperationAdd
from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError

from registry.adapters.hub_server import cards
from registry.adapters.hub_server.problems import Problem


@pytest.fixture(scope="module")
def made() -> list[str]:
    """The repository, once it is made."""
    return []


@pytest.fixture
def repo(hub, made) -> str:
    """A repository with a file, one for all tests here: what they ask for is refused."""
    if not made:
        made.append(hub.new_repo())
        hub.api().upload_file(repo_id=made[0], path_in_repo="x.txt", path_or_fileobj=b"text")
    return made[0]


WRITES = [
    ("POST", "/api/repos/create"),
    ("DELETE", "/api/repos/delete"),
    ("PUT", "/api/models/{repo}/settings"),
    ("POST", "/api/models/{repo}/preupload/main"),
    ("POST", "/api/models/{repo}/commit/main"),
    ("POST", "/api/models/{repo}/branch/b"),
    ("DELETE", "/api/models/{repo}/branch/b"),
    ("POST", "/api/models/{repo}/tag/main"),
    ("DELETE", "/api/models/{repo}/tag/t"),
    ("POST", "/{repo}.git/info/lfs/objects/verify"),
    ("POST", "/{repo}.git/info/lfs/objects/batch"),
]


@pytest.mark.parametrize(("method", "target"), WRITES)
def test_writing_needs_the_token_that_writes(hub, repo, method, target):
    body = json.dumps({"operation": "upload", "name": repo.partition("/")[2], "organization": "lab"}).encode()
    target = target.format(repo=repo)
    assert hub.request(method, target, body).status == 401
    assert hub.request(method, target, body, authorization=f"Bearer {hub.read_token}").status == 403
    for credentials in ("Bearer hf_guess", "Bearer ", f"Basic {hub.token}", hub.token, "Bearer \xff"):
        assert hub.request(method, target, body, authorization=credentials).status == 401
    assert hub.api().repo_exists(repo)
    assert len(hub.api().list_repo_refs(repo).branches) == 1


def test_a_wrong_token_is_told_even_where_none_is_needed(hub, repo):
    answer = hub.request("GET", f"/api/models/{repo}", authorization="Bearer hf_wrong")
    assert (answer.status, answer.headers["X-Error-Message"]) == (401, "Invalid credentials in Authorization header")


def test_a_private_repository_is_missing_to_those_without_a_token(hub):
    repo = hub.new_repo(private=True)
    hub.api().upload_file(repo_id=repo, path_in_repo="x.bin", path_or_fileobj=b"\0secret")
    reads = [f"/api/models/{repo}", f"/api/models/{repo}/refs", f"/api/models/{repo}/tree/main"]
    reads += [f"/{repo}/resolve/main/x.bin", f"/api/models/{repo}/commits/main"]
    for target in reads:
        answer = hub.request("GET", target)
        assert (answer.status, answer.headers["X-Error-Code"]) == (404, "RepoNotFound")
    with pytest.raises(RepositoryNotFoundError):
        hub.api("").hf_hub_download(repo, "x.bin")
    for token in (hub.token, hub.read_token):
        assert Path(hub.api(token).hf_hub_download(repo, "x.bin")).read_bytes() == b"\0secret"
        assert hub.api(token).model_info(repo).private


def test_a_large_file_is_not_to_be_had_by_its_digest_alone(hub):
    repo = hub.new_repo(private=True)
    hub.api().upload_file(repo_id=repo, path_in_repo="x.bin", path_or_fileobj=b"\0other secret")
    oid = hub.api().get_paths_info(repo, "x.bin")[0].lfs.sha256
    assert hub.request("GET", f"/lfs/content/{oid}").status == 403
    assert hub.request("GET", f"/lfs/content/{oid}?expires=9999999999&signature=00").status == 403
    assert hub.request("GET", f"/lfs/content/{oid}?expires=x&signature=%ff").status == 403


def test_tokens_are_for_their_owner_only(hub):
    for name in ("write", "read"):
        assert (hub.root / "tokens" / name).stat().st_mode & 0o777 == 0o600
    assert hub.token.startswith("hf_")
    assert hub.token != hub.read_token


@pytest.mark.parametrize(
    "name",
    [
        "..", ".", "a..b", "a--b", ".hidden", "x.git", "a/b", "a\\b", "a b", "a\0b", "", "x" * 97, "ä", "-x", "x-",
        "../../etc/passwd", "%2e%2e", "a\n", None, 7,
    ],
)  # fmt: skip
def test_no_name_leaves_the_folder(hub, name):
    for body in ({"name": name, "organization": "lab"}, {"name": "fine", "organization": name or "a/b"}):
        for method, action in (("POST", "create"), ("DELETE", "delete")):
            answer = hub.request(
                method, f"/api/repos/{action}", json.dumps(body).encode(), authorization=f"Bearer {hub.token}"
            )
            assert answer.status == 400, (body, answer.body)


@pytest.mark.parametrize("owner", ["api", "datasets", "models", "spaces", "lfs"])
def test_owners_that_addresses_use_are_reserved(hub, owner):
    with pytest.raises(HfHubHTTPError):
        hub.api().create_repo(f"{owner}/model")


def test_spaces_are_refused(hub):
    with pytest.raises(HfHubHTTPError, match="models and datasets"):
        hub.api().create_repo("lab/space", repo_type="space", space_sdk="static")


@pytest.mark.parametrize(
    "target",
    [
        "/{repo}/resolve/main/../../../../../../etc/passwd",
        "/{repo}/resolve/main/..%2f..%2f..%2f..%2fetc%2fpasswd",
        "/{repo}/resolve/..%2f..%2f..%2f/x.txt",
        "/{repo}/resolve/main/%2fetc%2fpasswd",
        "/{repo}/resolve/main/x.txt%00.bin",
        "/{repo}/resolve/main/%ff",
        "/{repo}/resolve/main/x.txt/",
        "/{repo}/resolve/main/x.txt/y",
        "/{repo}/resolve/main%00/x.txt",
        "/..%2f..%2ftokens/write/resolve/main/x",
        "/%2e%2e/%2e%2e/resolve/main/x",
        "/lab%2f..%2flab/x/resolve/main/x",
        "/tokens/write",
        "/../tokens/write",
        "/objects/",
        "/api/models/..%2f..%2ftokens/write",
        "/api/models/{repo}/tree/main/..%2f..",
        "/api/models/{repo}/tree/main?cursor=../../x",
        "/api/models/{repo}/tree/main?cursor={zero}.0",
        "/api/models/{repo}/revision/%2e%2e%2fconfig",
        "/lfs/content/..%2f..%2ftokens%2fwrite",
        "/lfs/objects/x/99999999999999999999999999",
        "/" + "a/" * 2000,
        "*",
    ],
)  # fmt: skip
def test_no_address_leaves_the_folder(hub, repo, target):
    answer = hub.request("GET", target.format(repo=repo, zero="0" * 40))
    assert answer.status in (400, 403, 404), (answer.status, answer.body)
    assert hub.token.encode() not in answer.body


@pytest.mark.parametrize("host", ["evil/../x", "a b", "", "x" * 300, "a:b:c", "user@host"])
def test_a_host_that_is_none_goes_into_no_address(hub, repo, host):
    hub.api().upload_file(repo_id=repo, path_in_repo="x.bin", path_or_fileobj=b"\0")
    assert hub.request("GET", f"/{repo}/resolve/main/x.bin", host=host).status == 400


@pytest.mark.parametrize("body", [b"{", b"[]", b"[" * 10_000_000, b"\xff", b"null", b'{"a":' * 5000, b"\0" * 9_000_000])
def test_no_body_breaks_the_hub(hub, body):
    answer = hub.request("POST", "/api/repos/create", body, authorization=f"Bearer {hub.token}")
    assert answer.status == (413 if len(body) > 8 * 2**20 else 400)


def test_a_form_that_is_none_is_refused(hub, repo):
    target = f"/api/models/{repo}/paths-info/main"
    assert hub.request("POST", target, "paths=ä".encode()).status == 400
    assert hub.request("POST", target, b"&".join([b"paths=x"] * 2000)).status == 400
    assert hub.request("POST", target, b"&".join([b"a=x"] * 20_000)).status == 400
    assert json.loads(hub.request("POST", target, b"paths=..%2f..&paths=%00&paths=").body) == []


def test_other_methods_and_pages_are_unknown(hub, repo):
    for method, target in (("GET", "/"), ("POST", "/"), ("PATCH", f"/api/models/{repo}"), ("GET", "/api/whoami")):
        assert hub.request(method, target).status == 404


ERRORS = {
    "an alias": "a: &x [1]\nb: *x",
    "deep nesting": "a: " + "[" * 60 + "]" * 60,
    "endless nesting": "a: " + "[" * 5_000,
    "a long block": "a: " + "x" * 200_000,
    "no mapping": "- a",
    "broken": "a: [",
    "a tag that runs code": "a: !!python/object/apply:os.system ['true']",
    "a long number": "a: 0x" + "f" * 400,
    "a longer number": "a: " + "9" * 6000,
}


@pytest.mark.parametrize("what", ERRORS)
def test_a_hostile_card_is_refused_with_a_reason(hub, repo, what):
    text = f"---\n{ERRORS[what]}\n---\n"
    answer = hub.request("POST", "/api/validate-yaml", json.dumps({"content": text, "repoType": "model"}).encode())
    assert answer.status == 400
    assert json.loads(answer.body)["errors"][0]["message"]
    with pytest.raises(Problem):
        cards.read_card(text)


def test_a_card_that_got_in_breaks_nothing(hub, repo):
    api = hub.api()
    api._validate_yaml = lambda *_, **__: None  # a client that does not ask first
    card = f"---\n{ERRORS['an alias']}\n---\n".encode()
    operation = CommitOperationAdd(path_in_repo="README.md", path_or_fileobj=card)
    api.create_commit(repo, [operation], commit_message="Card")
    assert api.model_info(repo).card_data is None


def test_what_json_cannot_say_is_said_otherwise(hub, repo):
    card = '---\nlicense: mit\ndate: 2024-01-02\nnan: .nan\nset: !!set {a}\n1: one\nhalf: "\\ud800"\n---\n'
    hub.api().upload_file(repo_id=repo, path_in_repo="README.md", path_or_fileobj=card.encode())
    found = json.loads(hub.request("GET", f"/api/models/{repo}").body)["cardData"]
    assert found["date"] == "2024-01-02"
    assert found["nan"] == "nan"
    assert found["1"] == "one"
    assert found["half"] == "?"


@pytest.mark.parametrize(
    ("block", "field"),
    [
        ("license: {}", "license"),
        ("tags: [1]", "tags"),
        ("datasets: 3", "datasets"),
        ("new_version: []", "new_version"),
    ],
)
def test_fields_of_a_wrong_type_are_errors(hub, block, field):
    body = json.dumps({"content": f"---\n{block}\n---\n"}).encode()
    answer = hub.request("POST", "/api/validate-yaml", body)
    assert answer.status == 400
    assert field in json.loads(answer.body)["errors"][0]["message"]


def test_the_client_hears_of_a_bad_card_before_it_sends_anything(hub, repo):
    hub.faults.clear()
    with pytest.raises(ValueError, match="alias"):
        hub.api().upload_file(
            repo_id=repo, path_in_repo="README.md", path_or_fileobj=f"---\n{ERRORS['an alias']}\n---\n".encode()
        )
    assert not hub.faults.seen("/commit/")
    with pytest.warns(UserWarning, match="empty or missing yaml"):
        hub.api().upload_file(repo_id=repo, path_in_repo="README.md", path_or_fileobj=b"# No metadata\n")
