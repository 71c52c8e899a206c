"""``reckon release push``, ``checkpoints``, ``yank`` and ``supersede``, as they are typed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from support.trusted import TERMS, seal, state, write

from registry.core import notices
from registry.core.digests import sha256
from registry.core.release import Identity

pytestmark = pytest.mark.slow


@pytest.fixture
def archive(hub, tmp_path, monkeypatch) -> Path:
    """An archive without stages, with a signed release, and the hub in the environment."""
    root = tmp_path / "archive"
    root.mkdir()
    (root / "dvc.yaml").write_text("stages: {}\n")
    monkeypatch.chdir(root)
    monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
    monkeypatch.setenv("HF_TOKEN", hub.token)
    return root


def sealed(root: Path, repository: str) -> Path:
    """The folder of a signed release that is meant for the repository."""
    made = seal(root)
    write(made.folder, "README.md", b"---\nlicense: apache-2.0\n---\n# Pocket\n")
    terms = replace(TERMS, identity=Identity(name="pocket", version="1.0.0", repository=repository))
    state(made.folder, terms, made.lab)
    return made.folder


def test_a_release_is_pushed_and_taken_back(archive, hub, reckon, tmp_path):
    place = archive / "artifacts/releases/pocket/1.0.0"
    place.parent.mkdir(parents=True)
    sealed(tmp_path, "lab/pushed").rename(place)
    checked = reckon("release", "push", str(place), "lab/pushed", "--check")
    assert (checked.status, hub.api().repo_exists("lab/pushed")) == (0, False)
    assert checked.stdout == "pocket@1.0.0 can be pushed to lab/pushed.\n"
    ended = reckon("release", "push", str(place), "lab/pushed", "--json")
    assert ended.status == 0, ended.stderr
    told = json.loads(ended.stdout)
    assert told["fresh"]
    assert told["registered_version"] is None
    assert hub.api().list_repo_refs("lab/pushed").tags[0].target_commit == told["commit"]
    record = archive / f"manifests/publications/{told['record'].removeprefix('sha256:')}.json"
    assert json.loads(record.read_bytes())["tag"] == "v1.0.0"
    again = reckon("release", "push", str(place), "lab/pushed")
    assert again.stdout.startswith("Was published already: pocket@1.0.0 at hf://lab/pushed@v1.0.0")

    asked = reckon("release", "supersede", "pocket@1.0.0", "lab/pushed", "--by", "1.0.1", "--reason", "Better.")
    assert (asked.status, "no tag v1.0.1" in asked.stderr) == (2, True)
    named = ["pocket@1.0.0", "lab/pushed"]
    yanked = reckon("release", "yank", *named, "--reason", "Wrong.", "--erratum", "All of it.")
    assert yanked.status == 0, yanked.stderr
    assert yanked.stdout.splitlines()[0].startswith("pocket 1.0.0 was yanked on ")
    raw = hub.request("GET", "/lab/pushed/resolve/main/notices.json").body
    assert [one.erratum for one in notices.decode(raw)] == ["All of it."]
    pulled = reckon("pull", "hf://lab/pushed@v1.0.0", "config.json", "-o", str(tmp_path / "down"))
    assert (pulled.status, "was yanked" in pulled.stderr, "The notice is unsigned" in pulled.stderr) == (0, True, True)
    signed = ["--reason", "Wrong.", "--erratum", "All of it.", "--key", str(tmp_path / "lab.pem")]
    for _ in range(2):  # the second time it is there already
        assert "The notice is attested by unknown key" in reckon("release", "yank", *named, *signed).stdout
    told = notices.decode(hub.request("GET", "/lab/pushed/resolve/main/notices.json").body)
    assert [one.envelope is None for one in told] == [True, False]
    pulled = reckon("pull", "hf://lab/pushed@v1.0.0", "config.json", "-o", str(tmp_path / "down"))
    assert "The notice is attested by unknown key" in pulled.stderr
    (archive / f"manifests/notices/{sha256(b'{}').hex}.json").write_bytes(b"{}")
    warned = reckon("release", "verify", str(place))
    assert "WARNING: pocket 1.0.0 was yanked" in warned.stderr
    assert f"WARNING: the notice {sha256(b'{}').short} on record here cannot be read" in warned.stderr
    assert warned.status != 2, warned.stderr


def test_what_is_not_fit_is_not_pushed(archive, hub, reckon, tmp_path):
    folder = sealed(tmp_path, "lab/unfit")
    assert reckon("release", "push", "nothing@1.0.0", "lab/unfit").status == 2
    other = reckon("release", "push", str(folder), "lab/other")
    assert (other.status, "not fit to be published" in other.stderr) == (1, True)
    (tmp_path / "trust.toml").write_text("schema = 1\n")
    strangers = reckon("release", "push", str(folder), "lab/unfit", "--trust", str(tmp_path / "trust.toml"))
    assert (strangers.status, "not fit to be published" in strangers.stderr) == (1, True)
    (folder / "config.json").write_text("{ }\n")
    altered = reckon("release", "push", str(folder), "lab/unfit")
    assert (altered.status, "config.json" in altered.stderr) == (1, True)
    assert not hub.api().repo_exists("lab/unfit")


def test_offline_nothing_is_sent(archive, reckon, tmp_path, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    ended = reckon("release", "push", str(sealed(tmp_path, "lab/offline")), "lab/offline")
    assert (ended.status, "HF_HUB_OFFLINE is set" in ended.stderr) == (2, True)


def test_the_trajectory_of_a_checkpoint(charted, hub, reckon, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
    monkeypatch.setenv("HF_TOKEN", hub.token)
    ended = reckon("release", "checkpoints", "hero/2@step-24", "lab/path", "--json")
    assert ended.status == 0, ended.stderr
    done = json.loads(ended.stdout)["checkpoints"]
    branches = {one.name for one in hub.api().list_repo_refs("lab/path").branches}
    assert {"main", *(one["branch"] for one in done)} == branches
    assert done[-1]["branch"] == "stage2-step24-tokens0.000000768B"  # 24 updates of 4 sequences of 8 tokens
    assert len(list((charted.root / "manifests/publications").iterdir())) == len(done)
    again = json.loads(reckon("release", "checkpoints", "hero/2@step-24", "lab/path", "--json").stdout)["checkpoints"]
    assert [one["fresh"] for one in again] == [False] * len(done)
    assert reckon("release", "checkpoints", "hero/2@step-99", "lab/path").status == 2
