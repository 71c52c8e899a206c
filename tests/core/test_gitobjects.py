"""Git's objects by their bytes: what git itself says of a commit, and objects that are not what they are called."""

from __future__ import annotations

import hashlib
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.adapters.commits import GitStore
from registry.core.digests import git_blob
from registry.core.gitobjects import GitTrees, object_id, opened
from registry.errors import DoesNotHold, MalformedRecord, ReckonError, UnknownName


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    root = tmp_path_factory.mktemp("repository")
    files = {"a.txt": b"a", "deep/er/b.txt": b"b\0\xff", "deep/er/ä ö.txt": b"", "deep/c.txt": b"c" * 70_000}
    for path, data in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    for arguments in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-q", "-m", "One")):
        subprocess.run(["git", *arguments], cwd=root, check=True)
    (root / "later.txt").write_text("later")
    for arguments in (("add", "-A"), ("commit", "-q", "-m", "Two"), ("gc", "-q")):
        subprocess.run(["git", *arguments], cwd=root, check=True)
    return root, files


def git(root, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True).stdout.strip()


def test_the_files_of_a_commit_are_those_that_git_names(repository):
    root, files = repository
    head, tree = git(root, "rev-parse", "HEAD", "HEAD^{tree}").split()
    with GitStore(root) as store:
        trees = GitTrees(store.read)
        assert store.here
        assert trees.tree(head).hex == tree
        for path, data in files.items():
            assert trees.blob(head, path) == git_blob(data)
            assert trees.content(head, path) == data
        for absent in ("b.txt", "deep", "deep/er", "deep/er/b.txt/more", "a.txt/", "", "/".join("x" * 100)):
            assert trees.blob(head, absent) is None
        with pytest.raises(UnknownName):
            trees.tree("f" * 40)


def test_history_says_which_commit_came_first(repository):
    root, _ = repository
    second, first = git(root, "rev-list", "HEAD").split()
    with GitStore(root) as store:
        added = store.additions(".")
        assert (added["a.txt"], added["later.txt"], added["deep/er/ä ö.txt"]) == (first, second, first)
        assert store.precedes(first, second)
        assert store.precedes(first, first)
        assert not store.precedes(second, first)
        assert not store.precedes("f" * 40, first)
        assert not store.precedes("--help", first)


def test_without_a_repository_nobody_is_asked(tmp_path):
    with GitStore(tmp_path) as store:
        assert not store.here
        assert store.additions(".") == {}


def raw(kind: str, content: bytes) -> bytes:
    return f"{kind} {len(content)}\0".encode() + content


def name(data: bytes):
    return object_id(hashlib.sha1(data, usedforsecurity=False).hexdigest())


def entry(mode: str, path: str, target: bytes = b"x" * 20) -> bytes:
    return f"{mode} {path}".encode() + b"\0" + target


@pytest.mark.parametrize(
    "data",
    [b"", b"blob 3\0ab", b"blob 1\0ab", b"blob  2\0ab", b"blob 02\0ab", b"thing 2\0ab", b"blob 2ab", b"blob -2\0ab"],
)
def test_a_malformed_object_is_refused(data):
    with pytest.raises(DoesNotHold, match="malformed"):
        opened(name(data), data)


def test_an_object_with_other_bytes_than_its_name_is_refused():
    with pytest.raises(DoesNotHold, match="other bytes"):
        opened(name(raw("blob", b"a")), raw("blob", b"b"))


@pytest.mark.parametrize(
    "content",
    [
        b"100644 a\0short",
        b"100644\0" + b"x" * 20,
        b"9 a\0" + b"x" * 20,
        entry("100644", "a") * 2,
        entry("100644", "a/b"),
    ],
)
def test_a_malformed_tree_is_refused(content):
    tree = raw("tree", content)
    commit = raw("commit", b"tree " + name(tree).hex.encode() + b"\n")
    held = {name(one): one for one in (tree, commit)}
    with pytest.raises((DoesNotHold, MalformedRecord)):
        GitTrees(held.get).blob(name(commit).hex, "a")


def test_objects_of_another_kind_are_refused():
    blob, tree = raw("blob", b"a"), raw("tree", entry("40000", "folder", bytes.fromhex(name(raw("blob", b"a")).hex)))
    commit = raw("commit", b"tree " + name(tree).hex.encode() + b"\n")
    odd = raw("commit", b"parent x\n")
    held = {name(one): one for one in (blob, tree, commit, odd)}
    trees = GitTrees(held.get)
    with pytest.raises(DoesNotHold, match="is a blob, not a tree"):
        trees.blob(name(commit).hex, "folder/a")
    with pytest.raises(DoesNotHold, match="is a blob, not a commit"):
        trees.tree(name(blob).hex)
    with pytest.raises(DoesNotHold, match="has no tree"):
        trees.tree(name(odd).hex)
    with pytest.raises(MalformedRecord):
        trees.tree("HEAD")


def test_a_tree_that_holds_itself_ends_with_the_path():
    """No SHA-1 can name itself, but a reader must not rely on that."""
    loop = object_id("1" * 40)
    trees = GitTrees(lambda _: None)
    trees._commits["c"] = loop
    trees._trees[loop] = {"a/": loop, "a": git_blob(b"end")}
    assert trees.blob("c", "a/" * 63 + "a") == git_blob(b"end")
    assert trees.blob("c", "a/" * 64 + "a") is None


@given(st.binary(max_size=80), st.sampled_from(["commit", "tree", "blob"]))
def test_no_bytes_do_more_than_be_refused(content, kind):
    data = raw(kind, content)
    try:
        GitTrees(lambda _: data).blob(name(data).hex, "a/b")
    except ReckonError:
        return
    raise AssertionError("bytes at random are no commit with a tree")
