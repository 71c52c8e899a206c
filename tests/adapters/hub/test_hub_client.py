"""The unmodified Python client does its work against the hub: repositories, commits, listings, downloads, cards."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from huggingface_hub import CommitOperationAdd, CommitOperationCopy, CommitOperationDelete
from huggingface_hub.errors import (
    EntryNotFoundError,
    HfHubHTTPError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from requests import HTTPError

LARGE = bytes(range(256)) * 400  # one piece
LARGER = bytes(range(256)) * 4000 + b"end"  # eight parts
CARD = """---
license: apache-2.0
language: en
base_model: lab/parent
base_model_relation: finetune
datasets: [lab/corpus]
tags: [mixture-of-experts]
library_name: transformers
pipeline_tag: text-generation
---
# A model
"""


def add(path: str, data: bytes) -> CommitOperationAdd:
    return CommitOperationAdd(path_in_repo=path, path_or_fileobj=data)


@pytest.fixture
def release(hub) -> tuple[str, str]:
    """A repository with one commit of all sorts of files, and the commit."""
    repo = hub.new_repo()
    files = {
        "README.md": CARD.encode(),
        "config.json": b"{}",
        "empty": b"",
        "a/b/c.txt": b"deep",
        "model.safetensors": LARGE,
    }
    done = hub.api().create_commit(
        repo, [add(path, data) for path, data in files.items()], commit_message="Release", commit_description="First."
    )
    return repo, done.oid


def test_whoami_tells_the_token_and_its_role(hub):
    assert hub.api().whoami()["name"] == "owner"
    assert hub.api().whoami()["auth"]["accessToken"]["role"] == "write"
    assert hub.api(hub.read_token).whoami()["auth"]["accessToken"]["role"] == "read"
    with pytest.raises(HTTPError) as refused:
        hub.api("hf_unknown").whoami()
    assert refused.value.response.status_code == 401


@pytest.mark.parametrize("kind", ["model", "dataset"])
def test_repositories_come_and_go(hub, kind):
    api = hub.api()
    url = api.create_repo(f"lab/comes-{kind}", repo_type=kind)
    assert (url.repo_id, url.repo_type) == (f"lab/comes-{kind}", kind)
    assert api.repo_exists(url.repo_id, repo_type=kind)
    with pytest.raises(HfHubHTTPError) as there:
        api.create_repo(url.repo_id, repo_type=kind)
    assert there.value.response.status_code == 409
    assert api.create_repo(url.repo_id, repo_type=kind, exist_ok=True) == url
    api.delete_repo(url.repo_id, repo_type=kind)
    assert not api.repo_exists(url.repo_id, repo_type=kind)
    with pytest.raises(RepositoryNotFoundError):
        api.delete_repo(url.repo_id, repo_type=kind)
    api.delete_repo(url.repo_id, repo_type=kind, missing_ok=True)


def test_a_name_without_namespace_is_the_users(hub):
    assert hub.api().create_repo("alone", exist_ok=True).repo_id == "owner/alone"


def test_repositories_are_listed(hub):
    public, hidden = hub.new_repo(), hub.new_repo(private=True)
    assert {public, hidden} <= {one.id for one in hub.api().list_models(author="lab")}
    seen = {one.id for one in hub.api("").list_models(author="lab")}
    assert public in seen
    assert hidden not in seen
    assert not list(hub.api().list_models(author="nobody"))


def test_one_commit_brings_everything(hub, release):
    repo, commit = release
    info = hub.api().model_info(repo, files_metadata=True)
    assert info.sha == commit
    files = {one.rfilename: one for one in info.siblings}
    assert set(files) == {".gitattributes", "README.md", "config.json", "empty", "a/b/c.txt", "model.safetensors"}
    assert files["model.safetensors"].lfs.sha256 == hashlib.sha256(LARGE).hexdigest()
    assert files["model.safetensors"].size == len(LARGE)
    assert files["config.json"].lfs is None
    assert files["config.json"].size == 2
    assert hub.api().model_info(repo).siblings[0].size is None


def test_the_card_is_read(hub, release):
    repo, _ = release
    info = hub.api().model_info(repo)
    assert info.card_data.base_model == "lab/parent"
    assert info.library_name == "transformers"
    assert info.pipeline_tag == "text-generation"
    assert {
        "license:apache-2.0", "base_model:lab/parent", "base_model:finetune:lab/parent", "dataset:lab/corpus", "en",
        "mixture-of-experts",
    } <= set(info.tags)  # fmt: skip


def test_only_what_is_asked_for(hub, release):
    info = hub.api().model_info(release[0], expand=["lastModified", "tags"])
    assert info.last_modified
    assert info.tags
    assert info.siblings is None


def test_data_sets_are_apart_from_models(hub):
    repo = hub.new_repo(kind="dataset")
    done = hub.api().upload_file(
        repo_id=repo, repo_type="dataset", path_in_repo="train/0.parquet", path_or_fileobj=LARGE, commit_message="Data"
    )
    assert hub.api().dataset_info(repo).sha == done.oid
    assert Path(hub.api().hf_hub_download(repo, "train/0.parquet", repo_type="dataset")).read_bytes() == LARGE
    assert not hub.api().repo_exists(repo)


def test_a_data_set_may_be_named_like_a_part_of_an_address(hub):
    for name in ("lab/resolve", "lab/tree"):
        hub.api().create_repo(name, repo_type="dataset")
        hub.api().upload_file(repo_id=name, repo_type="dataset", path_in_repo="resolve/x.bin", path_or_fileobj=LARGE)
        came = hub.api().hf_hub_download(name, "resolve/x.bin", repo_type="dataset")
        assert Path(came).read_bytes() == LARGE


def test_the_tree_is_listed(hub, release):
    repo, commit = release
    api = hub.api()
    top = {one.path: one for one in api.list_repo_tree(repo)}
    assert {"a", "README.md"} <= set(top)
    assert "a/b/c.txt" not in top
    assert top["model.safetensors"].lfs.sha256 == hashlib.sha256(LARGE).hexdigest()
    assert [one.path for one in api.list_repo_tree(repo, "a", recursive=True)] == ["a/b", "a/b/c.txt"]
    expanded = {one.path: one for one in api.list_repo_tree(repo, recursive=True, expand=True)}
    assert expanded["a/b/c.txt"].last_commit.oid == expanded["a"].last_commit.oid == commit
    assert expanded[".gitattributes"].last_commit.title == "initial commit"
    with pytest.raises(EntryNotFoundError):
        list(api.list_repo_tree(repo, "nowhere"))


def test_paths_are_told(hub, release):
    repo, commit = release
    found = hub.api().get_paths_info(repo, ["model.safetensors", "a", "a/b/c.txt", "nowhere"], expand=True)
    assert [one.path for one in found] == ["model.safetensors", "a", "a/b/c.txt"]
    assert found[0].size == len(LARGE)
    assert {one.last_commit.oid for one in found} == {commit}
    assert len(hub.api().get_paths_info(repo, "README.md")) == 1


def test_the_log_tells_every_commit(hub, release):
    repo, commit = release
    log = hub.api().list_repo_commits(repo, formatted=True)
    assert [one.title for one in log] == ["Release", "initial commit"]
    assert (log[0].commit_id, log[0].message, log[0].authors) == (commit, "First.", ["owner"])
    assert log[0].formatted_title == "Release"
    assert abs((log[0].created_at - datetime.now(UTC)).total_seconds()) < 60


def test_branches_and_tags(hub, release):
    repo, commit = release
    api = hub.api()
    api.create_branch(repo, branch="stage1-step10-tokens1B", revision=commit)
    api.create_tag(repo, tag="v1.0.0", revision=commit[:7])
    api.create_tag(repo, tag="v1.0.1", tag_message="Told.")
    refs = api.list_repo_refs(repo)
    assert {one.name: one.target_commit for one in refs.branches} == {"main": commit, "stage1-step10-tokens1B": commit}
    assert {one.name: one.target_commit for one in refs.tags} == {"v1.0.0": commit, "v1.0.1": commit}
    for call in (lambda: api.create_tag(repo, tag="v1.0.0"), lambda: api.create_branch(repo, branch="main")):
        with pytest.raises(HfHubHTTPError) as there:
            call()
        assert there.value.response.status_code == 409
    api.create_tag(repo, tag="v1.0.0", exist_ok=True)
    api.delete_tag(repo, tag="v1.0.0")
    api.delete_branch(repo, branch="stage1-step10-tokens1B")
    refs = api.list_repo_refs(repo, include_pull_requests=True)
    assert [one.name for one in refs.branches] == ["main"]
    assert [one.name for one in refs.tags] == ["v1.0.1"]
    assert refs.pull_requests == []
    with pytest.raises(RevisionNotFoundError):
        api.delete_tag(repo, tag="v1.0.0")
    with pytest.raises(HfHubHTTPError):
        api.delete_branch(repo, branch="main")


def test_a_branch_lives_apart(hub, release):
    repo, commit = release
    api = hub.api()
    api.create_branch(repo, branch="side")
    side = api.upload_file(repo_id=repo, path_in_repo="side.txt", path_or_fileobj=b"side", revision="side").oid
    assert api.model_info(repo).sha == commit
    assert api.model_info(repo, revision="side").sha == side
    assert api.file_exists(repo, "side.txt", revision="side")
    assert not api.file_exists(repo, "side.txt")
    assert api.revision_exists(repo, "side")
    assert not api.revision_exists(repo, "other")


def test_files_are_replaced_copied_and_removed(hub, release):
    repo, _ = release
    api = hub.api()
    api.create_commit(
        repo,
        [
            add("config.json", b"{1}"),
            CommitOperationCopy("model.safetensors", "copies/model.safetensors"),
            CommitOperationCopy("README.md", "copies/README.md"),
            CommitOperationDelete("empty"),
            CommitOperationDelete("a/", is_folder=True),
        ],
        commit_message="Change",
    )
    files = {one.path: one for one in api.list_repo_tree(repo, recursive=True)}
    assert set(files) == {
        ".gitattributes", "README.md", "config.json", "copies", "copies/README.md", "copies/model.safetensors",
        "model.safetensors",
    }  # fmt: skip
    assert files["copies/model.safetensors"].lfs == files["model.safetensors"].lfs
    assert Path(api.hf_hub_download(repo, "config.json")).read_bytes() == b"{1}"
    api.delete_file("copies/README.md", repo)
    api.delete_folder("copies", repo)
    assert not any(one.path.startswith("copies") for one in api.list_repo_tree(repo))
    for gone in (CommitOperationDelete("empty"), CommitOperationDelete("a/", is_folder=True)):
        with pytest.raises(EntryNotFoundError):
            api.create_commit(repo, [gone], commit_message="Again")


def test_a_folder_goes_up_and_comes_down(hub, tmp_path):
    repo = hub.new_repo()
    source = tmp_path / "up"
    (source / "deep").mkdir(parents=True)
    (source / "model.safetensors").write_bytes(LARGER)
    (source / "deep/tensors.bin").write_bytes(LARGE)
    (source / "deep/ünï cödé +&#%.txt").write_bytes(b"name")
    (source / "notes.tmp").write_bytes(b"ignored")
    (source / ".gitignore").write_bytes(b"*.tmp\n")
    done = hub.api().upload_folder(repo_id=repo, folder_path=source, commit_message="Folder")
    came = Path(hub.api().snapshot_download(repo, local_dir=tmp_path / "down", revision=done.oid))
    names = {path.name for folder in (came, came / "deep") for path in folder.iterdir()} - {".cache", "deep"}
    assert names == {".gitattributes", ".gitignore", "model.safetensors", "tensors.bin", "ünï cödé +&#%.txt"}
    assert (came / "model.safetensors").read_bytes() == LARGER
    assert (came / "deep/tensors.bin").read_bytes() == LARGE


def test_safetensors_headers_are_read_by_range(hub):
    repo = hub.new_repo()
    header = json.dumps({"w": {"dtype": "F32", "shape": [50_000], "data_offsets": [0, 200_000]}}).encode()
    shard = len(header).to_bytes(8, "little") + header + bytes(200_000)
    hub.api().upload_file(repo_id=repo, path_in_repo="model.safetensors", path_or_fileobj=shard)
    found = hub.api().get_safetensors_metadata(repo)
    assert found.parameter_count == {"F32": 50_000}
    sent = [one["sent_bytes"] for one in hub.faults.seen("/lfs/content/")]
    assert sent == [100_001]


def test_access_is_checked(hub, release):
    hub.api("").auth_check(release[0])
    with pytest.raises(RepositoryNotFoundError):
        hub.api("").auth_check("lab/nowhere")


def test_visibility_changes(hub, release):
    repo, _ = release
    hub.api().update_repo_settings(repo, private=True)
    assert hub.api().model_info(repo).private
    with pytest.raises(RepositoryNotFoundError):
        hub.api("").model_info(repo)
    hub.api().update_repo_settings(repo, private=False)
    assert hub.api("").model_info(repo).private is False


CARDS = """
import sys
from huggingface_hub import ModelCard, metadata_load
card = ModelCard.load(sys.argv[1])
card.data.new_version = "lab/next"
card.validate = lambda repo_type=None: None  # this client validates at the public site, whatever the endpoint
card.push_to_hub(sys.argv[1])
print(ModelCard.load(sys.argv[1]).data.new_version)
"""


@pytest.mark.slow
def test_cards_are_loaded_and_pushed(hub, release, tmp_path):
    hub.faults.clear()
    done = subprocess.run(
        [sys.executable, "-c", CARDS, release[0]],
        env=hub.environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "lab/next\n"
    assert [one["status"] for one in hub.faults.seen("/api/validate-yaml")] == [200]
