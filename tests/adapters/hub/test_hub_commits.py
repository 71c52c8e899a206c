"""A commit moves a branch from the commit that its sender saw to a new one, or not at all; senders take turns."""

from __future__ import annotations

import base64
import json
import threading

import pygit2
import pytest
import requests
from huggingface_hub import CommitOperationAdd
from huggingface_hub.errors import BadRequestError, HfHubHTTPError


@pytest.fixture
def repo(hub) -> str:
    """A repository with its first commit."""
    return hub.new_repo()


@pytest.fixture(scope="module")
def made() -> list[str]:
    """The repository of :func:`still`, once it is made."""
    return []


@pytest.fixture
def still(hub, made) -> str:
    """A repository for all commits that must change nothing."""
    if not made:
        made.append(hub.new_repo())
        hub.api().create_tag(made[0], tag="v1")
    return made[0]


def post(hub, repo: str, *lines: object, branch: str = "main"):
    body = b"".join((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in lines)
    target = f"/api/models/{repo}/commit/{branch}"
    return hub.request("POST", target, body, authorization=f"Bearer {hub.token}", content_type="application/x-ndjson")


def header(**more: object) -> dict:
    return {"key": "header", "value": {"summary": "Summary", "description": "", **more}}


def file(path: str, data: bytes = b"data") -> dict:
    value = {"path": path, "content": base64.b64encode(data).decode(), "encoding": "base64"}
    return {"key": "file", "value": value}


def tip(hub, repo: str) -> str:
    return hub.api().model_info(repo).sha


def test_the_parent_must_be_the_tip(hub, repo):
    api, first = hub.api(), tip(hub, repo)
    one = CommitOperationAdd(path_in_repo="x", path_or_fileobj=b"1")
    second = api.create_commit(repo, [one], commit_message="One", parent_commit=first).oid
    for stale in (first, first[:7]):
        two = CommitOperationAdd(path_in_repo="x", path_or_fileobj=b"2")
        with pytest.raises(HfHubHTTPError, match="A commit has happened since") as moved:
            api.create_commit(repo, [two], commit_message="Two", parent_commit=stale)
        assert moved.value.response.status_code == 412
    assert tip(hub, repo) == second
    three = CommitOperationAdd(path_in_repo="x", path_or_fileobj=b"3")
    api.create_commit(repo, [three], commit_message="Three", parent_commit=second[:8])
    assert [one.title for one in api.list_repo_commits(repo)] == ["Three", "One", "initial commit"]


def test_of_pushers_at_once_with_one_parent_one_wins(hub, repo):
    first, outcomes = tip(hub, repo), []
    gate = threading.Barrier(6)

    def push(number: int) -> None:
        operation = CommitOperationAdd(path_in_repo="x", path_or_fileobj=b"%d" % number)
        gate.wait()
        try:
            hub.api().create_commit(repo, [operation], commit_message=str(number), parent_commit=first)
            outcomes.append(200)
        except HfHubHTTPError as error:
            outcomes.append(error.response.status_code)

    run(push, 6)
    assert sorted(outcomes) == [200] + [412] * 5
    assert len(hub.api().list_repo_commits(repo)) == 2


def test_pushers_at_once_without_a_parent_take_turns(hub, repo):
    def push(number: int) -> None:
        hub.api().upload_file(repo_id=repo, path_in_repo=f"f{number}", path_or_fileobj=b"%d" % number)

    run(push, 6)
    assert {f"f{number}" for number in range(6)} <= set(hub.api().list_repo_files(repo))
    assert len(hub.api().list_repo_commits(repo)) == 7


def run(work, count: int) -> None:
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("branch", ["nowhere", "v1", "0" * 40, "refs%2Ftags%2Fv1"])
def test_only_branches_take_commits(hub, still, branch):
    answer = post(hub, still, header(), file("x"), branch=branch)
    assert (answer.status, answer.headers["X-Error-Code"]) == (404, "RevisionNotFound")


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [header()],
        [file("x")],
        [header(summary=""), file("x")],
        [header(summary=None), file("x")],
        [header(summary="\ud800"), file("x")],
        [header(summary="s" * 2000), file("x")],
        [header(parentCommit=7), file("x")],
        [header(parentCommit="abc"), file("x")],
        [header(), b"no json"],
        [header(), b"[" * 100_000],
        [header(), b"[1]"],
        [header(), {"key": "file", "value": "x"}],
        [header(), {"key": "unknown", "value": {}}],
        [header(), {"key": [], "value": {}}],
        [header(), {"key": "file", "value": {"path": "x"}}],
        [header(), {"key": "file", "value": {"path": "x", "content": "?", "encoding": "base64"}}],
        [header(), {"key": "file", "value": {"path": "x", "content": "\ud800", "encoding": "utf-8"}}],
        [header(), {"key": "file", "value": {"path": "x", "content": "", "encoding": "rot13"}}],
        [header(), {"key": "lfsFile", "value": {"path": "x", "algo": "md5", "oid": "0" * 64}}],
        [header(), {"key": "lfsFile", "value": {"path": "x", "oid": "../x"}}],
        [header(), {"key": "lfsFile", "value": {"path": "x", "oid": "0" * 64}}],
    ],
)
def test_a_malformed_commit_changes_nothing(hub, still, lines):
    before = tip(hub, still)
    assert post(hub, still, *lines).status == 400
    assert tip(hub, still) == before


