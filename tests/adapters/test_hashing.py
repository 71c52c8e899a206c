"""Files and trees as digests."""

import hashlib
import os
import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.adapters.hashing import Disk, Remembered, TreeHasher, files, folder_locator, hash_file, hash_tree
from registry.adapters.hashing.walking import found_tree
from registry.core.digests import FileEntry, sha256
from registry.errors import OutsideFailed, Refused

CONTENT = {
    "b/2.bin": b"two" * 1000,
    "a.txt": b"text\r\n",
    "b/c/empty": b"",
    "b.x/é": "é".encode(),
    "b/long": b"x" * 3_000_000,
}
MD5 = {path: hashlib.md5(data, usedforsecurity=False).hexdigest() for path, data in CONTENT.items()}
PARTS = st.text("abcé. ", min_size=1, max_size=3).filter(lambda part: part.strip(".") and part == part.strip())


def write(root, content):
    for path, data in content.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    return root


def expected(content):
    return tuple(
        FileEntry(path=path, size_bytes=len(data), digest=sha256(data)) for path, data in sorted(content.items())
    )


@pytest.fixture
def tree(tmp_path):
    return write(tmp_path / "tree", CONTENT)


def test_a_tree_is_its_files_sorted_by_path(tree):
    (tree / "nothing" / "here").mkdir(parents=True)
    assert hash_tree(tree) == expected(CONTENT)
    assert hash_tree(tree / "nothing") == ()


@settings(max_examples=25)
@given(st.dictionaries(PARTS, st.binary(max_size=50), max_size=8), st.integers(1, 4))
def test_any_tree_is_hashed_as_its_bytes(tmp_path_factory, content, workers):
    root = write(tmp_path_factory.mktemp("any"), content)
    assert TreeHasher(workers=workers).entries(root) == expected(content)


def test_a_file_is_its_size_and_sha256(tree):
    for path, data in CONTENT.items():
        assert hash_file(tree / path) == (len(data), sha256(data))


def test_many_small_files_keep_their_names(tmp_path):
    content = {f"{number % 7}/{number}": str(number).encode() for number in range(500)}
    assert hash_tree(write(tmp_path, content)) == expected(content)


def test_progress_is_told_in_bytes(tree):
    told = []
    TreeHasher(advance=told.append).entries(tree)
    assert sum(told) == sum(map(len, CONTENT.values()))


def test_md5_is_taken_along_on_request(tree):
    hashed = TreeHasher(with_md5=True).hashes(found_tree(tree))
    assert {found.path: one.md5 for found, one in hashed} == MD5
    assert {one.md5 for _, one in TreeHasher().hashes(found_tree(tree))} == {None}


def test_a_link_inside_of_the_tree_is_the_file_behind_it(tree):
    (tree / "link").symlink_to("b/2.bin")
    assert hash_tree(tree) == expected(CONTENT | {"link": CONTENT["b/2.bin"]})


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("../secret", "leaves its tree"),
        ("/etc/hostname", "leaves its tree"),
        ("b/../../secret", "leaves its tree"),
        ("b/nowhere", "is broken"),
        ("b", "not a regular file"),
        ("link", "leaves its tree|is broken|symbolic links"),
    ],
)
def test_other_links_are_refused(tree, target, says):
    write(tree.parent, {"secret": b"1", "tree-beside/x": b"1"})
    (tree / "link").symlink_to(target)
    with pytest.raises((Refused, OSError), match=says):
        hash_tree(tree)


def test_a_sibling_whose_name_begins_alike_is_outside(tree):
    write(tree.parent, {"tree-beside/x": b"1"})
    (tree / "link").symlink_to("../tree-beside/x")
    with pytest.raises(Refused, match="leaves its tree"):
        hash_tree(tree)


def test_special_files_are_refused_and_not_opened(tree):
    os.mkfifo(tree / "pipe")
    with pytest.raises(Refused, match="not a regular file"):
        hash_tree(tree)
    with pytest.raises(Refused, match="not a regular file"):
        hash_file(tree / "pipe")


@pytest.mark.parametrize("name", [b"\xff", b"a\nb", b"a\\b", b"\x1b[2J"])
def test_names_that_are_no_plain_text_are_refused(tree, name):
    (tree / os.fsdecode(name)).write_bytes(b"1")
    with pytest.raises(Refused, match=r"UTF-8|relative path"):
        hash_tree(tree)


def test_a_file_that_changes_while_it_is_hashed_is_no_digest(tree, monkeypatch):
    found = [one for one in found_tree(tree) if one.path == "a.txt"]
    (tree / "a.txt").write_bytes(b"other")
    with pytest.raises(OutsideFailed, match="changed while it was hashed"):
        TreeHasher().hashes(found)


def test_a_file_that_grows_under_the_reader_is_no_digest(tree):
    def grow(_):
        with (tree / "a.txt").open("ab") as file:
            file.write(b"more")

    with pytest.raises(OutsideFailed, match="changed while it was hashed"):
        TreeHasher(advance=grow).entries(tree)


def remembered(path):
    """A memory for which every file was written long ago."""
    return Remembered(path=path, now_ns=lambda: 2**62)


