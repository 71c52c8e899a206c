"""The places that a clean-up may empty: found by walking, never left through a link; nothing outside is touched."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from registry.adapters.cache import cache_folder
from registry.adapters.places import Places
from registry.adapters.tracked import tracked
from registry.core.deletion import Place, Unit
from registry.errors import OutsideFailed, Refused

NAME = "ab" + "0" * 30
ATTEMPT = "20261130t120000z-0000000a"
STAGES = ("rung/d32", "corpus", "rung/d48")


class Ground:
    """An archive and, beside it, a folder that must never be touched."""

    def __init__(self, folder: Path) -> None:
        self.root, self.outside = folder / "archive", folder / "outside"
        for path in (self.root / "artifacts", self.outside):
            path.mkdir(parents=True)
        for at in range(3):
            self.write(self.outside / f"{at:02x}/{'0' * 30}", b"precious")
        self.before = self.seen()

    def seen(self) -> dict[str, bytes]:
        return {path.as_posix(): path.read_bytes() for path in self.outside.rglob("*") if path.is_file()}

    def write(self, path: Path | str, data: bytes = b"x") -> Path:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        return target

    def link(self, path: str, target: Path) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).symlink_to(target)

    def places(self, cache: Path | None = None) -> Places:
        return Places(self.root, {Place.CACHE: cache or self.root / ".dvc/cache/files/md5"})

    def units(self) -> list[Unit]:
        return list(self.places().units(STAGES))


@pytest.fixture
def ground(tmp_path):
    made = Ground(tmp_path)
    yield made
    assert made.seen() == made.before


def named(units: list[Unit]) -> list[tuple[str, str]]:
    return sorted((unit.place.value, unit.name) for unit in units)


def test_everything_that_could_go_is_found_as_a_unit(ground):
    for path in (
        f".dvc/cache/files/md5/ab/{'0' * 30}",
        f".dvc/cache/files/md5/ab/{'1' * 30}.dir",
        f"artifacts/runs/rung/d32/{ATTEMPT}/run.jsonl",
        f"artifacts/runs/rung/d32/{ATTEMPT}/wandb/x/y",
        "artifacts/scratch/rung/d32/key/states/step-5/x",
        "artifacts/scratch/rung/d32/key/work/y",
        "artifacts/scratch/rung/d48/other/z",
        "artifacts/scratch/corpus/some.whl",
        "artifacts/scratch/stray/deep/file",
        "artifacts/.gc/0011/x",
    ):
        ground.write(path)
    (ground.root / "artifacts/scratch/rung/d32/empty").mkdir()
    assert named(ground.units()) == [
        ("cache", NAME),
        ("cache", "ab" + "1" * 30 + ".dir"),
        ("leftover", "0011"),
        ("runs", f"rung/d32/{ATTEMPT}"),
        ("scratch", "corpus/some.whl"),
        ("scratch", "rung/d32/empty"),
        ("scratch", "rung/d32/key"),
        ("scratch", "rung/d48/other"),
        ("scratch", "stray"),
    ]
    places = ground.places()
    for unit in list(places.units(STAGES)):
        places.remove(unit)
    assert not ground.units()
    assert not [path for path in ground.root.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    "path",
    [
        f"a/{'0' * 31}",
        f"ab/{'0' * 29}",
        f"ab/{'0' * 31}",
        f"AB/{'0' * 30}",
        f"ab/{'g' * 30}",
        f"ab/{'0' * 30}.unpacked",
        f"ab/{'0' * 30}.dir.x",
        f"ab/deep/{'0' * 30}",
        "notes.txt",
    ],
)
def test_what_is_no_object_of_dvc_is_left_alone(ground, path):
    ground.write(f".dvc/cache/files/md5/{path}")
    assert ground.units() == []


@pytest.mark.parametrize(
    "link",
    [
        ".dvc/cache/files/md5",
        ".dvc/cache/files",
        ".dvc/cache",
        ".dvc",
        ".dvc/cache/files/md5/00",
        f".dvc/cache/files/md5/ab/{'0' * 30}",
        "artifacts/scratch",
        "artifacts/runs",
        "artifacts/.gc",
        "artifacts/scratch/rung",
        "artifacts/runs/rung/d32",
    ],
)
def test_no_link_is_followed(ground, link):
    if link.startswith("artifacts/.gc"):
        shutil.rmtree(ground.root / "artifacts/.gc", ignore_errors=True)
    ground.link(link, ground.outside)
    places = ground.places()
    for unit in list(places.units(STAGES)):
        assert not unit.files
        places.remove(unit)
    if link in (".dvc/cache", ".dvc", "artifacts/scratch", "artifacts/runs", "artifacts/.gc"):
        assert places.notes or link in (".dvc/cache", ".dvc")


def test_artifacts_behind_a_link_are_left_alone(ground):
    shutil.rmtree(ground.root / "artifacts")
    ground.link("artifacts", ground.outside)
    (ground.outside / "scratch/rung/d32/key").mkdir(parents=True)
    ground.write(ground.outside / "scratch/rung/d32/key/x")
    ground.before = ground.seen()
    places = ground.places()
    assert list(places.units(STAGES)) == []
    assert places.notes


def test_links_in_scratch_go_and_what_they_point_to_stays(ground):
    ground.write("artifacts/scratch/rung/d32/key/x")
    ground.link("artifacts/scratch/rung/d32/key/away", ground.outside)
    ground.link("artifacts/scratch/rung/d32/direct", ground.outside)
    ground.link("artifacts/scratch/rung/d32/file", ground.outside / f"00/{'0' * 30}")
    places = ground.places()
    units = list(places.units(STAGES))
    assert [len(unit.files) for unit in units] == [0, 0, 1]
    for unit in units:
        places.remove(unit)
    assert not list((ground.root / "artifacts/scratch/rung/d32").iterdir())


@pytest.mark.parametrize(
    "where", ["../../outside", "/nowhere/at/all", "../train", "..", "../manifests", "../../archive-two"]
)
def test_a_store_that_the_settings_put_elsewhere_is_left_alone(ground, where):
    """The configuration of DVC comes with a clone: it may name any folder."""
    ground.write("train/files/md5/ab/" + "0" * 30, b"code")
    ground.write("files/md5/ab/" + "0" * 30, b"code")
    ground.write("manifests/files/md5/ab/" + "0" * 30, b"record")
    ground.write(ground.outside / f"files/md5/ab/{'0' * 30}", b"precious")
    ground.write(ground.outside.parent / f"archive-two/files/md5/ab/{'0' * 30}", b"precious")
    ground.before = ground.seen()
    ground.write(".dvc/config", f"[cache]\n    dir = {where}\n".encode())
    places = ground.places(cache_folder(ground.root) / "files/md5")
    assert list(places.units(STAGES)) == []


@pytest.mark.parametrize("path", ["../outside/00/" + "0" * 30, "/etc/passwd", "artifacts/../../outside", "a//b", ""])
@pytest.mark.parametrize("place", [Place.CACHE, Place.SCRATCH, Place.RUNS, Place.LEFTOVER])
def test_a_path_that_leaves_the_archive_is_refused(ground, place, path):
    ground.write("artifacts/scratch/rung/d32/key/x")
    (unit,) = ground.units()
    with pytest.raises(Refused):
        ground.places().remove(replace(unit, place=place, path=path))


@pytest.mark.parametrize("path", ["artifacts/scratch", "artifacts/rung/d32", "train/order.py", "artifacts/runs/x"])
def test_a_path_outside_of_its_place_is_refused(ground, path):
    ground.write("artifacts/scratch/rung/d32/key/x")
    for other in ("artifacts/rung/d32/y", "train/order.py", "artifacts/runs/x/y"):
        ground.write(other)
    (unit,) = [one for one in ground.units() if one.place is Place.SCRATCH]
    with pytest.raises(Refused, match="no part"):
        ground.places().remove(replace(unit, path=path))
    assert (ground.root / "train/order.py").is_file()


def test_a_folder_that_becomes_a_link_in_between_leads_nowhere(ground):
    """After the look, a folder on the way is replaced by a link to one that holds the same names."""
    ground.write(f".dvc/cache/files/md5/00/{'0' * 30}", b"precious")
    ground.write("artifacts/scratch/rung/d32/00/" + "0" * 30, b"precious")
    places = ground.places()
    units = list(places.units(STAGES))
    assert len(units) == 2
    for folder in (".dvc/cache/files/md5/00", "artifacts/scratch/rung/d32/00"):
        shutil.rmtree(ground.root / folder)
        ground.link(folder, ground.outside / "00")
    for folder in ("artifacts/scratch/rung/d32",):
        shutil.rmtree(ground.root / folder)
        ground.link(folder, ground.outside)
    for unit in units:
        with pytest.raises((OutsideFailed, OSError)):
            places.remove(unit)


@pytest.mark.parametrize("path", [f".dvc/cache/files/md5/ab/{'0' * 30}", "artifacts/scratch/rung/d32/key/x"])
def test_what_changed_since_the_look_is_left_alone(ground, path):
    file = ground.write(path)
    places = ground.places()
    (unit,) = places.units(STAGES)
    file.write_bytes(b"y")
    os.utime(file, ns=(1, 1))
    with pytest.raises(OutsideFailed, match="changed"):
        places.remove(unit)
    assert file.read_bytes() == b"y"


def test_a_file_that_joined_since_the_look_keeps_the_folder(ground):
    ground.write("artifacts/scratch/rung/d32/key/x")
    places = ground.places()
    (unit,) = places.units(STAGES)
    ground.write("artifacts/scratch/rung/d32/key/new")
    with pytest.raises(OutsideFailed, match="changed"):
        places.remove(unit)


def test_odd_names_are_taken_as_they_are(ground):
    for name in ("with space", "new\nline", "-rf", "*", "ünï", "$(reboot)"):
        ground.write(f"artifacts/scratch/rung/d32/key/{name}/x")
    os.mkdir(os.path.join(os.fsencode(ground.root), b"artifacts/scratch/rung/d32/key/\xff\xfe"))  # noqa: PTH102, PTH118
    places = ground.places()
    (unit,) = places.units(STAGES)
    places.remove(unit)
    assert not (ground.root / "artifacts/scratch/rung/d32/key").exists()


def test_one_folder_as_two_stores_is_looked_at_once(ground):
    ground.write(f".dvc/cache/files/md5/ab/{'0' * 30}")
    folder = ground.root / ".dvc/cache/files/md5"
    places = Places(ground.root, {Place.CACHE: folder, Place.REMOTE: ground.root / ".dvc/../.dvc/cache/files/md5"})
    assert len(list(places.units(STAGES))) == 1


def test_what_dvc_tracks_is_read_as_text(ground):
    ground.write("dvc.lock", b"outs:\n- path: x\n  md5: " + b"a" * 32 + b".dir\n")
    ground.write("data.dvc", b"outs:\n- md5: '" + b"b" * 32 + b"'\n  junk: \xff\xfe [\n")
    assert tracked(ground.root) == {"a" * 32 + ".dir": "dvc.lock", "b" * 32: "data.dvc"}
