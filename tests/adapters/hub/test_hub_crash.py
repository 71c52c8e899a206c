"""Killed at any moment, or out of disk, the hub has every branch at a whole commit and no wrong object, and goes on."""

from __future__ import annotations

import errno
import hashlib
import os
import random
import signal
import subprocess
import threading

import pygit2
import pytest
from huggingface_hub import CommitOperationAdd
from huggingface_hub.errors import HfHubHTTPError
from support.hub import PART_BYTES, HubProcess

from registry.adapters.hub_server import history, trees
from registry.adapters.hub_server.problems import is_full

KILLS = 6


def payload(seed: int, size: int) -> bytes:
    return hashlib.shake_256(b"%d" % seed).digest(size)


def release(number: int) -> list[CommitOperationAdd]:
    """A release whose files all tell its number: two small, one large in one piece, one in parts."""
    files = {
        "version": b"%d" % number,
        "config.json": b'{"version": %d}' % number,
        "a.safetensors": payload(number, 5000),
        "b.safetensors": payload(-number, 3 * PART_BYTES + number),
    }
    return [CommitOperationAdd(path_in_repo=path, path_or_fileobj=data) for path, data in files.items()]


def contents(hub: HubProcess, repo: str, commit: str) -> dict[str, bytes]:
    """The files of a commit, read from the hub's disk."""
    git = pygit2.Repository(str(hub.root / "repositories/models" / f"{repo}.git"))
    found = {}
    for entry in trees.files(git, history.resolve(git, commit)):
        large = hub.object_path(entry.pointer.oid) if entry.pointer else None
        found[entry.path] = large.read_bytes() if large else trees.content(git, entry)
    return found


def assert_whole(hub: HubProcess, repo: str) -> None:
    """Every ref leads to one release with all its bytes; every object is what its name says; git finds no fault."""
    folder = hub.root / "repositories/models" / f"{repo}.git"
    for path in (hub.root / "objects").rglob("*"):
        assert path.is_dir() or hashlib.sha256(path.read_bytes()).hexdigest() == path.name
    git = pygit2.Repository(str(folder))
    for ref in git.references:
        files = contents(hub, repo, ref)
        if "version" in files:
            expected = {one.path_in_repo: one.path_or_fileobj for one in release(int(files["version"]))}
            assert files == {".gitattributes": files[".gitattributes"], **expected}
    checked = subprocess.run(["git", "-C", folder, "fsck", "--strict"], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr


def push(hub: HubProcess, repo: str, number: int) -> str:
    parent = hub.api().model_info(repo).sha
    return hub.api().create_commit(repo, release(number), commit_message=str(number), parent_commit=parent).oid


@pytest.mark.slow
def test_killed_at_random_moments_of_pushes(hub_process, impatient):
    hub = hub_process()
    repo, chance, number = hub.new_repo(), random.Random(7), 0
    for _ in range(KILLS):
        killer = threading.Timer(chance.uniform(0.02, 0.7), os.kill, (hub.pid, signal.SIGKILL))
        killer.start()
        tips, alive = [hub.api().model_info(repo).sha], True
        while alive:
            number += 1
            try:
                tips.append(push(hub, repo, number))
            except (OSError, HfHubHTTPError, RuntimeError):
                alive = False
        killer.join()
        hub.end()
        hub.start()
        assert_whole(hub, repo)
        tip = hub.api().model_info(repo).sha
        if tip != tips[-1]:  # the last one was made, and its answer lost
            assert hub.api().list_repo_commits(repo)[1].commit_id == tips[-1]
        assert not list((hub.root / "incoming").glob("*.tmp"))
    push(hub, repo, number + 1)
    assert_whole(hub, repo)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pattern", "act"),
    [
        ("/preupload/", "kill_answer"),
        ("/objects/batch", "kill_answer"),
        ("PUT /lfs/objects/", "kill_request"),
        ("PUT /lfs/parts/.*/2$", "kill_request"),
        ("PUT /lfs/parts/.*/3$", "kill_answer"),
        ("/lfs/complete/", "kill_answer"),
        ("/commit/", "kill_request"),
        ("/commit/", "kill_answer"),
    ],
)
def test_killed_at_each_step_of_a_push_and_pushed_again(hub_process, impatient, pattern, act):
    hub = hub_process()
    repo = hub.new_repo()
    before = push(hub, repo, 1)
    method, _, address = pattern.rpartition(" ")
    hub.faults.set(act=act, method=method, pattern=address, after_bytes=100)
    with pytest.raises((OSError, RuntimeError)):
        push(hub, repo, 2)
    assert hub.end() == -9
    hub.start()
    assert_whole(hub, repo)
    made = act == "kill_answer" and pattern == "/commit/"
    assert (hub.api().model_info(repo).sha == before) != made
    push(hub, repo, 2)
    assert contents(hub, repo, "main")["version"] == b"2"
    assert_whole(hub, repo)


