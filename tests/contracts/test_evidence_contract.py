"""What an audit reads, from a working tree and from a bundle: tables, small artifacts and git's objects, alike."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from registry.adapters.bundles import BundleCommits, BundleFile, BundlePapers, write_bundle
from registry.adapters.columns import TableColumns
from registry.adapters.commits import GitStore
from registry.adapters.papers import DiskPapers
from registry.adapters.tables import TableFolder
from registry.core.bundle import Cover
from registry.core.digests import FileEntry, git_blob, sha256, tree_digest
from registry.core.gitobjects import object_id, opened
from registry.errors import DoesNotHold, UnknownName
from registry.ports import Columns, Commits, Papers

PAPER = b'{"a":1}\n'
ENTRIES = [FileEntry(path=f"d/{number:02}", size_bytes=number, digest=sha256(b"%d" % number)) for number in range(40)]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with a commit, a table and a paper."""
    (tmp_path / "artifacts").mkdir()
    (tmp_path / "artifacts/paper.json").write_bytes(PAPER)
    TableFolder(tmp_path / "manifests").put_files(ENTRIES)
    for arguments in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-q", "-m", "One")):
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True)
    return tmp_path


@pytest.fixture(params=["disk", "bundle"])
def evidence(request, root: Path, tmp_path: Path) -> Iterator[tuple[Columns, Papers, Commits]]:
    """The three ports over the same bytes."""
    with GitStore(root) as store:
        if request.param == "disk":
            tables = TableColumns(lambda name: read(root / "manifests" / name))
            yield tables, DiskPapers(root), store
            return
        blob = git_blob(PAPER)
        members = {
            f"manifests/objects/{tree_digest(ENTRIES).hex}.parquet": read(
                root / f"manifests/objects/{tree_digest(ENTRIES).hex}.parquet"
            ),
            f"bytes/{sha256(PAPER).hex}": PAPER,
            f"git/{blob.hex}": store.read(blob),
        }
    file = tmp_path.parent / f"{tmp_path.name}.tar"
    write_bundle(file, Cover(name="a", product=sha256(b"")), members)
    with BundleFile(file) as bundle:
        tables = TableColumns(lambda name: bundle.read(f"manifests/{name}"))
        yield tables, BundlePapers(bundle), BundleCommits(bundle)


def read(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def test_tables(evidence):
    columns, _, _ = evidence
    tree, absent = tree_digest(ENTRIES), sha256(b"absent")
    assert list(columns.files(tree)) == ENTRIES
    found = columns.survey({tree: ["d", "d/07", "e"], absent: []})
    assert (found[tree].files, found[tree].size_bytes) == (40, sum(range(40)))
    assert (found[tree].parts["d/07"], found[tree].parts["e"]) == (ENTRIES[7].digest, None)
    assert isinstance(found[absent], UnknownName)
    with pytest.raises(UnknownName):
        columns.files(absent)
    assert isinstance(columns.count_leaves([absent])[absent], UnknownName)


def test_papers(evidence):
    _, papers, _ = evidence
    assert papers.read("artifacts/paper.json", sha256(PAPER)) == PAPER
    with pytest.raises(UnknownName):
        papers.read("artifacts/none.json", sha256(b"none"))


def test_git_objects(evidence):
    _, _, commits = evidence
    data = commits.read(git_blob(PAPER))
    assert commits.here
    assert opened(git_blob(PAPER), data).content == PAPER
    assert commits.read(object_id("f" * 40)) is None
    assert not commits.precedes("e" * 40, "f" * 40)
    assert all(len(commit) == 40 for commit in commits.additions("manifests").values())


def test_papers_on_disk_are_the_recorded_ones_inside_the_archive(root, tmp_path):
    papers = DiskPapers(root)
    with pytest.raises(DoesNotHold, match="other bytes"):
        papers.read("artifacts/paper.json", sha256(b"other"))
    outside = tmp_path.parent / "outside.json"
    outside.write_bytes(PAPER)
    (root / "artifacts/link.json").symlink_to(outside)
    for path in ("artifacts/link.json", "artifacts"):
        with pytest.raises(UnknownName):
            papers.read(path, sha256(PAPER))
    assert hashlib.sha256(outside.read_bytes()).hexdigest() == sha256(PAPER).hex
