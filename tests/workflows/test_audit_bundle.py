"""Bundles: the same audit in an empty folder with nothing at hand, and files that are no bundle."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from support.shipyard import Shipyard

from registry.adapters.bundles import BundleFile, write_bundle
from registry.core.bundle import BLOCK_BYTES, END, Cover, Member
from registry.core.codec import record_bytes
from registry.core.digests import sha256
from registry.core.withheld import Withheld
from registry.errors import MalformedRecord, Refused

ROOT = Path(__file__).resolve().parents[2]
# The program alone: no git, no DVC on PATH, and every attempt to reach a network fails.
ALONE = """
import socket, sys
def refuse(*_): raise OSError("no network here")
socket.socket.connect = socket.getaddrinfo = socket.create_connection = refuse
from registry.cli.main import run
sys.exit(run(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def bundle(built: Shipyard, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("bundles") / "handoff.tar"
    made(built, file)
    return file


def made(yard: Shipyard, file: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "registry", "bundle", "handoff", "-o", str(file), "--json"],
        cwd=yard.root,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["size_bytes"] == file.stat().st_size


def alone(folder: Path, *arguments: str) -> tuple[int, dict]:
    done = subprocess.run(
        [sys.executable, "-c", ALONE, "audit", *arguments, "--json"],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": str(folder), "HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, json.loads(done.stdout)


def states(audit: dict) -> dict[str, str]:
    return {edge["id"]: edge["state"] for edge in audit["edges"]}


@pytest.mark.slow
def test_the_same_edges_in_an_empty_folder(bundle, built, tmp_path, reckon, monkeypatch):
    status, audit = alone(tmp_path, "--bundle", str(bundle))
    assert (status, audit["holds"], audit["name"]) == (0, True, "handoff")
    assert not [finding for edge in audit["edges"] for finding in edge["findings"]]
    monkeypatch.chdir(built.root)
    at_home = json.loads(reckon("audit", "handoff", "--depth", "records", "--json").stdout)
    here, there = states(at_home), states(audit)
    assert list(here) == list(there)
    differing = {edge: (here[edge], there[edge]) for edge in here if here[edge] != there[edge]}
    assert set(differing) <= {"hero/2+forecast=" + edge.partition("=")[2] for edge in here if "+forecast=" in edge}
    assert set(differing.values()) <= {("verified", "claimed")}, "only git's history does not travel"


@pytest.mark.slow
def test_what_needs_bytes_is_claimed_and_what_is_small_is_verified(bundle, tmp_path):
    _, audit = alone(tmp_path, "--bundle", str(bundle), "--depth", "bytes")
    found = states(audit)
    assert found["data+bytes"] == found["hero/2@step-6+weights"] == found["hero/2+parent=hero/1@step-4"] == "claimed"
    for edge in ("hero/1+transcript", "rung/a+order", "handoff+code", "handoff+lock", "hero/2+config", "data+record"):
        assert found[edge] == "verified"
    assert "missing" not in found.values()


@pytest.mark.slow
def test_weights_at_hand_are_verified(bundle, built, tmp_path):
    folder = tmp_path / "held"
    shutil.copytree(built.root / "artifacts/handoff", folder)
    (folder / "note.txt").write_text("not of the record")
    status, audit = alone(tmp_path, "--bundle", str(bundle), "--weights", str(folder))
    assert (status, states(audit)["handoff+bytes"], audit["coverage"]["looked"]["files"]) == (0, "verified", 4)
    model = folder / "model.safetensors"
    data = bytearray(model.read_bytes())
    data[-1] ^= 1
    model.write_bytes(data)
    status, audit = alone(tmp_path, "--bundle", str(bundle), "--weights", str(folder))
    assert (status, states(audit)["handoff+bytes"]) == (1, "contradicted")
    model.unlink()
    status, audit = alone(tmp_path, "--bundle", str(bundle), "--weights", str(folder))
    assert (status, states(audit)["handoff+bytes"]) == (1, "missing")


@pytest.mark.slow
def test_a_checkpoint_of_the_lineage_can_be_audited_from_the_same_bundle(bundle, built, tmp_path):
    held = built.root / "artifacts/hero/1/checkpoints/step-4"
    status, audit = alone(tmp_path, "--bundle", str(bundle), "hero/1@step-4", "--weights", str(held))
    assert (status, states(audit)["hero/1@step-4+weights"]) == (0, "verified")


@pytest.mark.slow
def test_an_unknown_name_is_refused_with_the_nearest(bundle, tmp_path):
    status, told = alone(tmp_path, "--bundle", str(bundle), "handof")
    assert (status, told["error"]["kind"]) == (2, "UnknownName")
    assert "handoff" in told["error"]["remedy"]


@pytest.mark.slow
def test_two_bundles_of_one_archive_are_the_same_bytes(bundle, built, tmp_path):
    made(built, tmp_path / "again.tar")
    assert (tmp_path / "again.tar").read_bytes() == bundle.read_bytes()


def test_any_tar_can_unpack_it_and_names_are_digests(bundle, tmp_path):
    subprocess.run(["tar", "-xf", str(bundle)], cwd=tmp_path, check=True)
    for path in [*tmp_path.glob("bytes/*"), *tmp_path.glob("manifests/*/*.json")]:
        assert sha256(path.read_bytes()).hex == path.stem
    for path in tmp_path.glob("git/*"):
        said = subprocess.run(["sha1sum", str(path)], capture_output=True, text=True, check=True)
        assert said.stdout.split()[0] == path.name
    assert {path.name for path in tmp_path.iterdir()} == {"bundle.json", "bytes", "git", "manifests"}


def test_no_weights_and_no_data_go_in(bundle, built):
    with tarfile.open(bundle) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    large = [built.root / "artifacts/hero/1/checkpoints/step-4/state.safetensors"]
    assert not [path for path in large if sha256(path.read_bytes()).hex in held]


ALTERED = ["manifests/executions/", "manifests/recipes/", "bytes/", "git/", "manifests/objects/"]


@pytest.mark.slow
@pytest.mark.parametrize("folder", ALTERED)
def test_an_altered_member_is_found(bundle, tmp_path, folder):
    """Every member of a kind in turn would be slow: the first one that the audit needs for certain."""
    members = content(bundle)
    wanted = {
        "bytes/": lambda name: b'"gradient_norm"' in members[name],
        "git/": lambda name: members[name].startswith(b"commit"),
        "manifests/objects/": lambda name: True,
    }
    name = next(one for one in members if one.startswith(folder) and wanted.get(folder, lambda _: True)(one))
    data = bytearray(members[name])
    data[len(data) // 2] ^= 1
    if name.endswith(".parquet"):
        data = data[: len(data) // 2]  # A table is known by its rows: one bit may be of no row.
    write(tmp_path / "altered.tar", {**members, name: bytes(data)})
    status, audit = alone(tmp_path, "--bundle", "altered.tar")
    assert status == 1
    told = audit["error"]["message"] if "error" in audit else ""  # what is left of no execution has no edges
    assert "damaged" in told or [finding for edge in audit["edges"] for finding in edge["findings"]]


@pytest.mark.slow
def test_the_altered_execution_of_the_artifact_itself_is_no_unknown_name(bundle, tmp_path):
    members = content(bundle)
    name = next(one for one in members if "executions/" in one and json.loads(members[one])["stage"] == "handoff")
    data = bytearray(members[name])
    data[len(data) // 2] ^= 1
    write(tmp_path / "altered.tar", {**members, name: bytes(data)})
    status, answer = alone(tmp_path, "--bundle", "altered.tar")
    assert (status, answer["error"]["kind"]) == (1, "DoesNotHold")
    assert f"The execution {Path(name).stem[:12]} is damaged" in answer["error"]["message"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "folder", ["manifests/recipes/", "manifests/environments/", "manifests/objects/", "manifests/tensors/"]
)
def test_a_left_out_record_is_found(bundle, tmp_path, folder):
    members = content(bundle)
    name = next(one for one in members if one.startswith(folder))
    write(tmp_path / "less.tar", {one: data for one, data in members.items() if one != name})
    status, audit = alone(tmp_path, "--bundle", "less.tar")
    assert status == 1
    assert "missing" in states(audit).values()


@pytest.mark.slow
def test_small_files_that_are_left_out_are_claimed(bundle, tmp_path):
    members = {name: data for name, data in content(bundle).items() if not name.startswith("bytes/")}
    write(tmp_path / "less.tar", members)
    status, audit = alone(tmp_path, "--bundle", "less.tar")
    assert (status, states(audit)["hero/1+transcript"]) == (0, "claimed")


@pytest.mark.slow
def test_private_data_is_withheld_not_missing(ship, tmp_path, reckon, monkeypatch):
    shutil.rmtree(ship.root / "artifacts/data")
    monkeypatch.chdir(ship.root)
    audit = json.loads(reckon("audit", "handoff", "--json").stdout)
    assert (audit["holds"], states(audit)["data+bytes"]) == (False, "missing")
    assert reckon("withhold", "data", "--reason", "licensed to us alone").status == 0
    audit = json.loads(reckon("audit", "handoff", "--json").stdout)
    found = states(audit)
    assert (audit["holds"], audit["verdict"], found["data+bytes"]) == (True, "withheld", "withheld")
    assert found["words+input=data"] == found["stream/code+input=data"] == "withheld"
    made(ship, tmp_path / "private.tar")
    status, audit = alone(tmp_path, "--bundle", "private.tar")
    assert (status, audit["verdict"], states(audit)["data+bytes"]) == (0, "withheld", "withheld")


@pytest.mark.slow
def test_one_private_shard_is_withheld_and_the_others_are_still_checked(ship, reckon, monkeypatch):
    shard = ship.root / "artifacts/data/code/train-00003.parquet"
    shard.unlink()
    monkeypatch.chdir(ship.root)
    assert reckon("withhold", "data:code/train-00003.parquet", "--reason", "a person asked").status == 0
    assert reckon("withhold", "data:code/none", "--reason", "a person asked").status == 2
    assert reckon("withhold", "data", "--reason", " ").status == 2
    audit = json.loads(reckon("audit", "handoff", "--json").stdout)
    assert (audit["holds"], states(audit)["data+bytes"]) == (True, "withheld")
    ship.flip("artifacts/data/code/train-00005.parquet")
    audit = json.loads(reckon("audit", "handoff", "--json").stdout)
    assert (audit["holds"], states(audit)["data+bytes"]) == (False, "contradicted")


@pytest.mark.slow
def test_a_declaration_does_not_excuse_other_bytes(ship, reckon, monkeypatch):
    path = "artifacts/data/code/train-00003.parquet"
    declared = Withheld(name="data", digest=sha256(ship.read(path)), reason="a person asked")
    ship.records.put(Withheld.KIND, record_bytes(declared))
    ship.flip(path)
    monkeypatch.chdir(ship.root)
    audit = json.loads(reckon("audit", "handoff", "--json").stdout)
    assert states(audit)["data+bytes"] == "contradicted"


def test_a_shard_is_proved_without_the_others(built, tmp_path, reckon, monkeypatch):
    name = "data:code/train-00003.parquet"
    monkeypatch.chdir(built.root)
    proof, shard = tmp_path / "proof.json", tmp_path / "shard"
    assert reckon("prove", name, "-o", str(proof)).status == 0
    shutil.copy(built.root / "artifacts/data/code/train-00003.parquet", shard)
    assert reckon("prove", "--check", str(proof), "--file", str(shard)).status == 0
    tree = str(built.head("data")[2].outputs[0].digest)
    monkeypatch.chdir(tmp_path)
    assert reckon("prove", "--check", str(proof), "--tree", tree).status == 0
    assert reckon("prove", "--check", str(proof), "--tree", "sha256:" + "0" * 64).status == 1
    shard.write_bytes(shard.read_bytes() + b" ")
    assert reckon("prove", "--check", str(proof), "--file", str(shard), "--tree", tree).status == 1
    assert reckon("prove", "--check", str(shard), "--tree", tree).status == 2


def content(bundle: Path) -> dict[str, bytes]:
    with tarfile.open(bundle) as archive:
        return {one.name: archive.extractfile(one).read() for one in archive.getmembers() if one.name != "bundle.json"}


def write(file: Path, members: dict[str, bytes]) -> None:
    cover = Cover(name="handoff", product=sha256(b"any"))
    write_bundle(file, cover, members)


# Files that are no bundle.


def entry(name: str, data: bytes, **facts: object) -> bytes:
    told = tarfile.TarInfo(name)
    told.size, told.mode = len(data), 0o644
    for key, value in facts.items():
        setattr(told, key, value)
    return told.tobuf(tarfile.USTAR_FORMAT) + data + bytes(-len(data) % BLOCK_BYTES)


COVER = entry("bundle.json", record_bytes(Cover(name="handoff", product=sha256(b""))))
GOOD, OTHER = "bytes/" + "0" * 64, "bytes/" + "1" * 64
HOSTILE = {
    "empty": b"",
    "only an end": END[:BLOCK_BYTES],
    "text": b"hello" * 1000,
    "cut in a header": COVER[:300],
    "cut in a member": (COVER + entry(GOOD, b"x" * 2000))[:-1000],
    "no end": COVER,
    "more behind the end": COVER + END + b"more",
    "a second archive behind the end": COVER + END + COVER + END,
    "a name twice": COVER + entry(GOOD, b"1") * 2 + END,
    "out of order": COVER + entry(OTHER, b"1") + entry(GOOD, b"1") + END,
    "a path that leaves": entry("../bundle.json", b"") + END,
    "an absolute path": entry("/bundle.json", b"") + END,
    "another name": COVER + entry("bytes/readme", b"") + END,
    "a link": COVER + entry(GOOD, b"", type=tarfile.SYMTYPE, linkname="/etc/passwd") + END,
    "a hard link": COVER + entry(GOOD, b"", type=tarfile.LNKTYPE, linkname="bundle.json") + END,
    "a device": COVER + entry(GOOD, b"", type=tarfile.CHRTYPE) + END,
    "a folder": COVER + entry(GOOD, b"", type=tarfile.DIRTYPE) + END,
    "an owner": COVER + entry(GOOD, b"1", uid=1000) + END,
    "a time": COVER + entry(GOOD, b"1", mtime=1) + END,
    "a mode": COVER + entry(GOOD, b"1", mode=0o755) + END,
    "an extended header": COVER + entry("././@PaxHeader", b"30 mtime=1350244992.023960108\n", type=b"x") + END,
    "bytes in the padding": COVER + entry(GOOD, b"1")[:-1] + b"!" + END,
    "a size beyond the file": COVER + Member(GOOD, 2**30).header + END,
    "a size over the limit": COVER + entry(GOOD, b"").replace(b"00000000000\0", b"77777777777\0", 1) + END,
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_is_no_bundle_is_refused(what, tmp_path, reckon):
    file = tmp_path / "hostile.tar"
    file.write_bytes(HOSTILE[what])
    with pytest.raises(MalformedRecord, match="whole bundle"):
        BundleFile(file)
    assert reckon("audit", "--bundle", str(file)).status == 2


def test_a_bundle_without_cover_is_refused(tmp_path, reckon):
    file = tmp_path / "bare.tar"
    file.write_bytes(entry(GOOD, b"1") + END)
    assert reckon("audit", "--bundle", str(file)).status == 2


def test_a_pipe_and_a_folder_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path, tmp_path / "pipe", tmp_path / "nothing"):
        with pytest.raises(Refused):
            BundleFile(place)


def test_bytes_of_another_digest_are_not_given_out(tmp_path):
    from registry.adapters.bundles import BundlePapers, BundleRecords
    from registry.errors import DoesNotHold, UnknownName

    file = tmp_path / "one.tar"
    record = f"manifests/recipes/{sha256(b'1').hex}.json"
    write(file, {GOOD: b"1", record: b"2"})
    with BundleFile(file) as bundle:
        papers, records = BundlePapers(bundle), BundleRecords(bundle)
        with pytest.raises(DoesNotHold):
            papers.read("a", type(sha256(b""))(sha256(b"").algorithm, "0" * 64))
        with pytest.raises(UnknownName):
            papers.read("a", sha256(b"elsewhere"))
        with pytest.raises(DoesNotHold):
            records.get("recipe", sha256(b"1"))
        with pytest.raises(Refused):
            records.put("recipe", b"{}")
        assert (records.kinds(), records.digests("recipe"), records.strays()) == (("recipe",), (sha256(b"1"),), ())