def reads(monkeypatch):
    seen = []
    feed = files.feed
    monkeypatch.setattr(files, "feed", lambda *given: seen.append(1) or feed(*given))
    return seen


def test_an_unchanged_tree_is_not_read_again_when_the_caller_says_so(tree, tmp_path, monkeypatch):
    memory = remembered(tmp_path / "cache" / "digests")
    first = hash_tree(tree, remembered=memory)
    seen = reads(monkeypatch)
    assert hash_tree(tree, remembered=memory) == first == expected(CONTENT)
    assert Disk(tree.parent, remembered=memory).files("tree") == first
    assert not seen
    assert hash_tree(tree) == first
    assert len(seen) == len(CONTENT)


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.write_bytes(b"TEXT\r\n"),
        lambda path: (path.write_bytes(b"TEXT\r\n"), os.utime(path, ns=(1, 1))),
        lambda path: (path.unlink(), path.write_bytes(b"TEXT\r\n")),
    ],
)
def test_a_changed_file_is_read_again(tree, tmp_path, change):
    """Setting the old time of the bytes does not help: the inode's own time cannot be set."""
    memory = remembered(tmp_path / "digests")
    os.utime(tree / "a.txt", ns=(1, 1))
    hash_tree(tree, remembered=memory)
    change(tree / "a.txt")
    assert hash_tree(tree, remembered=memory) == expected(CONTENT | {"a.txt": b"TEXT\r\n"})


def test_a_file_that_was_just_written_is_not_remembered(tree, tmp_path, monkeypatch):
    memory = Remembered(path=tmp_path / "digests")
    hash_tree(tree, remembered=memory)
    seen = reads(monkeypatch)
    hash_tree(tree, remembered=memory)
    assert len(seen) == len(CONTENT)


def test_md5_is_read_when_only_sha256_is_remembered(tree, tmp_path):
    memory = remembered(tmp_path / "digests")
    hash_tree(tree, remembered=memory)
    for _ in range(2):
        hashed = TreeHasher(remembered=memory, with_md5=True).hashes(found_tree(tree))
        assert all(one.md5 for _, one in hashed)


@pytest.mark.parametrize("damage", [b"", b"no database", os.urandom(20_000)])
def test_a_damaged_memory_is_replaced(tree, tmp_path, monkeypatch, damage):
    memory = remembered(tmp_path / "digests")
    memory.path.write_bytes(damage)
    assert hash_tree(tree, remembered=memory) == expected(CONTENT)
    seen = reads(monkeypatch)
    assert hash_tree(tree, remembered=memory) == expected(CONTENT)
    assert not seen


def test_a_foreign_or_forged_memory_is_not_believed_blindly(tree, tmp_path):
    memory = remembered(tmp_path / "digests")
    hash_tree(tree, remembered=memory)
    with sqlite3.connect(memory.path) as database:
        database.execute("update files set sha256 = 'x'")
    assert hash_tree(tree, remembered=memory) == expected(CONTENT)


def test_a_memory_that_cannot_be_written_is_done_without(tree, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    assert hash_tree(tree, remembered=remembered(tmp_path / "file" / "digests")) == expected(CONTENT)


def test_a_locked_memory_is_left_alone(tree, tmp_path, monkeypatch):
    memory = remembered(tmp_path / "digests")
    hash_tree(tree, remembered=memory)
    before = memory.path.read_bytes()
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda path, timeout: connect(path, timeout=0.01))
    other = connect(memory.path)
    other.execute("begin exclusive")
    assert hash_tree(tree, remembered=memory) == expected(CONTENT)
    other.close()
    assert memory.path.read_bytes() == before


def test_the_disk_tells_of_files_and_folders_by_relative_path(tree):
    disk = Disk(tree.parent)
    assert disk.exists("tree")
    assert disk.exists("tree/a.txt")
    assert not disk.exists("tree/nowhere")
    assert disk.is_folder("tree")
    assert not disk.is_folder("tree/a.txt")
    assert disk.files("tree") == expected(CONTENT)
    assert disk.files("tree/a.txt") == expected({"a.txt": CONTENT["a.txt"]})
    assert disk.read("tree/a.txt") == CONTENT["a.txt"]


@pytest.mark.parametrize("path", ["", "/etc/hostname", "../x", "tree/../x", "tree//a.txt"])
def test_the_disk_refuses_paths_that_leave_it(tree, path):
    for ask in (Disk(tree).exists, Disk(tree).files, Disk(tree).locator, Disk(tree).read):
        with pytest.raises(Refused, match="relative path"):
            ask(path)


def test_the_disk_refuses_what_is_missing_or_linked_out(tree):
    (tree / "link").symlink_to("/etc/hostname")
    for ask in (Disk(tree).files, Disk(tree).locator, Disk(tree).read):
        with pytest.raises(Refused, match="does not exist"):
            ask("nowhere")
        with pytest.raises(Refused, match="leaves its tree"):
            ask("link")


def test_locators_are_md5(tree):
    disk = Disk(tree.parent)
    assert disk.locator("tree/a.txt") == MD5["a.txt"]
    assert disk.locator("tree") == folder_locator(reversed(MD5.items()))
