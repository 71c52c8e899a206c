"""Files and folders of the working tree, observed. Fake and disk alike."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fakes.workshop import FakeDisk

from registry.adapters.hashing import Disk
from registry.core.digests import FileEntry, sha256
from registry.errors import Refused
from registry.ports import Bytes

HELD = {"tree/b/two": b"2", "tree/a": b"one", "tree/b.x": b"", "single.json": b"{}"}


def entry(path: str, data: bytes) -> FileEntry:
    return FileEntry(path=path, size_bytes=len(data), digest=sha256(data))


@pytest.fixture(params=["fake", "disk"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Bytes:
    if request.param == "fake":
        return FakeDisk(dict(HELD))
    for path, data in HELD.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)
    return Disk(tmp_path)


def test_what_is_there_is_a_file_or_a_folder(disk: Bytes) -> None:
    assert [disk.exists(path) for path in ("tree", "tree/b", "tree/a", "single.json", "tree/c")] == [True] * 4 + [False]
    assert [disk.is_folder(path) for path in ("tree", "tree/b", "tree/a", "tree/c")] == [True, True, False, False]


def test_a_folder_is_its_files_sorted_by_path(disk: Bytes) -> None:
    assert list(disk.files("tree")) == [entry("a", b"one"), entry("b.x", b""), entry("b/two", b"2")]


def test_a_file_goes_by_its_own_name(disk: Bytes) -> None:
    assert list(disk.files("single.json")) == [entry("single.json", b"{}")]
    assert list(disk.files("tree/b/two")) == [entry("two", b"2")]


def test_locators_tell_files_from_folders_and_contents_apart(disk: Bytes) -> None:
    assert re.fullmatch(r"[0-9a-f]{32}\.dir", disk.locator("tree"))
    assert re.fullmatch(r"[0-9a-f]{32}", disk.locator("tree/a"))
    assert disk.locator("tree/a") != disk.locator("tree/b/two")


def test_a_file_is_read(disk: Bytes) -> None:
    assert disk.read("single.json") == b"{}"


@pytest.mark.parametrize("ask", ["files", "read"])
def test_what_is_missing_is_refused(disk: Bytes, ask: str) -> None:
    with pytest.raises(Refused, match="does not exist"):
        getattr(disk, ask)("nowhere")
