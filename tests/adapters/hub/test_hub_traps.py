"""What trips an implementer of the protocol, one test each, on the bytes of the answers."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
from pathlib import Path

import pygit2
import pytest
from huggingface_hub import CommitOperationAdd
from huggingface_hub.errors import EntryNotFoundError, RepositoryNotFoundError, RevisionNotFoundError
from support.hub import PAGE

LARGE = b"\0\1" * 5000


@pytest.fixture(scope="module")
def made() -> list[str]:
    """The repository, once it is made."""
    return []


@pytest.fixture
def repo(hub, made) -> str:
    """A repository with a regular and a large file, one for all tests here; they leave these two alone."""
    if made:
        return made[0]
    name = hub.new_repo()
    made.append(name)
    files = {"small.txt": b"small", "large.bin": LARGE}
    operations = [CommitOperationAdd(path_in_repo=path, path_or_fileobj=data) for path, data in files.items()]
    hub.api().create_commit(name, operations, commit_message="Files")
    return name


def git_blob(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def test_a_revision_is_one_part_of_the_address_however_it_is_escaped(hub, repo):
    api = hub.api()
    api.create_branch(repo, branch="refs-like/pr/1")
    tip = api.upload_file(repo_id=repo, path_in_repo="x", path_or_fileobj=b"x", revision="refs-like/pr/1").oid
    for revision in ("refs-like/pr/1", "refs/heads/refs-like/pr/1"):
        assert api.model_info(repo, revision=revision).sha == tip
        assert {one.path for one in api.list_repo_tree(repo, revision=revision)} >= {"x"}
        assert api.list_repo_commits(repo, revision=revision)[0].commit_id == tip
        assert api.file_exists(repo, "x", revision=revision)
    escaped = hub.request("GET", f"/{repo}/resolve/refs%2Dlike%2Fpr%2F1/x")
    assert (escaped.status, escaped.body) == (200, b"x")
    assert hub.request("GET", f"/{repo}/resolve/refs-like/pr/1/x").status == 404


def test_dates_have_the_one_form(hub, repo):
    form = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
    info = json.loads(hub.request("GET", f"/api/models/{repo}").body)
    log = json.loads(hub.request("GET", f"/api/models/{repo}/commits/main").body)
    tree = json.loads(hub.request("GET", f"/api/models/{repo}/tree/main?expand=True").body)
    dates = [info["createdAt"], info["lastModified"], log[0]["date"], tree[0]["lastCommit"]["date"]]
    assert all(form.fullmatch(date) for date in dates), dates


def test_a_large_file_is_redirected_to_another_host(hub, repo):
    head = hub.request("HEAD", f"/{repo}/resolve/main/large.bin")
    assert head.status == 302
    assert head.headers["Location"].startswith("http://localhost:")
    assert head.headers["X-Linked-Etag"] == f'"{hashlib.sha256(LARGE).hexdigest()}"'
    assert head.headers["X-Linked-Size"] == str(len(LARGE))
    assert head.headers["X-Repo-Commit"] == hub.api().model_info(repo).sha
    target = head.headers["Location"].removeprefix(f"http://localhost:{hub.endpoint.rpartition(':')[2]}")
    assert hub.request("GET", target).body == LARGE  # no token went along


def test_under_a_name_of_its_own_a_large_file_comes_at_once(hub, repo):
    answer = hub.request("GET", f"/{repo}/resolve/main/large.bin", host="hub.example:8000")
    assert (answer.status, answer.body) == (200, LARGE)
    assert answer.headers["X-Linked-Etag"] == answer.headers["ETag"] == f'"{hashlib.sha256(LARGE).hexdigest()}"'
    assert answer.headers["X-Linked-Size"] == answer.headers["Content-Length"] == str(len(LARGE))
    assert answer.headers["X-Repo-Commit"]


def test_every_absence_has_its_code(hub, repo):
    absences = {
        "/api/models/lab/nowhere": "RepoNotFound",
        "/api/models/nowhere": "RepoNotFound",
        "/api/spaces/lab/nowhere": "RepoNotFound",
        "/lab/nowhere/resolve/main/x": "RepoNotFound",
        f"/api/models/{repo}/revision/nowhere": "RevisionNotFound",
        f"/api/models/{repo}/tree/{'0' * 40}": "RevisionNotFound",
        f"/{repo}/resolve/nowhere/x": "RevisionNotFound",
        f"/{repo}/resolve/main/nowhere": "EntryNotFound",
        f"/{repo}/resolve/main/": "EntryNotFound",
        f"/api/models/{repo}/tree/main/nowhere": "EntryNotFound",
    }
    found = {target: hub.request("GET", target) for target in absences}
    assert {target: answer.headers["X-Error-Code"] for target, answer in found.items()} == absences
    assert {answer.status for answer in found.values()} == {404}
    api = hub.api()
    with pytest.raises(EntryNotFoundError):
        api.hf_hub_download(repo, "nowhere")
    with pytest.raises(RevisionNotFoundError):
        api.hf_hub_download(repo, "small.txt", revision="nowhere")
    with pytest.raises(RepositoryNotFoundError):
        api.hf_hub_download("lab/nowhere", "small.txt")


def test_the_absence_of_a_file_names_the_commit(hub, repo):
    answer = hub.request("HEAD", f"/{repo}/resolve/main/nowhere")
    assert answer.headers["X-Repo-Commit"] == hub.api().model_info(repo).sha


def test_a_regular_file_is_tagged_by_git_and_a_large_one_by_sha256(hub, repo):
    small = hub.request("HEAD", f"/{repo}/resolve/main/small.txt")
    assert small.headers["ETag"] == f'"{git_blob(b"small")}"'
    assert small.headers["Content-Length"] == "5"
    assert hub.api().get_hf_file_metadata(url=f"{hub.endpoint}/{repo}/resolve/main/large.bin").etag == (
        hashlib.sha256(LARGE).hexdigest()
    )


def test_preupload_tells_what_is_there_so_that_nothing_is_sent_twice(hub, repo):
    before = hub.api().model_info(repo).sha
    hub.faults.clear()
    again = [CommitOperationAdd(path_in_repo="small.txt", path_or_fileobj=b"small")]
    again += [CommitOperationAdd(path_in_repo="large.bin", path_or_fileobj=LARGE)]
    assert hub.api().create_commit(repo, again, commit_message="Again").oid == before
    assert not hub.faults.seen("/commit/")
    assert {one._remote_oid for one in again} == {git_blob(b"small"), hashlib.sha256(LARGE).hexdigest()}


def test_an_empty_file_is_always_regular(hub, repo):
    body = json.dumps({"files": [{"path": "empty.safetensors", "size": 0, "sample": ""}]}).encode()
    answer = hub.request("POST", f"/api/models/{repo}/preupload/main", body, authorization=f"Bearer {hub.token}")
    assert json.loads(answer.body)["files"][0]["uploadMode"] == "regular"
    hub.api().upload_file(repo_id=repo, path_in_repo="empty.safetensors", path_or_fileobj=b"")
    assert hub.api().get_paths_info(repo, "empty.safetensors")[0].lfs is None


def test_what_is_large_is_told_by_attributes_size_and_bytes(hub, repo):
    samples = {
        "weights.safetensors": (10, b"text"),
        "text.json": (10, b"text"),
        "huge.json": (11 * 2**20, b"text"),
        "picture": (10, b"\x89PNG\0"),
    }
    files = [
        {"path": path, "size": size, "sample": base64.b64encode(sample).decode()}
        for path, (size, sample) in samples.items()
    ]
    answer = hub.request(
        "POST",
        f"/api/models/{repo}/preupload/main",
        json.dumps({"files": files}).encode(),
        authorization=f"Bearer {hub.token}",
    )
    modes = {one["path"]: one["uploadMode"] for one in json.loads(answer.body)["files"]}
    assert modes == {"weights.safetensors": "lfs", "text.json": "regular", "huge.json": "lfs", "picture": "lfs"}


def test_a_new_repository_has_a_first_commit_with_its_attributes(hub):
    repo = hub.new_repo()
    (first,) = hub.api().list_repo_commits(repo)
    assert first.title == "initial commit"
    assert hub.api().list_repo_files(repo) == [".gitattributes"]
    attributes = Path(hub.api().hf_hub_download(repo, ".gitattributes")).read_text()
    assert "*.safetensors filter=lfs diff=lfs merge=lfs -text\n" in attributes


def test_an_annotated_tag_means_its_commit(hub, repo):
    api = hub.api()
    api.create_tag(repo, tag="v1.0.0", tag_message="A tag that is an object.")
    git = pygit2.Repository(str(hub.root / "repositories/models" / f"{repo}.git"))
    assert isinstance(git[git.references["refs/tags/v1.0.0"].target], pygit2.Tag)
    tip = api.model_info(repo).sha
    assert api.list_repo_refs(repo).tags[0].target_commit == tip
    assert api.model_info(repo, revision="v1.0.0").sha == tip
    assert hub.request("HEAD", f"/{repo}/resolve/v1.0.0/small.txt").headers["X-Repo-Commit"] == tip
    tag_object = str(git.references["refs/tags/v1.0.0"].target)
    assert api.model_info(repo, revision=tag_object).sha == tip


def test_git_itself_reads_the_repository(hub, repo):
    folder = hub.root / "repositories/models" / f"{repo}.git"
    done = subprocess.run(["git", "-C", folder, "fsck", "--strict"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    listed = subprocess.run(["git", "-C", folder, "ls-tree", "-r", "main"], capture_output=True, text=True, check=True)
    assert f"{git_blob(b'small')}\tsmall.txt" in listed.stdout


def test_lists_come_in_pages_of_one_revision(hub):
    repo = hub.new_repo()
    api = hub.api()
    many = [
        CommitOperationAdd(path_in_repo=f"f/{number:03}", path_or_fileobj=b"%d" % number)
        for number in range(2 * PAGE + 2)
    ]
    api.create_commit(repo, many, commit_message="Many")
    first = hub.request("GET", f"/api/models/{repo}/tree/main?recursive=True")
    assert len(json.loads(first.body)) == PAGE
    link = re.fullmatch(r'<(.+)>; rel="next"', first.headers["Link"])[1]
    api.delete_folder("f", repo)
    second = hub.request("GET", link.removeprefix(hub.endpoint))
    assert len(json.loads(second.body)) == PAGE  # of the commit that the first page was of
    commit = api.list_repo_commits(repo)[1].commit_id
    assert len(list(api.list_repo_tree(repo, revision=commit, recursive=True))) == 2 * PAGE + 4
    for number in range(PAGE):
        api.upload_file(repo_id=repo, path_in_repo="x", path_or_fileobj=b"%d" % number)
    assert len(api.list_repo_commits(repo)) == PAGE + 3
    assert len(hub.faults.seen("/commits/main?cursor=")) == 1


def test_the_client_understands_the_address_of_a_commit_whatever_its_own_endpoint(hub, repo, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "https://hub.example")
    done = hub.api().upload_file(repo_id=repo, path_in_repo="y", path_or_fileobj=b"y")
    assert done.repo_url.repo_id == repo


@pytest.mark.parametrize(
    ("asked", "status", "expected"),
    [
        ("bytes=0-3", 206, LARGE[:4]),
        ("bytes=9998-", 206, LARGE[9998:]),
        ("bytes=-3", 206, LARGE[-3:]),
        ("bytes=-999999", 206, LARGE),
        ("bytes=5-999999", 206, LARGE[5:]),
        ("bytes=0-1,3-4", 200, LARGE),
        ("lines=0-1", 200, LARGE),
        ("bytes=10000-", 416, None),
        ("bytes=-0", 416, None),
    ],
)
def test_ranges(hub, repo, asked, status, expected):
    answer = hub.request("GET", f"/{repo}/resolve/main/large.bin", host="hub.example", range=asked)
    assert answer.status == status
    if expected is None:
        assert answer.headers["Content-Range"] == "bytes */10000"
    else:
        assert answer.body == expected
        assert answer.headers["Content-Length"] == str(len(expected))
    if status == 206:
        start = 10000 - len(expected) if asked != "bytes=0-3" else 0
        assert answer.headers["Content-Range"] == f"bytes {start}-{start + len(expected) - 1}/10000"


def test_a_regular_file_has_ranges_too(hub, repo):
    answer = hub.request("GET", f"/{repo}/resolve/main/small.txt", range="bytes=1-2")
    assert (answer.status, answer.body, answer.headers["Content-Range"]) == (206, b"ma", "bytes 1-2/5")
