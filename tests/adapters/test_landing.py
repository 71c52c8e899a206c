"""A folder that files land in: resumed, proven, whole or not there, and never through somebody's link."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from registry.adapters.landing import LandingFolder
from registry.core.digests import git_blob, sha256
from registry.core.pulling import RemoteFile
from registry.errors import DoesNotHold, Refused

DATA = b"0123456789" * 300
LARGE = RemoteFile(path="a/w.bin", size_bytes=len(DATA), claimed=sha256(DATA))
SMALL = RemoteFile(path="c.json", size_bytes=len(DATA), claimed=git_blob(DATA))


def test_a_file_lands_whole_and_its_way_there_is_gone(tmp_path):
    with LandingFolder(tmp_path / "x/y") as landing:
        assert landing.held(LARGE) is None
        with landing.arriving(LARGE) as arriving:
            arriving.write(DATA)
            assert not (tmp_path / "x/y/a").exists()
            seen = arriving.observed()
            assert (seen.size_bytes, seen.sha256, seen.blob) == (len(DATA), LARGE.claimed, None)
            arriving.land()
        assert landing.held(LARGE) == seen
        assert landing.names() == ["a/w.bin"]
        assert list((tmp_path / "x/y/.cache/reckon/parts").iterdir()) == []


def test_what_a_killed_process_left_is_hashed_and_gone_on_from(tmp_path):
    with LandingFolder(tmp_path) as landing, landing.arriving(SMALL) as arriving:
        arriving.write(DATA[:1000])
    with LandingFolder(tmp_path) as landing, landing.arriving(SMALL) as arriving:
        assert arriving.size_bytes == 1000
        assert arriving.read(10, 20) == DATA[10:20]
        arriving.write(DATA[1000:])
        assert arriving.observed().blob == SMALL.claimed
        arriving.restart()
        assert arriving.size_bytes == 0
    other = RemoteFile(path=SMALL.path, size_bytes=len(DATA), claimed=git_blob(b"other"))
    with LandingFolder(tmp_path) as landing, landing.arriving(other) as arriving:
        assert arriving.size_bytes == 0, "another file of that name begins anew"


def test_a_part_that_is_too_long_begins_anew(tmp_path):
    with LandingFolder(tmp_path) as landing, landing.arriving(SMALL) as arriving:
        arriving.write(DATA + b"more")
    with LandingFolder(tmp_path) as landing, landing.arriving(SMALL) as arriving:
        assert arriving.size_bytes == 0


def test_a_name_that_was_taken_meanwhile_stays_whose_it_is(tmp_path):
    with LandingFolder(tmp_path) as landing, landing.arriving(SMALL) as arriving:
        arriving.write(DATA)
        (tmp_path / "c.json").write_text("mine")
        with pytest.raises(DoesNotHold, match="appeared"):
            arriving.land()
    assert (tmp_path / "c.json").read_text() == "mine"


def test_links_are_never_written_through(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a").symlink_to(outside)
    (tmp_path / "in/c.json").symlink_to(outside / "c.json")
    with LandingFolder(tmp_path / "in") as landing:
        with pytest.raises(Refused, match="no plain folder"):
            landing.held(LARGE)
        with pytest.raises(Refused, match="no plain folder"), landing.arriving(LARGE):
            pass
        with pytest.raises(Refused, match="no plain file"):
            landing.held(SMALL)
        assert landing.names() == ["a", "c.json"]
    (tmp_path / "in/.cache").rename(tmp_path / "moved")
    (tmp_path / "in/.cache").symlink_to(outside)
    with pytest.raises(Refused, match="no plain folder"):
        LandingFolder(tmp_path / "in")
    assert list(outside.iterdir()) == []


def test_a_folder_is_one_pullers_at_a_time(tmp_path):
    with LandingFolder(tmp_path), pytest.raises(Refused, match="Another process"):
        LandingFolder(tmp_path)
    with LandingFolder(tmp_path) as landing:
        landing.pin({"commit": "x"})
        assert landing.pins() == {"commit": "x"}
        Path(tmp_path / ".cache/reckon/pull.json").write_text("{")
        assert landing.pins() == {}


def test_planted_links_and_pipes_are_neither_followed_nor_waited_for(tmp_path):
    own = tmp_path / "in/.cache/reckon"
    own.mkdir(parents=True)
    victim = tmp_path / "victim"
    (own.parent / ".gitignore").symlink_to(victim)
    (own / "pull.json.new").symlink_to(victim)
    with LandingFolder(tmp_path / "in") as landing:
        landing.pin({"commit": "x"})
        assert landing.pins() == {"commit": "x"}
        (own / "pull.json").rename(tmp_path / "elsewhere.json")
        (own / "pull.json").symlink_to(tmp_path / "elsewhere.json")
        assert landing.pins() == {}
        (own / "pull.json").unlink()
        os.mkfifo(own / "pull.json")
        assert landing.pins() == {}
        (own / "pull.json").unlink()
        (own / "pull.json").write_text("[" * 100_000)
        assert landing.pins() == {}
        with landing.arriving(SMALL):
            [part] = (own / "parts").iterdir()
        part.unlink()
        os.mkfifo(part)
        with pytest.raises(Refused, match="no plain file"), landing.arriving(SMALL):
            pass
    assert not victim.exists()
    (own / "lock").unlink()
    (own / "lock").symlink_to(victim)
    with pytest.raises(Refused, match="no plain file"):
        LandingFolder(tmp_path / "in")
    assert not victim.exists()