@pytest.mark.slow
def test_locks_and_leftovers_of_a_killed_server_do_not_stop_the_next(hub_process):
    hub = hub_process()
    repo = hub.new_repo()
    hub.kill()
    folder = hub.root / "repositories/models" / f"{repo}.git"
    left = [
        folder / "refs/heads/main.lock", folder / "HEAD.lock", folder / "objects/tmp_obj_1",
        hub.root / "aside/half/HEAD", hub.root / "incoming/0123.tmp",
    ]  # fmt: skip
    for path in left:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"left")
    hub.start()
    assert not [path for path in left if path.exists()]
    push(hub, repo, 1)
    assert_whole(hub, repo)


@pytest.mark.slow
def test_a_full_disk_refuses_and_changes_nothing(hub_process):
    """No file of the server may grow beyond a bound: what a full disk says to a write, said sooner."""
    hub = hub_process()
    repo = hub.new_repo()
    first = push(hub, repo, 1)
    hub.end()
    hub.start(file_limit=PART_BYTES // 2)
    api = hub.api()
    large = {
        "one.bin": payload(50, PART_BYTES),  # in one piece: the piece is refused
        "parts.bin": payload(51, 3 * PART_BYTES),  # in parts: the first part is
        "git.json": b'"' + payload(52, PART_BYTES).hex().encode() + b'"',  # in the commit itself
    }
    for path, data in large.items():
        with pytest.raises((HfHubHTTPError, RuntimeError)) as refused:
            api.upload_file(repo_id=repo, path_in_repo=path, path_or_fileobj=data)
        assert status_of(refused.value) == 507
    assert api.model_info(repo).sha == first
    assert not list((hub.root / "incoming").glob("*.tmp"))
    small = api.upload_file(repo_id=repo, path_in_repo="small", path_or_fileobj=b"fits").oid
    hub.end()
    hub.start()
    assert [one.commit_id for one in hub.api().list_repo_commits(repo)][:2] == [small, first]
    for path, data in large.items():
        hub.api().upload_file(repo_id=repo, path_in_repo=path, path_or_fileobj=data)
    found = contents(hub, repo, "main")
    assert {path: found[path] for path in large} == large


@pytest.mark.slow
def test_git_out_of_disk_is_told_as_such(hub_process):
    """A blob that git itself cannot write is the same answer, and the branch stays."""
    hub = hub_process()
    repo = hub.new_repo()
    before = hub.api().model_info(repo).sha
    hub.end()
    hub.start(file_limit=4096)
    with pytest.raises(HfHubHTTPError) as refused:
        hub.api().upload_file(repo_id=repo, path_in_repo="x.txt", path_or_fileobj=payload(60, 2600).hex().encode())
    assert status_of(refused.value) == 507
    assert hub.api().model_info(repo).sha == before


def test_a_full_disk_is_known_by_its_number_or_by_the_words_of_libgit2():
    assert is_full(OSError(errno.ENOSPC, "any"))
    assert is_full(OSError("failed to write out file: No space left on device"))
    assert is_full(pygit2.GitError("could not write: File too large"))
    assert not is_full(OSError(errno.EACCES, "Permission denied"))


def status_of(error: BaseException | None) -> int | None:
    while error is not None:
        if isinstance(error, HfHubHTTPError):
            return error.response.status_code
        error = error.__cause__
    return None


@pytest.mark.slow
def test_no_room_is_told_before_anything_is_sent(hub_process):
    hub = hub_process()
    repo = hub.new_repo()
    hub.end()
    hub.start(free_bytes=3000)
    fits, does_not = payload(70, 3000), payload(71, 3001)
    hub.api().upload_file(repo_id=repo, path_in_repo="fits.bin", path_or_fileobj=fits)
    hub.faults.clear()
    with pytest.raises(ValueError, match="no room for 3001 bytes"):
        hub.api().upload_file(repo_id=repo, path_in_repo="does-not.bin", path_or_fileobj=does_not)
    assert [one["method"] for one in hub.faults.seen()] == ["POST", "POST"]