@pytest.mark.parametrize(
    "path",
    [
        "../x", "/x", "a/../x", "a//x", "a/", "./x", "", "a\\x", "a\0x", "a\nx", ".git/config", "a/.GIT/x", ".git",
        "git~1/x", "\ud800", "x" * 2000, "x/" * 200 + "x", None, 7,
    ],
)  # fmt: skip
def test_no_path_leaves_the_repository(hub, still, path):
    before = tip(hub, still)
    answer = post(hub, still, header(), file(path))
    assert answer.status == 400, answer.body
    assert tip(hub, still) == before


def test_a_file_and_a_folder_cannot_have_one_name(hub, repo):
    assert post(hub, repo, header(), file("a/b")).status == 200
    before = tip(hub, repo)
    for path in ("a", "a/b/c"):
        assert post(hub, repo, header(), file(path)).status == 409
    assert tip(hub, repo) == before
    swap = [{"key": "deletedFolder", "value": {"path": "a/"}}, file("a")]
    assert post(hub, repo, header(), *swap).status == 200
    assert hub.api().list_repo_files(repo) == [".gitattributes", "a"]


def test_the_last_word_on_a_path_counts(hub, repo):
    gone = {"key": "deletedFile", "value": {"path": "x"}}
    folder = {"key": "deletedFolder", "value": {"path": "d"}}
    assert post(hub, repo, header(), file("x"), file("d/e/f"), gone, file("y")).status == 200
    assert hub.api().list_repo_files(repo) == [".gitattributes", "d/e/f", "y"]
    assert post(hub, repo, header(), folder, folder).status == 404
    assert post(hub, repo, header(), {"key": "deletedFile", "value": {"path": "d"}}).status == 404
    assert post(hub, repo, header(), {"key": "deletedFile", "value": {"path": "y/z"}}).status == 404
    assert post(hub, repo, header(), {"key": "deletedFolder", "value": {"path": "y"}}).status == 404
    assert post(hub, repo, header(), folder, file("d"), gone).status == 404
    last = {"key": "deletedFile", "value": {"path": "d/e/f"}}
    assert post(hub, repo, header(), last, folder).status == 404
    assert post(hub, repo, header(), last, file("d")).status == 200
    assert hub.api().list_repo_files(repo) == [".gitattributes", "d", "y"]


def test_the_last_file_may_go(hub, repo):
    assert post(hub, repo, header(), {"key": "deletedFile", "value": {"path": ".gitattributes"}}).status == 200
    assert hub.api().list_repo_files(repo) == []
    assert post(hub, repo, header(), file("x")).status == 200


