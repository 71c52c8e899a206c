"""Pulling from the embedded hub: what a release, a checkpoint, a tensor and a mirror come to, and what is refused."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from support.hub import HubProcess
from support.signed import CHECKPOINT, SignedRelease, signed_release, tensors

from registry.adapters.checkpoints import read_leaves
from registry.adapters.hub_cache import CacheReader, MirrorFolder
from registry.adapters.hub_read import HubReader
from registry.adapters.hub_read.wire import Wire
from registry.adapters.landing import LandingFolder
from registry.cli import mirroring, pulling
from registry.core import notices
from registry.core.audit.edges import Kind, State
from registry.core.notices import Change, Notice
from registry.core.pulling import Reference, chosen
from registry.core.tensors import tensor_root
from registry.errors import DoesNotHold, OutsideFailed, Refused, UnknownName
from registry.ports import Origin
from registry.workflows.pull import Looked, Looker, Mirrorer, Pulled, Puller, Shelf, TensorPuller
from registry.workflows.pull.looking import OtherFiles
from registry.workflows.pull.vouching import Vouched, refused

pytestmark = pytest.mark.slow

SHARD = "model-00001-of-00002.safetensors"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> SignedRelease:
    """A signed release; tests copy its folder before they change it."""
    return signed_release(tmp_path_factory.mktemp("signed"))


@pytest.fixture
def pushed(hub: HubProcess, made: SignedRelease) -> Reference:
    """The release on the hub, in a repository of its own that it does not name."""
    repository = hub.new_repo()
    made.push(hub.api(), repository)
    return Reference.parse(f"hf://{repository}@v1.0.0")


def looker(
    origin: Origin, trust: Path | None = None, *, unsigned: bool = True, of: str | None = "lab/pocket"
) -> Looker:
    return Looker(origin=origin, judge=pulling.judge(trust), unsigned=unsigned, mirror_of=of)


def look(hub: HubProcess, reference: Reference, **how: object) -> Looked:
    return looker(HubReader.at(hub.endpoint), **how).look(reference)


def pull(hub: HubProcess, looked: Looked, folder: Path, *paths: str) -> Pulled:
    wanted = [looked.wanted(file) for file in chosen(looked.listing, paths)]
    with LandingFolder(folder) as landing:
        return Puller(origin=HubReader.at(hub.endpoint)).pull(looked, wanted, landing, whole=not paths)


def files(folder: Path) -> dict[str, bytes]:
    every = (path for path in folder.rglob("*") if path.is_file())
    named = {path.relative_to(folder).as_posix(): path.read_bytes() for path in every}
    return {name: data for name, data in named.items() if not name.startswith(".cache/")}


def changed(hub: HubProcess, made: SignedRelease, tmp_path: Path, change) -> Reference:
    """The release on the hub with something done to its folder."""
    folder = shutil.copytree(made.folder, tmp_path / "changed")
    change(folder)
    repository = hub.new_repo()
    hub.api().upload_folder(repo_id=repository, folder_path=folder)
    return Reference.parse(f"hf://{repository}")


def test_a_release_comes_whole_and_is_the_signed_folder(hub, made, pushed, tmp_path):
    looked = look(hub, pushed, trust=made.policy(tmp_path / "trust.toml"))
    assert looked.signed is not None
    assert looked.signed.trusted
    pulled = pull(hub, looked, tmp_path / "out")
    assert files(tmp_path / "out") == files(made.folder)
    assert set(pulled.landed) == set(files(made.folder))
    again = pull(hub, looked, tmp_path / "out")
    assert (again.landed, again.fetched_bytes) == ((), 0)
    assert set(again.kept) == set(pulled.landed)


def test_a_peer_that_drips_for_ever_is_given_up_and_gone_on_with(hub, made, pushed, tmp_path, impatient):
    looked, data = look(hub, pushed), (made.folder / SHARD).read_bytes()
    wire = Wire(endpoint=hub.endpoint, window_seconds=0.3, least_bytes=4096)

    def pull_slowly(folder: Path) -> Pulled:
        with LandingFolder(folder) as landing:
            wanted = [looked.wanted(file) for file in chosen(looked.listing, [SHARD])]
            return Puller(origin=HubReader(wire=wire)).pull(looked, wanted, landing, whole=False)

    hub.faults.set(act="drip", method="GET", pattern="/lfs/content/", after_bytes=100_000, seconds=0.02, times=2)
    pull_slowly(tmp_path / "once")
    assert (tmp_path / "once" / SHARD).read_bytes() == data, "it went on where the drops began"
    assert sum(one["sent_bytes"] for one in hub.faults.seen("/lfs/content/")) < len(data) + 4096
    drips = {"act": "drip", "method": "GET", "pattern": "/lfs/content/", "seconds": 0.02}
    hub.faults.set({**drips, "after_bytes": 100_000}, {**drips, "times": 0})
    with pytest.raises(OutsideFailed, match=r"less than 4096 bytes in 0\.3 seconds, 5 times in a row"):
        pull_slowly(tmp_path / "out")
    assert not (tmp_path / "out" / SHARD).exists()
    hub.faults.clear()
    assert pull_slowly(tmp_path / "out").resumed_bytes >= 100_000
    assert (tmp_path / "out" / SHARD).read_bytes() == data


def test_signatures_come_before_weights(hub, made, pushed, tmp_path):
    strangers = signed_release(tmp_path / "other").policy(tmp_path / "trust.toml")
    hub.faults.set()
    with pytest.raises(DoesNotHold, match="not in the trust policy"):
        look(hub, pushed, trust=strangers)
    assert not [one for one in hub.faults.seen() if "safetensors" in one["address"] or "/lfs/" in one["address"]]


def test_a_policy_that_limits_a_key_counts(hub, made, pushed, tmp_path):
    with pytest.raises(DoesNotHold, match="may sign no release"):
        look(hub, pushed, trust=made.policy(tmp_path / "trust.toml", releases="other-*"))


def test_without_a_policy_the_key_is_unknown(hub, pushed):
    signed = look(hub, pushed).signed
    assert signed is not None
    assert "unknown key" in signed.by
    assert not signed.trusted


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda folder: (folder / "extra.txt").write_text("x"), "is not signed"),
        (lambda folder: (folder / "config.json").unlink(), "is signed and missing"),
        (lambda folder: (folder / "config.json").rename(folder / "other.json"), "is signed and missing"),
        (lambda folder: (folder / "model.sig").unlink(), "signed by half"),
        (lambda folder: (folder / "provenance/release.dsse.json").unlink(), "signed by half"),
        (lambda folder: (folder / "model-00001-of-00002.safetensors").write_bytes(b"x" * 99), "other bytes"),
    ],
)
def test_a_repository_that_is_not_what_was_signed_is_refused_before_weights(hub, made, tmp_path, change, words):
    with pytest.raises(DoesNotHold, match=words):
        look(hub, changed(hub, made, tmp_path, change))


def test_a_small_file_with_other_bytes_is_refused_when_it_comes(hub, made, tmp_path):
    looked = look(hub, changed(hub, made, tmp_path, lambda folder: (folder / "config.json").write_text("{}")))
    with pytest.raises(DoesNotHold, match=r"config\.json .* than were signed"):
        pull(hub, looked, tmp_path / "out")
    assert not (tmp_path / "out/config.json").exists()


def test_an_old_release_under_a_new_name_is_refused(hub, made, pushed):
    hub.api().create_tag(pushed.repository, tag="v2.0.0", revision="v1.0.0")
    with pytest.raises(DoesNotHold, match=r"2\.0\.0 was asked for"):
        look(hub, pushed.at("v2.0.0"))
    with pytest.raises(DoesNotHold, match="repository is lab/pocket"):
        look(hub, pushed, of=None)


def test_what_nobody_signed_needs_saying_so_where_there_is_a_policy(hub, tmp_path):
    repository = hub.new_repo()
    hub.api().upload_file(path_or_fileobj=b"hello", path_in_repo="a.txt", repo_id=repository)
    reference = Reference.parse(f"hf://{repository}")
    with pytest.raises(DoesNotHold, match="Nobody signed"):
        look(hub, reference, unsigned=False)
    looked = look(hub, reference)
    assert looked.signed is None
    pull(hub, looked, tmp_path / "out")
    assert files(tmp_path / "out")["a.txt"] == b"hello"


def test_a_flipped_byte_leaves_nothing_and_a_rerun_mends_it(hub, made, pushed, tmp_path):
    looked = look(hub, pushed)
    hub.faults.set(act="flip", pattern="/lfs/content/", after_bytes=1000)
    with pytest.raises(DoesNotHold, match="other bytes"):
        pull(hub, looked, tmp_path / "out")
    held = files(tmp_path / "out")
    assert held.items() <= files(made.folder).items()
    hub.faults.clear()
    pull(hub, looked, tmp_path / "out")
    assert files(tmp_path / "out") == files(made.folder)


def test_cut_and_busy_answers_are_gone_on_from(hub, made, pushed, tmp_path, impatient):
    looked = look(hub, pushed)
    hub.faults.set(
        {"act": "drop_answer", "pattern": "/lfs/content/", "after_bytes": 300_000, "times": 2},
        {"act": "status", "status": 503, "pattern": "/resolve/", "times": 2},
        {"act": "status", "status": 429, "headers": {"Retry-After": "1"}, "pattern": "/resolve/", "times": 1},
    )
    pull(hub, looked, tmp_path / "out")
    assert files(tmp_path / "out") == files(made.folder)
    spans = [one["span"] for one in hub.faults.seen("/lfs/content/")]
    assert any(span.startswith("bytes=300000-") for span in spans), "a cut body goes on where it was cut"


def test_a_stalled_peer_is_given_up(hub, pushed, tmp_path, monkeypatch, impatient):
    looked = look(hub, pushed)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DOWNLOAD_TIMEOUT", 0.1)
    monkeypatch.setattr("registry.adapters.hub_read.wire.MOST_TRIES", 2)
    hub.faults.set(act="stall", pattern="/lfs/content/", after_bytes=1000, seconds=1.0, times=0)
    with pytest.raises(OutsideFailed, match="falls silent"):
        pull(hub, looked, tmp_path / "out", "model-00001*")
    assert files(tmp_path / "out") == {}


def test_a_tag_that_moves_is_told_and_what_came_is_of_one_commit(hub, made, pushed, tmp_path):
    api = hub.api()
    other = api.upload_file(path_or_fileobj=b"{}", path_in_repo="config.json", repo_id=pushed.repository).oid
    looked = look(hub, pushed)
    move = {"act": "move_ref", "repository": pushed.repository, "ref": "refs/tags/v1.0.0", "commit": other}
    hub.faults.set(**move, pattern="/resolve/")
    with pytest.raises(DoesNotHold, match="moved: it was"):
        pull(hub, looked, tmp_path / "out")
    assert files(tmp_path / "out") == files(made.folder)
    hub.faults.clear()
    with pytest.raises(DoesNotHold, match="moved: it was"):
        pull(hub, look(hub, pushed), tmp_path / "out")


def test_a_folder_is_held_to_one_commit_and_nothing_is_overwritten(hub, made, pushed, tmp_path):
    looked = look(hub, pushed)
    out = tmp_path / "out"
    pull(hub, looked, out, "config.json")
    (out / "config.json").write_text("mine")
    with pytest.raises(DoesNotHold, match="lies here and"):
        pull(hub, looked, out)
    assert (out / "config.json").read_text() == "mine"
    (out / "config.json").unlink()
    (out / "notes.txt").write_text("mine")
    with pytest.raises(Refused, match=r"notes\.txt, which"):
        pull(hub, looked, out)
    repository = hub.new_repo()
    with pytest.raises(Refused, match="holds a pull of"):
        pull(hub, look(hub, Reference.parse(f"hf://{repository}")), out, ".gitattributes")


def test_notices_warn_and_the_signed_card_is_what_lands(hub, made, pushed, tmp_path):
    statement = made.statement
    notice = Notice(
        notice=Change.YANK,
        identity=statement.identity,
        release=statement.digest,
        endpoint=hub.endpoint,
        commit="0" * 40,
        successor=None,
        reason="The tokenizer is another",
        erratum=None,
        time="2026-12-01T00:00:00.000000Z",
    )
    card = notices.annotated((made.folder / "README.md").read_bytes(), [notice])
    for path, data in (("README.md", card), (notices.FILE, notices.encode([notice]))):
        hub.api().upload_file(path_or_fileobj=data, path_in_repo=path, repo_id=pushed.repository)
    assert look(hub, pushed).said == (notice.sentence,)
    main = look(hub, pushed.at("main"))
    assert main.said == (notice.sentence,)
    pull(hub, main, tmp_path / "out")
    assert files(tmp_path / "out") == files(made.folder)


def test_a_checkpoint_is_proven_by_the_release(hub, made, pushed, tmp_path):
    release = look(hub, pushed)
    kept = Shelf(origin=HubReader.at(hub.endpoint)).find(release, "step-7")
    assert kept.entry.name == CHECKPOINT
    pull(hub, kept.looked, tmp_path / "out")
    assert files(tmp_path / "out") == files(made.checkpoint)
    assert tensor_root(read_leaves(tmp_path / "out")) == kept.entry.root


def test_a_branch_that_is_not_the_checkpoint_is_refused(hub, made, pushed, monkeypatch):
    api, origin = hub.api(), HubReader.at(hub.endpoint)
    api.upload_file(
        path_or_fileobj=b"{}", path_in_repo="checkpoint.json", repo_id=pushed.repository, revision=made.branch
    )
    with pytest.raises(DoesNotHold, match="does not hold hero/2@step-7"):
        Shelf(origin=origin).find(look(hub, pushed), "step-7")
    monkeypatch.setattr("registry.workflows.pull.checkpoints.SMALL_BYTES", 1)
    with pytest.raises(DoesNotHold, match="have 2 bytes together"):
        Shelf(origin=origin).find(look(hub, pushed), "step-7")
    api.delete_branch(pushed.repository, branch=made.branch)
    with pytest.raises(UnknownName, match="neither at its commit nor on the branch"):
        Shelf(origin=origin).find(look(hub, pushed), "step-7")


def tensor_puller(hub: HubProcess) -> TensorPuller:
    return TensorPuller(puller=Puller(origin=HubReader.at(hub.endpoint)), read_leaves=pulling.read_leaves)


def test_one_tensor_costs_its_own_bytes_and_is_its_leaf(hub, made, pushed, tmp_path):
    looked = look(hub, pushed)
    hub.faults.clear()
    with LandingFolder(tmp_path / "out") as landing:
        pulled = tensor_puller(hub).pull(looked, looked, None, ["norm.*"], landing)
    assert pulled.landed == ("norm.weight",)
    sent = sum(one["sent_bytes"] for one in hub.faults.seen())
    assert sent < 64 * 2**10, "headers and the end of the bundle, not the weights"
    [leaf] = read_leaves(tmp_path / "out")
    assert leaf in read_leaves(made.folder)


def test_a_tensor_with_a_flipped_bit_is_refused(hub, pushed, tmp_path):
    looked = look(hub, pushed)
    size = tensors()["layers.0.w"].nbytes
    hub.faults.set(act="flip", pattern="/lfs/content/", after_bytes=size // 2, times=0)
    with LandingFolder(tmp_path / "out") as landing, pytest.raises(DoesNotHold, match=r"layers\.0\.w"):
        tensor_puller(hub).pull(looked, looked, None, ["layers.0.w"], landing)
    assert files(tmp_path / "out") == {}


def test_a_tensor_of_a_checkpoint(hub, made, pushed, tmp_path):
    release = look(hub, pushed)
    kept = Shelf(origin=HubReader.at(hub.endpoint)).find(release, "step-7")
    with LandingFolder(tmp_path / "out") as landing:
        tensor_puller(hub).pull(release, kept.looked, kept.entry.root, ["model/norm*"], landing)
    [leaf] = read_leaves(tmp_path / "out")
    assert leaf in read_leaves(made.checkpoint)


def test_tensors_of_what_nobody_signed_are_refused(hub, tmp_path):
    looked = look(hub, Reference.parse(f"hf://{hub.new_repo()}"))
    with LandingFolder(tmp_path / "out") as landing, pytest.raises(Refused, match="nothing proves"):
        tensor_puller(hub).pull(looked, looked, None, ["*"], landing)


@pytest.fixture
def mirror(hub, pushed, tmp_path) -> Path:
    """A mirror of the release's repository."""
    made = MirrorFolder(tmp_path / "mirror", pushed)
    mirrorer = Mirrorer(puller=Puller(origin=HubReader.at(hub.endpoint)), looker=looker(HubReader.at(hub.endpoint)))
    with LandingFolder(made.folder) as landing:
        done = mirrorer.mirror(mirrorer.plan(pushed), landing, made)
    assert set(done.tags) == {"v1.0.0"}
    return tmp_path / "mirror"


