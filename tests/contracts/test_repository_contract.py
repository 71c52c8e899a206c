"""Repositories: blobs are git's own names of the bytes that lie there, and a missing file is refused."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from fakes.workshop import FakeDisk, FakeRepository

from registry.adapters.git import GitRepository
from registry.core.digests import git_blob
from registry.errors import Refused
from registry.ports import Repository


@dataclass
class Subject:
    """A repository with one commit, and a way to put a file into its tree."""

    repository: Repository
    write: Callable[[str, bytes], None]


@pytest.fixture(params=["fake", "git"])
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Subject:
    if request.param == "fake":
        disk = FakeDisk()
        return Subject(repository=FakeRepository(disk), write=lambda path, data: disk.held.update({path: data}))

    def write(path: str, data: bytes) -> None:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)

    for arguments in (["init", "-q", "--template="], ["commit", "-q", "--allow-empty", "-m", "Begin"]):
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True)
    return Subject(repository=GitRepository(tmp_path), write=write)


def test_blobs_are_those_of_the_bytes_in_the_tree(subject: Subject) -> None:
    files = {"train/a.py": b"print()\n", "train/ä b.py": b"", "-x.py": b"\0\r\n"}
    for path, data in files.items():
        subject.write(path, data)
    assert subject.repository.blobs(list(files)) == {path: git_blob(data) for path, data in files.items()}
    assert subject.repository.blobs([]) == {}


def test_a_missing_file_is_refused(subject: Subject) -> None:
    with pytest.raises(Refused, match=r"train/a\.py does not exist"):
        subject.repository.blobs(["train/a.py"])


def test_a_revision_is_a_commit_and_its_tree(subject: Subject) -> None:
    revision = subject.repository.revision()
    assert [len(revision.commit), len(revision.tree), revision.patch] == [40, 40, None]
    assert subject.repository.revision() == revision


def test_nothing_was_altered(subject: Subject) -> None:
    assert list(subject.repository.altered("manifests")) == []
