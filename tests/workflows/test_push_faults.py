"""A push that is cut, refused or starved at any place leaves main at the old or the new release, and a rerun finishes.

Every fault hits one request of a push that is otherwise known request by request; the hub is the real one.
"""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest
from support.hub import HubProcess
from workflows.test_push import Lab, on_disk

from registry.errors import OutsideFailed, ReckonError

CUTS = 20
SIZE = 150_000  # in one piece, and over what one read of the socket brings


class Moved:
    """An old release on main, and a new one that waits to be pushed."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        old, statement = lab.build("1.0.0", weights=2000)
        lab.push(old)
        self.old = lab.files("main")
        self.new, _ = lab.build("1.1.0", parent=statement.digest, weights=SIZE, parts=300_000)

    def check(self) -> bool:
        """Whether main holds the new release; it holds the old one otherwise, whole."""
        self.lab.hub.faults.clear()
        main = self.lab.files("main")
        assert main in (self.old, on_disk(self.new)), "main is a mixture"
        tags = {one.name for one in self.lab.hub.api().list_repo_refs(self.lab.repository).tags}
        if "v1.1.0" in tags:
            assert self.lab.files("v1.1.0") == on_disk(self.new)
        return main != self.old

    def finish(self) -> None:
        """Push again, and find everything as it should be."""
        self.lab.push(self.new)
        assert self.check()
        refs = self.lab.hub.api().list_repo_refs(self.lab.repository)
        assert [one.name for one in refs.branches] == ["main"]
        commits = self.lab.hub.api().list_repo_commits(self.lab.repository)
        assert [one.title for one in commits[:2]] == ["Release pocket 1.1.0", "Release pocket 1.0.0"]
        assert len(self.lab.publications().records) == 2


@pytest.fixture
def moved(hub, tmp_path) -> Moved:
    return Moved(Lab(hub, tmp_path, hub.new_repo()))


def requests_of_a_push(hub: HubProcess, tmp_path: Path) -> list[dict]:
    """What a push without faults asks of the hub, one after the other."""
    moved = Moved(Lab(hub, tmp_path / "measured", hub.new_repo()))
    hub.faults.clear()
    moved.lab.push(moved.new)
    return hub.faults.seen()


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
def test_cut_at_random_places(hub, tmp_path):
    """The connection goes, before or after the hub did as it was asked, at twenty random requests and bytes.

    The places are spread over the whole push, so that each part of it is cut: asking, uploading, looking, moving.
    """
    seen = requests_of_a_push(hub, tmp_path)
    assert len(requests_of_a_push(hub, tmp_path / "again")) == len(seen), "no push is spared what another one did"
    chance, ends, failures = random.Random(11), [], 0
    for cut in range(CUTS):
        moved = Moved(Lab(hub, tmp_path / str(cut), hub.new_repo()))
        number = chance.randrange(cut * len(seen) // CUTS, (cut + 1) * len(seen) // CUTS)
        size = max(seen[number]["received_bytes"], 1)
        act = chance.choice(["drop_request", "drop_answer"])
        after = chance.randrange(size) if act == "drop_request" else 0
        hub.faults.set(act=act, pattern="", skip=number, times=0, after_bytes=after)
        try:
            moved.lab.push(moved.new)
        except (ReckonError, OSError):
            failures += 1
        ends.append(moved.check())
        moved.finish()
    assert len(ends) == CUTS
    assert failures > CUTS * 3 // 4  # the last requests of a push only tidy up


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("pattern", "status"),
    [
        ("/branch/staging", 429),
        ("/preupload/", 500),
        ("/objects/batch", 503),
        ("/lfs/", 500),
        ("/commit/staging", 429),
        ("/tag/", 503),
        ("/commit/main", 500),
    ],
)
def test_a_hub_that_is_busy_for_long(moved, pattern, status):
    moved.lab.hub.faults.set(act="status", status=status, pattern=pattern, times=0)
    with pytest.raises(OutsideFailed):
        moved.lab.push(moved.new)
    assert not moved.check()
    moved.finish()


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("pattern", "act"),
    [
        ("/lfs/parts/.*/2$", "kill_answer"),
        ("/commit/staging", "kill_request"),
        ("/tag/", "kill_answer"),
        ("/commit/main", "kill_request"),
        ("/commit/main", "kill_answer"),
    ],
)
def test_the_server_is_killed(hub_process, tmp_path, pattern, act):
    hub = hub_process()
    moved = Moved(Lab(hub, tmp_path, hub.new_repo()))
    hub.faults.set(act=act, pattern=pattern, after_bytes=100)
    with pytest.raises((ReckonError, OSError)):
        moved.lab.push(moved.new)
    assert hub.end() == -9
    hub.start()
    assert moved.check() == (pattern == "/commit/main" and act == "kill_answer")
    moved.finish()


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("full", [{"free_bytes": 10_000}, {"file_limit": 100_000}])
def test_the_hubs_disk_is_full(hub_process, tmp_path, full):
    hub = hub_process()
    moved = Moved(Lab(hub, tmp_path, hub.new_repo()))
    hub.end()
    hub.start(**full)
    with pytest.raises(OutsideFailed, match="disk is full"):
        moved.lab.push(moved.new)
    hub.end()
    hub.start()
    assert not moved.check()
    moved.finish()


@pytest.mark.slow
def test_a_stranger_on_main_is_not_run_over(moved):
    """Somebody commits to main by hand while we push: their commit is seen, and ours comes after it or not at all."""
    lab = moved.lab
    lab.hub.faults.clear()
    head = lab.hub.api().list_repo_commits(lab.repository)[0].commit_id
    lab.hub.api().upload_file(repo_id=lab.repository, path_in_repo="notes.txt", path_or_fileobj=b"by hand")
    stranger = lab.hub.api().list_repo_commits(lab.repository)[0].commit_id
    lab.hub.faults.set(
        {"act": "move_ref", "pattern": "/commit/main", "repository": lab.repository, "ref": "refs/heads/main",
         "commit": stranger, "times": 1},
    )  # fmt: skip
    subprocess.run(
        [
            "git",
            "-C",
            lab.hub.root / f"repositories/models/{lab.repository}.git",
            "update-ref",
            "refs/heads/main",
            head,
        ],
        check=True,
    )
    lab.push(moved.new)
    assert moved.check()
    titles = [one.title for one in lab.hub.api().list_repo_commits(lab.repository)]
    assert titles[:2] == ["Release pocket 1.1.0", "Upload notes.txt with huggingface_hub"]