def offline(mirror: Path | None, reference: Reference, folder: Path) -> Pulled:
    origin = CacheReader.at(mirror)
    looked = looker(origin).look(reference)
    with LandingFolder(folder) as landing:
        wanted = [looked.wanted(file) for file in looked.listing.files]
        return Puller(origin=origin).pull(looked, wanted, landing, whole=True)


def test_a_mirror_serves_releases_and_checkpoints_without_a_hub(made, pushed, mirror, tmp_path):
    offline(mirror, pushed, tmp_path / "out")
    assert files(tmp_path / "out") == files(made.folder)
    kept = Shelf(origin=CacheReader.at(mirror)).find(looker(CacheReader.at(mirror)).look(pushed), "step-7")
    assert {file.path for file in kept.looked.listing.files} == set(files(made.checkpoint))


def test_a_mirror_goes_to_another_hub_and_holds_there(hub_process, made, pushed, mirror, tmp_path, monkeypatch):
    other = hub_process()
    monkeypatch.setenv("HF_TOKEN", other.token)
    assert mirroring.copy(pushed, mirror, (other.endpoint, True), lambda _: None) == 3
    assert mirroring.copy(pushed, mirror, (other.endpoint, True), lambda _: None) == 0
    pull(other, look(other, pushed), tmp_path / "out")
    assert files(tmp_path / "out") == files(made.folder)
    kept = Shelf(origin=HubReader.at(other.endpoint)).find(look(other, pushed), "step-7")
    assert kept.entry.name == CHECKPOINT