@pytest.mark.slow
def test_a_file_too_large_for_git_is_refused(hub, repo):
    assert post(hub, repo, header(), file("x", bytes(10 * 2**20 + 1))).status == 413
    assert post(hub, repo, header(), file("x", bytes(11 * 2**20))).status == 413
    assert post(hub, repo, header(), file("x", bytes(10 * 2**20))).status == 200


def test_text_is_taken_as_it_is(hub, repo):
    text = {"key": "file", "value": {"path": "x", "content": "grüße\r\n", "encoding": "utf-8"}}
    assert post(hub, repo, header(), text).status == 200
    assert hub.request("GET", f"/{repo}/resolve/main/x").body == "grüße\r\n".encode()


def test_a_half_sent_commit_changes_nothing(hub, repo):
    before = tip(hub, repo)
    hub.faults.set(act="drop_request", method="POST", pattern="/commit/", after_bytes=100)
    with pytest.raises(ConnectionError):
        post(hub, repo, header(), *[file(f"f{number}") for number in range(20)])
    assert tip(hub, repo) == before


def test_a_lost_answer_leaves_the_new_commit_and_a_retry_finds_it(hub, repo):
    before = tip(hub, repo)
    hub.faults.set(act="drop_answer", method="POST", pattern="/commit/")
    operations = [CommitOperationAdd(path_in_repo="x", path_or_fileobj=b"1")]
    with pytest.raises(requests.RequestException):
        hub.api().create_commit(repo, operations, commit_message="One", parent_commit=before)
    after = tip(hub, repo)
    assert after != before
    again = [CommitOperationAdd(path_in_repo="x", path_or_fileobj=b"1")]
    assert hub.api().create_commit(repo, again, commit_message="One", parent_commit=before).oid == after


def test_pull_requests_are_refused(hub, repo):
    with pytest.raises(BadRequestError, match="no pull requests"):
        hub.api().upload_file(repo_id=repo, path_in_repo="x", path_or_fileobj=b"x", create_pr=True)


def test_names_of_refs_are_checked(hub, repo):
    for name in ("refs/pr/5", "a..b", "a b", "-x", "x.lock", "0" * 40, "a@{1}", "a/", "\u0085"):
        with pytest.raises(HfHubHTTPError) as refused:
            hub.api().create_branch(repo, branch=name)
        assert refused.value.response.status_code == 400, name
        with pytest.raises(HfHubHTTPError) as refused:
            hub.api().create_tag(repo, tag=name)
        assert refused.value.response.status_code == 400, name
    hub.api().create_branch(repo, branch="a")
    with pytest.raises(HfHubHTTPError) as refused:
        hub.api().create_branch(repo, branch="a/b")
    assert refused.value.response.status_code == 409


def test_a_branch_and_a_tag_of_one_name_are_two(hub, repo):
    first = tip(hub, repo)
    hub.api().create_tag(repo, tag="both", revision=first)
    hub.api().create_branch(repo, branch="both")
    second = hub.api().upload_file(repo_id=repo, path_in_repo="x", path_or_fileobj=b"x", revision="both").oid
    assert hub.api().model_info(repo, revision="both").sha == second
    assert hub.api().model_info(repo, revision="refs/tags/both").sha == first


def test_git_expressions_are_no_revisions(hub, repo):
    post(hub, repo, header(), file("x"))
    for revision in ("main~1", "main^", "HEAD", "main@{0}", "main:x", "@", ":/Summary", "refs/heads", "../main"):
        assert not hub.api().revision_exists(repo, revision), revision


def test_nothing_half_done_is_left_in_git(hub, repo):
    post(hub, repo, header(), file("x"))
    folder = hub.root / "repositories/models" / f"{repo}.git"
    assert not list(folder.rglob("*.lock"))
    assert not list(folder.rglob("tmp_obj*"))
    assert pygit2.Repository(str(folder)).references["refs/heads/main"].target
    assert not list((hub.root / "aside").iterdir())
