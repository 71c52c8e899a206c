"""Publishing to a real hub: main is the old or the new release and never a mixture, and pushing again finishes."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from support.hub import HubProcess
from support.parcels import parcel_of, payload, release_folder

from registry.adapters.host import LocalHost
from registry.adapters.hub_push import HubRepository
from registry.adapters.hub_read import HubReader
from registry.adapters.records import FileRecordStore
from registry.core import canonical, notices
from registry.core.branches import CheckpointBranch
from registry.core.digests import sha256, tree_digest
from registry.core.publications import Place, Publications
from registry.core.pushing import check_limits
from registry.core.release import Identity
from registry.errors import DoesNotHold, OutsideFailed, ReckonError, Refused, UnknownName
from registry.workflows.push.checkpoints import Trajectory, read_list
from registry.workflows.push.notice import Announcer, Wish
from registry.workflows.push.release import Pusher, read_statement
from registry.workflows.push.staging import Site


class Lab:
    """A place to publish from: folders, records, and a repository on a hub."""

    def __init__(self, hub: HubProcess, folder: Path, repository: str) -> None:
        self.hub, self.folder, self.repository = hub, folder, repository
        self.records = FileRecordStore(folder / "manifests")
        self.said: list[str] = []
        self.bytes = 0

    def site(self, token: str | None = None, pauses: tuple[float, ...] = ()) -> Site:
        token = self.hub.token if token is None else token
        place = Place(endpoint=self.hub.endpoint, repository=self.repository)
        origin = HubReader.at(self.hub.endpoint, token)
        return Site(
            outlet=HubRepository(place, token),
            origin=origin,
            advance=self._advance,
            say=self.said.append,
            pauses=pauses,
        )

    def _advance(self, size: int) -> None:
        self.bytes += size

    def pusher(self, **site: object) -> Pusher:
        return Pusher(
            site=self.site(**site),  # type: ignore[arg-type]
            records=self.records,
            publications=self.publications(),
            host=LocalHost(),
            room_bytes=2**30,
        )

    def publications(self) -> Publications:
        return Publications.build(
            (one, self.records.get("publication", one)) for one in self.records.digests("publication")
        )

    def build(self, version: str = "1.0.0", **more: object):
        folder = self.folder / version
        return folder, release_folder(folder, self.repository, version, **more)  # type: ignore[arg-type]

    def push(self, folder: Path, **site: object):
        pusher, parcel = self.pusher(**site), parcel_of(folder)
        return pusher.push(parcel, pusher.plan(parcel).statement, private=False)

    def files(self, revision: str) -> dict[str, bytes]:
        """All files at a revision but the hub's own, read by the stock client's addresses."""
        api = self.hub.api()
        found = {}
        for path in api.list_repo_files(self.repository, revision=revision):
            answer = self.hub.request("GET", f"/{self.repository}/resolve/{revision}/{path}")
            if answer.status == 302:
                target = answer.headers["Location"].partition("://")[2].partition("/")[2]
                answer = self.hub.request("GET", f"/{target}")
            found[path] = answer.body
        found.pop(".gitattributes", None)
        return found


def on_disk(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def lab(hub, tmp_path) -> Lab:
    return Lab(hub, tmp_path, hub.new_repo())


def test_a_release_is_staged_verified_tagged_and_then_on_main(lab):
    folder, statement = lab.build()
    done = lab.push(folder)
    assert done.fresh
    assert lab.files("main") == lab.files("v1.0.0") == lab.files(done.publication.commit) == on_disk(folder)
    refs = lab.hub.api().list_repo_refs(lab.repository)
    assert [one.name for one in refs.branches] == ["main"]
    assert [(one.name, one.target_commit) for one in refs.tags] == [("v1.0.0", done.publication.commit)]
    assert done.publication.head == refs.branches[0].target_commit
    assert done.publication.digest == statement.digest
    assert lab.publications().newest(statement.digest) == done.publication
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert lab.bytes == 2 * size  # up and back
    again = lab.push(folder)
    assert (again.fresh, again.publication.head) == (False, done.publication.head)


@pytest.mark.slow
def test_bytes_go_up_before_main_is_touched(lab):
    folder, _ = lab.build()
    lab.hub.faults.clear()
    lab.push(folder)
    seen = [f"{one['method']} {one['address']}" for one in lab.hub.faults.seen()]
    first = {
        word: next(i for i, one in enumerate(seen) if word in one)
        for word in ("/tag/", "/commit/main", "/commit/staging")
    }
    last_read = max(i for i, one in enumerate(seen[: first["/tag/"]]) if "/resolve/" in one)
    assert first["/commit/staging"] < last_read < first["/tag/"] < first["/commit/main"]
    assert sum("/commit/" in one for one in seen) == 2


@pytest.mark.slow
def test_the_next_release_follows_and_an_old_one_does_not_come_back(lab):
    old, first = lab.build()
    lab.push(old)
    new, _ = lab.build("1.1.0", parent=first.digest)
    (old / "left-over").touch()
    lab.push(new)
    (old / "left-over").unlink()
    assert lab.files("main") == on_disk(new)
    again = lab.push(old)
    assert not again.fresh
    assert lab.files("main") == on_disk(new)
    assert "stays there" in lab.said[-1]


@pytest.mark.slow
@pytest.mark.parametrize("parent", [None, sha256(b"another")])
def test_a_release_that_does_not_follow_is_refused_before_a_byte_goes_up(lab, parent):
    lab.push(lab.build()[0])
    folder, _ = lab.build("1.1.0", parent=parent)
    lab.hub.faults.clear()
    with pytest.raises(DoesNotHold, match=r"but main of .* holds pocket@1.0.0"):
        lab.push(folder)
    assert not lab.hub.faults.seen("/commit/")
    other, _ = lab.build("2.0.0", parent=sha256(b"another"))
    with pytest.raises(DoesNotHold):
        lab.push(other)


@pytest.mark.slow
def test_a_version_is_published_once(lab):
    folder, _ = lab.build()
    lab.push(folder)
    changed = lab.folder / "changed"
    release_folder(changed, lab.repository, "1.0.0", extra=20)
    with pytest.raises(DoesNotHold, match=r"main of .* holds pocket@1.0.0"):
        lab.push(changed)
    pusher, parcel = lab.pusher(), parcel_of(changed)
    with pytest.raises(DoesNotHold, match=r"v1.0.0 .* holds another release: extra.safetensors is missing"):
        pusher.push(parcel, read_statement(parcel), private=False)
    assert lab.files("main") == on_disk(folder)


@pytest.mark.slow
@pytest.mark.parametrize("change", ["flip", "extra", "missing", "renamed"])
def test_a_folder_that_is_not_its_release_is_refused(lab, change):
    folder, _ = lab.build()
    weights = folder / "model.safetensors"
    if change == "flip":
        data = weights.read_bytes()
        weights.write_bytes(bytes([data[0] ^ 1]) + data[1:])
    elif change == "extra":
        (folder / "more.txt").write_text("more")
    elif change == "missing":
        weights.unlink()
    else:
        weights.rename(folder / "other.safetensors")
    with pytest.raises(DoesNotHold, match="the folder is not the release"):
        read_statement(parcel_of(folder))


@pytest.mark.slow
def test_preflight_refuses_what_cannot_work(lab, tmp_path):
    folder, _ = lab.build()
    with pytest.raises(Refused, match="may not write"):
        lab.push(folder, token=lab.hub.read_token)
    with pytest.raises(Refused, match="401"):
        lab.push(folder, token="hf_unknown_unknown_unknown")
    with pytest.raises(Refused, match="This release is for"):
        Lab(lab.hub, tmp_path, lab.hub.new_repo()).push(folder)
    with pytest.raises(Refused, match="too full"):
        replace(lab.pusher(), room_bytes=10).plan(parcel_of(folder))
    (folder / "model.sig").unlink()
    with pytest.raises(Refused, match=r"holds no model.sig"):
        lab.push(folder)
    assert lab.files("main") == {}


@pytest.mark.slow
def test_the_repository_is_made_and_the_estimate_is_what_it_will_be_charged(lab):
    lab.repository = "lab/made-by-push"
    folder, first = lab.build(big=300_000)
    pusher = lab.pusher()
    plan = pusher.plan(parcel_of(folder))
    assert not plan.exists
    assert not lab.hub.api().repo_exists(lab.repository)
    pusher.push(parcel_of(folder), plan.statement, private=True)
    assert lab.hub.api().model_info(lab.repository).private
    assert plan.new_bytes == plan.size_bytes == parcel_of(folder).size_bytes
    next_folder, _ = lab.build("1.0.1", parent=first.digest, big=300_000)
    (next_folder / "big.safetensors").write_bytes((folder / "big.safetensors").read_bytes())
    listing = pusher.site.listing(pusher.site.need("main"))
    held = 300_000 + sum((folder / name).stat().st_size for name in ("checkpoints.json", "model.sig"))
    assert parcel_of(next_folder).new_bytes(listing) == parcel_of(next_folder).size_bytes - held


def test_limits_of_the_hub(tmp_path):
    folder = tmp_path / "r"
    release_folder(folder, "lab/x")
    parcel = parcel_of(folder)
    entry = parcel.files["model.safetensors"]

    def limits(**files):
        return check_limits(replace(parcel, files=files))

    assert limits(a=entry) == ()
    assert "advises for one file" in limits(a=replace(entry, size_bytes=201 * 10**9))[0]
    assert "advises 100" in limits(**{f"f{n}": entry for n in range(101)})[0]
    for files in (
        {"a": replace(entry, size_bytes=501 * 10**9)},
        {".cache/x": replace(entry, path=".cache/x")},
        {".gitattributes": entry},
        {f"d/{n}": entry for n in range(10_001)},
        {},
    ):
        with pytest.raises(Refused, match="does not take"):
            limits(**files)


@pytest.mark.slow
def test_a_flipped_bit_on_the_way_back_is_found_and_nothing_is_named(lab):
    folder, _ = lab.build()
    lab.hub.faults.set(act="flip", pattern="/lfs/content/", method="GET", after_bytes=1234)
    with pytest.raises(DoesNotHold, match=r"model.safetensors came back|bundle.tar came back"):
        lab.push(folder)
    assert lab.files("main") == {}
    assert not lab.hub.api().list_repo_refs(lab.repository).tags
    assert lab.push(folder).fresh
    assert lab.files("main") == on_disk(folder)


@pytest.mark.slow
def test_a_busy_hub_is_waited_for(lab, impatient):
    folder, _ = lab.build()
    lab.hub.faults.set(
        {"act": "status", "status": 429, "pattern": "/commit/main", "headers": {"Retry-After": "3"}},
        {"act": "status", "status": 503, "pattern": "/tag/"},
        {"act": "drop_answer", "pattern": "/commit/staging"},
    )
    assert lab.push(folder, pauses=(1.0, 1.0, 1.0)).fresh
    assert [one.rpartition("Trying again in ")[2] for one in lab.said] == ["1 s.", "1 s.", "3 s."]
    assert lab.files("main") == on_disk(folder)


def _pusher_at(lab: Lab, version: str, parent, gate: threading.Barrier, ended: list) -> None:
    folder, _ = lab.build(version, parent=parent)
    pusher, parcel = lab.pusher(), parcel_of(folder)
    statement = pusher.plan(parcel).statement
    gate.wait()
    try:
        ended.append(pusher.push(parcel, statement, private=False))
    except ReckonError as error:
        ended.append(error)


@pytest.mark.slow
@pytest.mark.parametrize("versions", [("1.1.0", "1.2.0"), ("1.1.0", "1.1.0")])
def test_two_pushers_at_once(lab, versions, tmp_path):
    """Of two releases on one parent one wins; of two that push the same one, both succeed."""
    old, first = lab.build()
    lab.push(old)
    gate, ended = threading.Barrier(2), []
    labs = [Lab(lab.hub, tmp_path / name, lab.repository) for name in "ab"]
    threads = [
        threading.Thread(target=_pusher_at, args=(one, version, first.digest, gate, ended))
        for one, version in zip(labs, versions, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lost = [one for one in ended if isinstance(one, ReckonError)]
    assert len(lost) == (0 if versions[0] == versions[1] else 1), ended
    assert all(isinstance(one, DoesNotHold) for one in lost)
    candidates = [on_disk(one.folder / version) for one, version in zip(labs, versions, strict=True)]
    assert lab.files("main") in candidates
    assert lab.hub.api().list_repo_commits(lab.repository)[1].title == "Release pocket 1.0.0"


@pytest.fixture
def trajectory(lab):
    """Three kept checkpoints on disk, and the workflow that publishes them."""
    folders = {}
    rows = []
    for step in (10, 20, 30):
        folder = lab.folder / f"step-{step}"
        folder.mkdir()
        (folder / "state.safetensors").write_bytes(payload(str(step), 4000))
        (folder / "checkpoint.json").write_bytes(b'{"completed_steps":%d}' % step)
        tree = tree_digest(parcel_of(folder).files.values())
        folders[tree] = folder
        rows.append(
            {
                "branch": str(CheckpointBranch(segment=1, step=step, tokens=step * 1000)),
                "commit": None, "name": f"hero/1@step-{step}", "step": step, "tokens": step * 1000,
                "recipe": str(sha256(b"r")), "root": str(sha256(b"t")), "files": str(tree),
            }
        )  # fmt: skip
    kept = read_list(canonical.encode(rows))

    def make(**site: object) -> Trajectory:
        return Trajectory(
            site=lab.site(**site),  # type: ignore[arg-type]
            records=lab.records,
            publications=lab.publications(),
            host=LocalHost(),
            parcel=lambda one: parcel_of(folders[one.files]),
        )

    return make, kept, folders


@pytest.mark.slow
def test_the_trajectory_goes_to_branches_and_on_after_a_cut(lab, trajectory, impatient):
    make, kept, folders = trajectory
    lab.push(lab.build()[0])
    before = lab.files("main")
    lab.hub.faults.set(act="status", status=500, pattern="/resolve/", skip=4, times=0)
    with pytest.raises(OutsideFailed):
        list(make().publish(kept, private=False))
    lab.hub.faults.clear()
    branches = {one.name for one in lab.hub.api().list_repo_refs(lab.repository).branches}
    assert {name for name in branches if name.startswith("stage1")} == {str(kept[0].branch), str(kept[1].branch)}
    done = list(make().publish(kept, private=False))
    assert [one.fresh for one in done] == [False, False, True]
    for one, what in zip(done, kept, strict=True):
        assert lab.files(one.branch) == lab.files(one.commit) == on_disk(folders[what.files])
    assert {one.name for one in lab.hub.api().list_repo_refs(lab.repository).branches} == {
        "main",
        *(one.branch for one in done),
    }
    assert lab.files("main") == before
    assert len(lab.records.digests("publication")) == 4
    list(make().publish(kept, private=False))
    assert len(lab.records.digests("publication")) == 4


@pytest.mark.slow
def test_a_checkpoint_that_is_not_the_recorded_one_is_refused(lab, trajectory):
    make, kept, folders = trajectory
    list(make().publish(kept[:1], private=False))
    state = folders[kept[1].files] / "state.safetensors"
    state.write_bytes(b"x" + state.read_bytes()[1:])
    with pytest.raises(DoesNotHold, match="are not the recorded ones"):
        list(make().publish(kept, private=False))
    lab.hub.api().create_branch(lab.repository, branch=str(kept[2].branch))
    with pytest.raises(DoesNotHold, match="holds another checkpoint"):
        list(make().publish(kept[2:], private=False))


@pytest.mark.parametrize(
    "change", [{"tokens": 11}, {"step": 11}, {"branch": "main"}, {"name": "hero/1"}, {"files": "x"}]
)
def test_a_list_of_checkpoints_with_other_counts_is_refused(change):
    row = {
        "branch": "stage1-step10-tokens0.00001B", "commit": None, "name": "hero/1@step-10", "step": 10,
        "tokens": 10_000, "recipe": "r", "root": "t", "files": str(sha256(b"")),
    }  # fmt: skip
    assert read_list(canonical.encode([row]))[0].branch.tokens == 10_000
    with pytest.raises(ReckonError):
        read_list(canonical.encode([row | change]))
    with pytest.raises(ReckonError, match="twice"):
        read_list(canonical.encode([row, row]))


def wish(lab: Lab, **changed: object) -> Wish:
    fields: dict[str, object] = {
        "what": notices.Change.YANK,
        "identity": Identity(name="pocket", version="1.0.0", repository=lab.repository),
        "successor": None,
        "reason": "Wrong tokenizer.",
        "erratum": None,
        "known": None,
    }
    return Wish(**(fields | changed))  # type: ignore[arg-type]


def announcer(lab: Lab) -> Announcer:
    return Announcer(site=lab.site(), records=lab.records, host=LocalHost())


@pytest.mark.slow
def test_a_yanked_release_stays_where_it_was_and_main_says_so(lab):
    folder, statement = lab.build()
    lab.push(folder)
    done = announcer(lab).announce(wish(lab, known=statement.digest))
    assert lab.files("v1.0.0") == on_disk(folder)
    main = lab.files("main")
    told = notices.decode(main.pop("notices.json"))
    assert notices.about(told, statement.digest) == (done.notice,)
    assert b"**YANK** pocket 1.0.0 was yanked" in main["README.md"]
    assert notices.original(main["README.md"], told) == (folder / "README.md").read_bytes()
    assert main | {"README.md": b""} == on_disk(folder) | {"README.md": b""}
    again = announcer(lab).announce(wish(lab))
    assert (again.digest, again.head) == (done.digest, done.head)
    assert not lab.push(folder).fresh


@pytest.mark.slow
def test_the_successor_carries_the_notices_on(lab):
    old, first = lab.build()
    lab.push(old)
    new, _ = lab.build("1.0.1", parent=first.digest)
    with pytest.raises(UnknownName, match=r"no tag v1.0.1"):
        announcer(lab).announce(wish(lab, what=notices.Change.SUPERSEDE, successor="1.0.1"))
    announcer(lab).announce(wish(lab))
    lab.push(new)
    announcer(lab).announce(
        wish(lab, what=notices.Change.SUPERSEDE, successor="1.0.1", erratum="Answers were cut at 512 tokens.")
    )
    main = lab.files("main")
    told = notices.decode(main.pop("notices.json"))
    assert [one.notice for one in told] == ["yank", "supersede"]
    assert notices.original(main["README.md"], told) == (new / "README.md").read_bytes()
    assert main | {"README.md": b""} == on_disk(new) | {"README.md": b""}
    assert not lab.push(new).fresh


@pytest.mark.slow
def test_notices_about_what_is_not_there_are_refused(lab):
    folder, _ = lab.build()
    lab.push(folder)
    with pytest.raises(DoesNotHold, match="on record here is"):
        announcer(lab).announce(wish(lab, known=sha256(b"other")))
    with pytest.raises(UnknownName, match=r"no tag v3.0.0"):
        announcer(lab).announce(wish(lab, identity=Identity(name="pocket", version="3.0.0", repository=lab.repository)))
    with pytest.raises(Refused, match=r"holds pocket@1.0.0"):
        announcer(lab).announce(wish(lab, identity=Identity(name="other", version="1.0.0", repository=lab.repository)))
    assert lab.files("main") == on_disk(folder)