def test_the_edges_of_a_release_say_what_was_hashed_and_what_was_not(hub, made, pushed, tmp_path):
    looked = look(hub, pushed)
    some = Vouched(release=looked, pulled=(pull(hub, looked, tmp_path / "some", "config.json"),))
    assert [edge.state for edge in some.edges()] == [State.ATTESTED, State.ATTESTED]
    every = Vouched(release=looked, pulled=(pull(hub, looked, tmp_path / "every"),))
    assert [edge.state for edge in every.edges()] == [State.ATTESTED, State.VERIFIED]
    bad = Vouched(release=looked, pulled=(), trouble=DoesNotHold("A weight has other bytes."))
    assert [edge.state for edge in bad.edges()] == [State.ATTESTED, State.CONTRADICTED]
    assert not bad.alone("bytes").holds
    nobody = look(hub, Reference.parse(f"hf://{hub.new_repo()}"))
    assert [edge.state for edge in Vouched(release=nobody, pulled=()).edges()] == [State.MISSING]
    assert refused(pushed, "bytes", OtherFiles("x")).edges[0].kind is Kind.FILES
    assert refused(pushed, "bytes", DoesNotHold("x")).edges[0].kind is Kind.SIGNATURE


def test_the_clients_own_reader_finds_a_mirror(pushed, mirror, monkeypatch):
    from huggingface_hub import snapshot_download

    found = snapshot_download(pushed.repository, revision="v1.0.0", cache_dir=mirror, local_files_only=True)
    assert (Path(found) / "model.sig").is_file()


