"""DVC's cache is found by its locators and read as hostile bytes."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from registry.adapters.cache import DvcCache, cache_folder
from registry.adapters.hashing import hash_file
from registry.core.digests import FileEntry, sha256
from registry.errors import DoesNotHold, MalformedRecord, Refused, UnknownName

FILES = {"a.txt": b"one", "deep/b.txt": b"two"}


def md5_of(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def keep(root: Path, data: bytes, suffix: str = "") -> str:
    """Put an object where DVC puts it."""
    md5 = md5_of(data)
    path = root / ".dvc/cache/files/md5" / md5[:2] / (md5[2:] + suffix)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return md5 + suffix


def keep_folder(root: Path, rows: object = None) -> str:
    if rows is None:
        rows = [{"md5": keep(root, data), "relpath": path} for path, data in FILES.items()]
    return keep(root, json.dumps(rows).encode(), ".dir")


def cache(root: Path) -> DvcCache:
    return DvcCache(root, hash_file=hash_file)


def entry(path: str, data: bytes) -> FileEntry:
    return FileEntry(path=path, size_bytes=len(data), digest=sha256(data))


def test_a_folder_and_a_file_are_hashed(tmp_path: Path) -> None:
    assert list(cache(tmp_path).files(keep_folder(tmp_path), "x")) == [
        entry(path, data) for path, data in FILES.items()
    ]
    assert list(cache(tmp_path).files(keep(tmp_path, b"one"), "x.txt")) == [entry("x.txt", b"one")]


def test_an_altered_object_is_hashed_as_it_is(tmp_path: Path) -> None:
    locator = keep_folder(tmp_path)
    md5 = md5_of(b"one")
    (tmp_path / f".dvc/cache/files/md5/{md5[:2]}/{md5[2:]}").write_bytes(b"oNe")
    assert next(iter(cache(tmp_path).files(locator, "x"))) == entry("a.txt", b"oNe")


def test_missing_objects_are_left_out(tmp_path: Path) -> None:
    locator = keep_folder(tmp_path)
    md5 = md5_of(b"one")
    (tmp_path / f".dvc/cache/files/md5/{md5[:2]}/{md5[2:]}").unlink()
    assert list(cache(tmp_path).files(locator, "x")) == [entry("deep/b.txt", b"two")]
    assert list(cache(tmp_path).files("0" * 32, "x")) == []
    with pytest.raises(UnknownName, match="dvc pull"):
        cache(tmp_path).files("0" * 32 + ".dir", "x")


@pytest.mark.parametrize(
    "locator", ["", "x", "0" * 31, "0" * 33, "../" + "0" * 32, "0" * 32 + ".DIR", "sha256:" + "0" * 64]
)
def test_what_is_no_locator_is_refused(tmp_path: Path, locator: str) -> None:
    with pytest.raises(Refused, match="not a locator"):
        cache(tmp_path).files(locator, "x")


@pytest.mark.parametrize(
    "rows",
    [
        {"a": 1},
        [1],
        [{"relpath": "a"}],
        [{"relpath": "a", "md5": "../../../etc/passwd"}],
        [{"relpath": "a", "md5": "0" * 31}],
        [[["deep"]]],
    ],
    ids=str,
)
def test_a_damaged_list_does_not_hold(tmp_path: Path, rows: object) -> None:
    with pytest.raises(DoesNotHold, match="is damaged"):
        cache(tmp_path).files(keep_folder(tmp_path, rows), "x")


@pytest.mark.parametrize("data", [b"", b"not JSON", b"[" * 100_000, b"\xff"])
def test_a_list_that_is_no_json_does_not_hold(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(DoesNotHold, match="is damaged"):
        cache(tmp_path).files(keep(tmp_path, data, ".dir"), "x")


def test_a_path_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    locator = keep_folder(tmp_path, [{"md5": keep(tmp_path, b"one"), "relpath": "../a"}])
    with pytest.raises((Refused, MalformedRecord)):
        cache(tmp_path).files(locator, "x")


def test_the_cache_is_where_the_configuration_says(tmp_path: Path) -> None:
    assert cache_folder(tmp_path) == tmp_path / ".dvc/cache"
    (tmp_path / ".dvc").mkdir()
    (tmp_path / ".dvc/config").write_text("[core]\n    analytics = false\n['remote \"x\"']\n    url = a%b\n")
    assert cache_folder(tmp_path) == tmp_path / ".dvc/cache"
    (tmp_path / ".dvc/config").write_text("[cache]\n    dir = ../shared\n")
    assert cache_folder(tmp_path).resolve() == tmp_path / "shared"
    (tmp_path / ".dvc/config.local").write_text("[cache]\n    dir = /elsewhere\n")
    assert cache_folder(tmp_path) == Path("/elsewhere")
    (tmp_path / ".dvc/config").write_text("no section\n")
    with pytest.raises(Refused, match="configuration of DVC"):
        cache_folder(tmp_path)
