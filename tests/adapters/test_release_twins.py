"""A release folder whose large files are taken by their second digest: nothing passes that SHA-256 would refuse."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from blake3 import blake3
from support import trusted
from support.trusted import Sealed, write

from registry.adapters.hashing import ReleaseFolder
from registry.cli import releasing
from registry.core.digests import Algorithm, Digest, sha256
from registry.core.twins import FILE, Twin, encode
from registry.errors import OutsideFailed

WEIGHTS = "model.safetensors"
BYTES = b"weights" * 100
ELSEWHERE = sha256(b"what only the signer says")


def blake(data: bytes) -> Digest:
    return Digest(Algorithm.BLAKE3, blake3(data).hexdigest())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("one", "other"):
        write(tmp_path / "release", f"{name}.bin", name.encode() * 2**20)
    return tmp_path / "release"


def digests(folder: Path, twins: dict[str, Twin]) -> dict[str, Digest]:
    return {entry.path: entry.digest for entry in ReleaseFolder(root=folder).entries(twins)}


def test_the_signed_sha256_is_given_only_where_blake3_is_the_signed_one(folder: Path) -> None:
    one, other = (name * 2**20 for name in (b"one", b"other"))
    twins = {
        "one.bin": Twin(sha256=ELSEWHERE, blake3=blake(one)),
        "other.bin": Twin(sha256=ELSEWHERE, blake3=blake(other[:-1])),
        "gone.bin": Twin(sha256=ELSEWHERE, blake3=blake(b"")),
    }
    assert digests(folder, twins) == {"one.bin": ELSEWHERE, "other.bin": sha256(other)}
    for changed in (one[:-1], one + b"\0", b"", b"\0" + one[1:]):
        write(folder, "one.bin", changed)
        assert digests(folder, twins)["one.bin"] == sha256(changed)


def test_a_snapshot_of_links_is_followed(folder: Path, tmp_path: Path) -> None:
    snapshot = tmp_path / "models--a" / "snapshots" / "0"
    (tmp_path / "models--a" / "blobs").mkdir(parents=True)
    snapshot.mkdir(parents=True)
    blob = Path(shutil.copy(folder / "one.bin", tmp_path / "models--a" / "blobs" / "x"))
    (snapshot / "one.bin").symlink_to(blob)
    data = blob.read_bytes()
    assert digests(snapshot, {"one.bin": Twin(sha256=ELSEWHERE, blake3=blake(data))}) == {"one.bin": ELSEWHERE}


def test_a_file_that_grows_while_it_is_read_is_refused(folder: Path) -> None:
    def grow(_: int) -> None:
        with (folder / "one.bin").open("ab") as file:
            file.write(b"more")

    twins = {"one.bin": Twin(sha256=ELSEWHERE, blake3=blake(b"one" * 2**20))}
    with pytest.raises(OutsideFailed, match="changed while"):
        ReleaseFolder(root=folder, advance=grow).entries(twins)


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Sealed:
    """A release whose signature covers a list of second digests."""
    made = trusted.seal(tmp_path_factory.mktemp("release"))
    restated(made, encode({WEIGHTS: blake(BYTES)}))
    return made


def restated(release: Sealed, listed: bytes) -> None:
    """Put another list into a release, and sign everything again."""
    write(release.folder, FILE, listed)
    trusted.state(release.folder, trusted.TERMS, release.lab)


@pytest.fixture
def own(sealed: Sealed, tmp_path: Path) -> Sealed:
    """A copy to tamper with."""
    place = Path(shutil.copytree(sealed.folder, tmp_path / "copy"))
    return Sealed(folder=place, lab=sealed.lab, other=sealed.other, stranger=sealed.stranger)


def found(folder: Path, *, quickly: bool) -> tuple[bool, int, set[tuple[str, str]]]:
    """Whether a release holds, how many files were taken by BLAKE3, and what is wrong where."""
    with releasing.inspected(folder, None, quickly=quickly) as (looked, _):
        findings = looked.trusted.verdict.findings
        return looked.trusted.holds, looked.by_twins, {(one.trouble.value, one.path) for one in findings}


def test_a_release_with_a_list_holds_either_way(sealed: Sealed) -> None:
    assert found(sealed.folder, quickly=True) == (True, 1, set())
    assert found(sealed.folder, quickly=False) == (True, 0, set())


@pytest.mark.parametrize("change", ["flip", "cut", "grow", "remove", "extra", "rename", "list", "unlist", "signature"])
def test_what_was_altered_is_found_just_as_by_sha256(own: Sealed, change: str) -> None:
    place, folder = own.folder / WEIGHTS, own.folder
    if change == "flip":
        place.write_bytes(b"W" + BYTES[1:])
    elif change in ("cut", "grow"):
        os.truncate(place, len(BYTES) + (1 if change == "grow" else -1))
    elif change == "remove":
        place.unlink()
    elif change == "extra":
        write(folder, "pickle.bin", b"")
    elif change == "rename":
        place.rename(folder / "other.safetensors")
    elif change == "list":
        place.write_bytes(b"hostile")
        write(folder, FILE, encode({WEIGHTS: blake(b"hostile")}))
    elif change == "unlist":
        (folder / FILE).unlink()
    else:
        place.write_bytes(b"hostile")
        write(folder, FILE, encode({WEIGHTS: blake(b"hostile")}))
        write(folder, "model.sig", trusted.model_sig(folder, own.stranger))
    slowly, quickly = found(folder, quickly=False), found(folder, quickly=True)
    assert not slowly[0]
    assert (quickly[0], quickly[2]) == (slowly[0], slowly[2])


@pytest.mark.parametrize(
    "listed",
    [
        b"no list\n",
        encode({WEIGHTS: blake(BYTES)}) * 2,
        encode({WEIGHTS: blake(BYTES), "not/there.bin": blake(b"")}),
        encode({WEIGHTS: blake(BYTES)}).replace(b"model.", b"../model."),
        b"\xff",
    ],
)
def test_a_signed_list_that_will_not_do_is_passed_by(own: Sealed, listed: bytes) -> None:
    restated(own, listed)
    assert found(own.folder, quickly=True) == (True, 0, set())
    (own.folder / WEIGHTS).write_bytes(b"hostile")
    assert found(own.folder, quickly=True) == (False, 0, {("altered", WEIGHTS)})


def test_a_list_with_another_digest_costs_time_and_nothing_else(own: Sealed) -> None:
    restated(own, encode({WEIGHTS: blake(b"other")}))
    assert found(own.folder, quickly=True)[0::2] == (True, set())


def test_a_signer_whose_digests_disagree_is_found_by_sha256(own: Sealed) -> None:
    """Who signs can lie in one of two digests of a file: BLAKE3 is the signer's word too, and SHA-256 finds out."""
    restated(own, encode({WEIGHTS: blake(b"what is given out")}))
    (own.folder / WEIGHTS).write_bytes(b"what is given out")
    assert found(own.folder, quickly=True)[0]
    assert found(own.folder, quickly=False) == (False, 0, {("altered", WEIGHTS)})