def test_rot_in_a_mirror_is_found(pushed, mirror, tmp_path):
    shard = CacheReader.at(mirror).listing(pushed, CacheReader.at(mirror).resolve(pushed).commit).need(SHARD)
    blob = next(mirror.glob(f"*/blobs/{shard.claimed.hex}"))
    data = bytearray(blob.read_bytes())
    data[len(data) // 2] ^= 1
    blob.write_bytes(data)
    with pytest.raises(DoesNotHold, match="other bytes"):
        offline(mirror, pushed, tmp_path / "out")
    blob.unlink()
    with pytest.raises(DoesNotHold, match="is missing in"):
        offline(mirror, pushed, tmp_path / "out")


def test_links_and_pipes_among_the_blobs_of_a_mirror_are_refused(pushed, mirror, tmp_path):
    shard = CacheReader.at(mirror).listing(pushed, CacheReader.at(mirror).resolve(pushed).commit).need(SHARD)
    blob = next(mirror.glob(f"*/blobs/{shard.claimed.hex}"))
    blob.unlink()
    os.mkfifo(blob)
    with pytest.raises(Refused, match="no plain file"):
        offline(mirror, pushed, tmp_path / "out")
    blob.unlink()
    blob.symlink_to(blob.name)
    with pytest.raises(Refused, match="no plain file"):
        offline(mirror, pushed, tmp_path / "out")
    shutil.rmtree(blob.parent.parent / "listings")
    with pytest.raises(Refused, match="no plain file"):
        offline(mirror, pushed, tmp_path / "out")


def test_the_clients_cache_is_read_offline_and_verified(hub, made, pushed, tmp_path):
    from huggingface_hub import snapshot_download

    cache = tmp_path / "client"
    snapshot_download(pushed.repository, revision="v1.0.0", cache_dir=cache, endpoint=hub.endpoint, token=hub.token)
    offline(cache, pushed, tmp_path / "out")
    assert files(tmp_path / "out") == files(made.folder)
    with pytest.raises(UnknownName, match="has nothing of"):
        offline(cache, Reference.parse("hf://lab/nowhere"), tmp_path / "other")
