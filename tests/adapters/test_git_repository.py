"""The revision tells dirty from clean, and nothing but the tree changes what it says."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from registry.adapters.git import GitRepository
from registry.core.records import Revision
from registry.errors import OutsideFailed, Refused


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A committed tree of a few files, its records among them."""
    root = tmp_path / "tree"
    for path in ("train/a.py", "README.md", "manifests/recipes/r.json", "dvc.lock", ".gitignore"):
        write(root, path, b"*.log\n" if path == ".gitignore" else path.encode() * 40)
    git(root, "init", "-q", "--template=")
    commit(root)
    return root


def write(root: Path, path: str, data: bytes) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_bytes(data)


def git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True).stdout.strip()


def commit(root: Path) -> None:
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "x")


def revision(root: Path) -> Revision:
    return GitRepository(root).revision()


def patch(root: Path) -> str | None:
    found = revision(root).patch
    return None if found is None else str(found)


def test_a_clean_tree(tree: Path) -> None:
    found = revision(tree)
    assert (found.commit, found.tree) == (git(tree, "rev-parse", "HEAD"), git(tree, "rev-parse", "HEAD^{tree}"))
    assert not found.dirty


def test_every_kind_of_change_is_dirty_and_its_own(tree: Path) -> None:
    seen = {None}
    steps = [
        lambda: write(tree, "train/a.py", b"changed"),
        lambda: git(tree, "add", "train/a.py"),
        lambda: write(tree, "train/a.py", b"changed again"),
        lambda: write(tree, "new.py", b"new"),
        lambda: write(tree, "new.py", b"new again"),
        lambda: (tree / "new.py").rename(tree / "newer.py"),
        (tree / "README.md").unlink,
        lambda: (tree / "train/a.py").chmod(0o755),
        lambda: (tree / "link").symlink_to("train"),
        lambda: write(tree, "binary", bytes(range(256))),
    ]
    for number, step in enumerate(steps):
        step()
        found = patch(tree)
        assert found is not None
        if number != 1:  # Staging a change changes nothing.
            assert found not in seen
        seen.add(found)


def test_staging_alone_changes_nothing(tree: Path) -> None:
    write(tree, "train/a.py", b"changed")
    before = patch(tree)
    git(tree, "add", "train/a.py")
    assert patch(tree) == before


def test_undoing_a_change_makes_it_clean_again(tree: Path) -> None:
    data = (tree / "train/a.py").read_bytes()
    write(tree, "train/a.py", b"changed")
    assert patch(tree)
    write(tree, "train/a.py", data)
    os.utime(tree / "train/a.py", (1, 1))
    assert patch(tree) is None


@pytest.mark.parametrize(
    "path", ["manifests/executions/e.json", "artifacts/x", "dvc.lock", "manifests/recipes/r.json", "x.log"]
)
def test_what_stages_write_and_git_ignores_makes_nothing_dirty(tree: Path, path: str) -> None:
    write(tree, path, b"written by a stage")
    assert patch(tree) is None


def test_a_commit_elsewhere_keeps_the_source_and_changes_the_revision(tree: Path) -> None:
    before = revision(tree)
    blobs = GitRepository(tree).blobs(["train/a.py"])
    write(tree, "README.md", b"more")
    commit(tree)
    assert revision(tree).commit != before.commit
    assert GitRepository(tree).blobs(["train/a.py"]) == blobs


HOSTILE = """
[diff]
    noprefix = true
    mnemonicPrefix = true
    algorithm = histogram
    context = 0
    interHunkContext = 9
    renames = copies
    external = false
    orderFile = /nonexistent
    suppressBlankEmpty = true
    indentHeuristic = true
    relative = true
    wsErrorHighlight = all
[color]
    ui = always
[core]
    quotePath = false
    pager = false
[log]
    showSignature = true
[status]
    showUntrackedFiles = no
"""


