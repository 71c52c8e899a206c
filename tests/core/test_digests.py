"""Digests, and the digest of a tree."""

import hashlib
import subprocess

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from registry.core.digests import Algorithm, Digest, FileEntry, git_blob, record_digest, sha256, tree_digest
from registry.errors import MalformedRecord, Refused

DIGESTS = st.binary(max_size=4).map(sha256)
PARTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc",), exclude_characters="/\\"), min_size=1).filter(
    lambda part: part not in (".", "..")
)
ENTRIES = st.builds(
    FileEntry,
    path=st.lists(PARTS, min_size=1, max_size=3).map("/".join),
    size_bytes=st.integers(0, 2**53 - 1),
    digest=DIGESTS,
)
TREES = st.lists(ENTRIES, min_size=1, max_size=6, unique_by=lambda entry: entry.path)


def entry(path="a", size_bytes=1, data=b"1"):
    return FileEntry(path=path, size_bytes=size_bytes, digest=sha256(data))


@pytest.mark.parametrize(("algorithm", "length"), [("sha256", 64), ("blake3", 64), ("git", 40), ("md5", 32)])
def test_a_digest_has_one_spelling(algorithm, length):
    text = f"{algorithm}:{'0f' * (length // 2)}"
    digest = Digest.parse(text)
    assert str(digest) == text
    assert Digest(Algorithm(algorithm), text.partition(":")[2]) == digest
    assert digest.short == "0f0f0f0f0f0f"
    for other in (
        text + "0",
        text[:-1],
        text.upper(),
        text.replace("0f", "0F"),
        text + ".dir",
        f" {text}",
        text + "\n",
    ):
        with pytest.raises(MalformedRecord):
            Digest.parse(other)


@pytest.mark.parametrize(
    "text", ["", ":", "sha256:", "sha512:" + "0" * 128, "0" * 64, None, 7, b"sha256:00", ["sha256"]]
)
def test_anything_else_is_no_digest(text):
    with pytest.raises(MalformedRecord, match="is not a digest"):
        Digest.parse(text)


def test_known_answers():
    assert sha256(b"abc").hex == hashlib.sha256(b"abc").hexdigest()
    assert record_digest({"b": 1, "a": [True, None]}) == sha256(b'{"a":[true,null],"b":1}')
    root = hashlib.sha256(b"\0" + f'[["a",1,"{sha256(b"1")}"]]'.encode()).hexdigest()
    assert tree_digest([entry()]) == sha256(f'{{"files":1,"kind":"tree","root":"sha256:{root}","schema":1}}'.encode())


@given(st.binary())
def test_a_git_blob_is_what_git_says(data):
    text = b"blob " + str(len(data)).encode() + b"\0" + data
    assert git_blob(data).hex == hashlib.sha1(text, usedforsecurity=False).hexdigest()


def test_git_itself_agrees():
    said = subprocess.run(["git", "hash-object", "--stdin"], input=b"text\r\n", capture_output=True, check=True)
    assert git_blob(b"text\r\n").hex == said.stdout.decode().strip()


@given(TREES, st.randoms())
def test_the_order_of_files_does_not_matter(tree, random):
    shuffled = list(tree)
    random.shuffle(shuffled)
    assert tree_digest(shuffled) == tree_digest(iter(tree))


@pytest.mark.slow
@given(TREES, ENTRIES)
def test_any_other_file_changes_the_tree(tree, other):
    assume(other not in tree and other.path not in {one.path for one in tree[1:]})
    assert tree_digest([other, *tree[1:]]) != tree_digest(tree)


def test_a_path_twice_is_refused():
    with pytest.raises(MalformedRecord, match="twice"):
        tree_digest([entry(), entry(data=b"2")])


@pytest.mark.parametrize("path", ["", ".", "..", "/a", "a/", "a//b", "../a", "a/../b", "a/./b", "a\\b", "a\nb", "a\0"])
def test_a_path_that_could_leave_its_tree_is_refused(path):
    with pytest.raises(Refused, match="not a relative path"):
        entry(path)


def test_a_name_that_is_no_text_is_refused():
    with pytest.raises(MalformedRecord):
        tree_digest([entry("a\udcff")])


def test_a_negative_size_and_another_algorithm_are_refused():
    with pytest.raises(MalformedRecord):
        entry(size_bytes=-1)
    with pytest.raises(MalformedRecord):
        FileEntry(path="a", size_bytes=1, digest=Digest.parse("md5:" + "0" * 32))