def test_no_configuration_of_a_user_changes_the_answer(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    write(tree, "train/a.py", b"\n".join(b"%d" % number for number in range(60)) + b"\n\n")
    (tree / "README.md").rename(tree / "über.md")
    git(tree, "add", "über.md")
    write(tree, "neu ü.txt", b"new")
    before = revision(tree)
    write(tmp_path, "config", HOSTILE.encode())
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    assert git(tree, "config", "diff.algorithm") == "histogram"
    assert revision(tree) == before


def test_a_hook_of_another_repository_does_not_lead_astray(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = revision(tree)
    other = tmp_path / "other"
    write(other, "x", b"1")
    git(other, "init", "-q", "--template=")
    commit(other)
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git/index"))
    assert revision(tree) == before


def test_another_git_command_at_work_is_no_hindrance(tree: Path) -> None:
    (tree / ".git/index.lock").touch()
    assert patch(tree) is None
    write(tree, "train/a.py", b"changed")
    assert patch(tree)


def test_odd_untracked_things_are_told_apart_and_break_nothing(tree: Path) -> None:
    (tree / "broken").symlink_to("nowhere")
    first = patch(tree)
    (tree / "broken").unlink()
    (tree / "broken").symlink_to("elsewhere")
    assert patch(tree) not in (None, first)
    write(tree, "nested/x", b"1")
    git(tree / "nested", "init", "-q", "--template=")
    os.mkfifo(tree / "fifo")
    write(tree, "line\nbreak", b"x")
    (tree / os.fsdecode(b"latin-\xe9")).write_bytes(b"x")
    assert patch(tree)


def test_many_untracked_files_and_blobs(tree: Path) -> None:
    paths = [f"many/{'long-name-' * 12}{number}.py" for number in range(1200)]
    for path in paths:
        write(tree, path, b"x")
    assert patch(tree)
    assert len(GitRepository(tree).blobs(paths)) == 1200


def test_committed_files_that_changed_are_named(tree: Path) -> None:
    write(tree, "manifests/new.json", b"{}")
    git(tree, "add", "manifests/new.json")
    assert list(GitRepository(tree).altered("manifests")) == []
    write(tree, "manifests/recipes/r.json", b"other")
    assert list(GitRepository(tree).altered("manifests")) == ["manifests/recipes/r.json"]
    (tree / "manifests/recipes/r.json").unlink()
    assert list(GitRepository(tree).altered("manifests")) == ["manifests/recipes/r.json"]
    assert list(GitRepository(tree).altered("train")) == []


def test_files_that_no_commit_holds_are_named(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    write(tree, "manifests/staged.json", b"{}")
    git(tree, "add", "manifests/staged.json")
    write(tree, "manifests/new/ä b.json", b"{}")
    write(tree, "manifests/recipes/r.json", b"altered, not new")
    write(tree, "elsewhere.json", b"{}")
    git(tree, "config", "status.showUntrackedFiles", "no")
    assert list(GitRepository(tree).uncommitted("manifests")) == ["manifests/new/ä b.json", "manifests/staged.json"]
    commit(tree)
    assert list(GitRepository(tree).uncommitted("manifests")) == []
    unborn = tmp_path_factory.mktemp("unborn")
    git(unborn, "init", "-q")
    write(unborn, "manifests/r.json", b"{}")
    assert list(GitRepository(unborn).uncommitted("manifests")) == ["manifests/r.json"]


def test_an_archive_below_the_root_of_its_repository(tree: Path) -> None:
    write(tree, "train/a.py", b"changed")
    write(tree, "archive/manifests/x.json", b"{}")
    commit(tree)
    write(tree, "archive/manifests/x.json", b"[]")
    assert list(GitRepository(tree / "archive").altered("manifests")) == ["archive/manifests/x.json"]
    assert patch(tree / "archive") is None
    write(tree, "archive/code.py", b"x")
    assert patch(tree / "archive")


def test_without_a_commit_or_repository_there_is_no_revision(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no git commit"):
        revision(tmp_path)
    git(tmp_path, "init", "-q")
    with pytest.raises(Refused, match="no git commit"):
        revision(tmp_path)
    assert list(GitRepository(tmp_path).altered("manifests")) == []


def test_without_git_there_is_a_sentence(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(OutsideFailed, match="Install git"):
        revision(tree)


def test_a_damaged_repository_is_told(tree: Path) -> None:
    for path in (tree / ".git/objects").rglob("*"):
        if path.is_file():
            path.unlink()
    with pytest.raises((OutsideFailed, Refused)):
        revision(tree)
