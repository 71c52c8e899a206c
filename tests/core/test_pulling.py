"""What may be pulled: references, hostile listings, choices, kept checkpoints, excerpts."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import load

from registry.core import canonical, pulling
from registry.core.digests import Algorithm, Digest, git_blob, sha256
from registry.core.excerpt import Excerpt, Placed, excerpt
from registry.core.kept import kept_checkpoints, named
from registry.core.pulling import Kind, Listing, Observed, Reference, RemoteFile, Resolved, Wanted
from registry.core.tensors import TensorSpec
from registry.errors import DoesNotHold, MalformedRecord, Refused, UnknownName

COMMIT = "0123456789" * 4
BLOB = git_blob(b"x")


def file(path: str, size_bytes: int = 1, claimed: Digest = BLOB) -> RemoteFile:
    return RemoteFile(path=path, size_bytes=size_bytes, claimed=claimed)


def listed(*paths: str) -> Listing:
    return pulling.listing(Reference.parse("hf://lab/m"), COMMIT, [file(path) for path in paths])


@pytest.mark.parametrize(
    ("text", "kind", "repository", "revision"),
    [
        ("hf://lab/m", Kind.MODEL, "lab/m", "main"),
        ("hf://models/lab/m@v1.0.0", Kind.MODEL, "lab/m", "v1.0.0"),
        ("hf://datasets/lab/d@refs/pr/1", Kind.DATA, "lab/d", "refs/pr/1"),
        (f"hf://lab/m@{COMMIT}", Kind.MODEL, "lab/m", COMMIT),
    ],
)
def test_references(text, kind, repository, revision):
    found = Reference.parse(text)
    assert (found.kind, found.repository, found.revision) == (kind, repository, revision)
    assert Reference.parse(str(found)) == found
    assert found.pinned == (revision == COMMIT)


@pytest.mark.parametrize(
    "text",
    [
        *("lab/m", "hf://m", "hf://../m", "hf://lab/..", "hf://lab/m@", "hf://lab/m@a@b", "hf://lab/m@../x"),
        *("hf://lab/m@-x", "hf://lab/m@x.lock", "hf://lab/a--b", "hf://lab/m/x", "hf://lab/m@a//b", "https://lab/m"),
        *("hf://lab/m@a b", "hf://lab/m@a/./b", "hf://lab/m@a/.b", "hf://lab/m@a.lock/b", "hf://lab/m@a/"),
    ],
)
def test_no_references(text):
    with pytest.raises(Refused):
        Reference.parse(text)


@pytest.mark.parametrize(
    "path",
    [
        *("../x", "/etc/passwd", "a/../../b", "a//b", "a\\b", "", ".", "a/./b", "x\n", ".cache/reckon/lock"),
        *(".CACHE/x", "a/.git/config", ".GIT/hooks/x"),
    ],
)
def test_paths_that_leave_or_belong_to_others_are_refused(path):
    with pytest.raises(Refused):
        file(path)


@pytest.mark.parametrize("path", ["x" * 256, "é" * 128, "a/" * 512 + "a", "a/\x85b", "a\ud800b", "a/\x9b31m"])
def test_paths_that_no_disk_or_terminal_takes_are_malformed(path):
    with pytest.raises(MalformedRecord):
        file(path)


def test_the_longest_paths_are_taken_and_found_below_one_another():
    deep = "a/" * 511 + "bb"
    assert file(deep).path == deep
    assert file("é" * 127).path == "é" * 127
    assert pulling.nested([deep, "a!", "a/b", "a.b/c"]) is None
    assert pulling.nested([deep, "a!", "a", "a.b"]) == deep


@pytest.mark.parametrize("size", [-1, 10**18, True, 2.0, pulling.LARGEST_REGULAR + 1])
def test_absurd_sizes_are_refused(size):
    with pytest.raises(MalformedRecord, match="sense"):
        file("a", size)


def test_a_listing_must_fit_into_a_folder():
    with pytest.raises(MalformedRecord, match="twice"):
        listed("a", "a")
    with pytest.raises(MalformedRecord, match="below another file"):
        listed("a", "a/b/c")
    with pytest.raises(DoesNotHold, match="no file b"):
        listed("a").need("b")


def test_a_hub_that_names_no_commit_is_refused():
    with pytest.raises(MalformedRecord):
        Resolved(commit="main", tag=False)


def test_choosing_files():
    found = listed("a/b.txt", "a/c.txt", "d.txt")
    assert [one.path for one in pulling.chosen(found, [])] == ["a/b.txt", "a/c.txt", "d.txt"]
    assert [one.path for one in pulling.chosen(found, ["a/"])] == ["a/b.txt", "a/c.txt"]
    assert [one.path for one in pulling.chosen(found, ["*/b*", "d.txt"])] == ["a/b.txt", "d.txt"]
    with pytest.raises(UnknownName, match=r"d\.tx"):
        pulling.chosen(found, ["d.tx"])


def test_what_is_wrong_with_bytes_is_said():
    data = b"hello"
    seen = Observed(size_bytes=5, sha256=sha256(data), blob=git_blob(data))
    small, large = file("a", 5, git_blob(data)), file("a", 5, sha256(data))
    assert Wanted(file=small, sha256=sha256(data)).objection(seen) is None
    assert Wanted(file=large, sha256=None).objection(seen) is None
    assert "instead of 4" in (Wanted(file=file("a", 4, git_blob(data)), sha256=None).objection(seen) or "")
    assert "are listed" in (Wanted(file=file("a", 5, sha256(b"")), sha256=None).objection(seen) or "")
    assert "were signed" in (Wanted(file=small, sha256=sha256(b"")).objection(seen) or "")


def entry(**changes):
    told = {
        "branch": "stage2-step7-tokens0.000007B",
        "commit": None,
        "name": "hero/2@step-7",
        "step": 7,
        "tokens": 7000,
        "recipe": str(sha256(b"r")),
        "root": str(sha256(b"t")),
        "files": str(sha256(b"f")),
    }
    return told | changes


def test_kept_checkpoints_by_step_name_or_branch():
    other = entry(branch="stage1-step7-tokens0.000007B", name="hero/1@step-7", commit=COMMIT)
    third = entry(branch="stage2-step9-tokens0.000009B", name="hero/2@step-9", step=9)
    found = kept_checkpoints(canonical.encode([entry(), other, third]))
    assert named(found, "step-9") == named(found, "hero/2@step-9") == named(found, "9") == found[2]
    assert named(found, "stage2-step7-tokens0.000007B") == found[0]
    assert found[1].revisions == (COMMIT, other["branch"])
    assert found[0].revisions == (found[0].branch,)
    with pytest.raises(Refused, match="several"):
        named(found, "step-7")
    with pytest.raises(UnknownName, match="step-8"):
        named(found, "step-8")


@pytest.mark.parametrize(
    "changes",
    [{"step": 8}, {"commit": "main"}, {"branch": "main"}, {"extra": 1}, {"root": "x"}, {"name": "../x@step-7"}],
)
def test_a_list_of_checkpoints_of_another_form_is_refused(changes):
    with pytest.raises(Refused):
        kept_checkpoints(canonical.encode([entry(**changes)]))


def test_an_excerpt_is_a_safetensors_file():
    arrays = {"b": np.arange(6, dtype=np.float32).reshape(2, 3), "a é": np.array(3, np.int64)}
    specs = [TensorSpec(name=name, dtype=one.dtype.name, shape=one.shape) for name, one in arrays.items()]
    made = excerpt([Placed(spec=spec, path="x", start_byte=0) for spec in specs])
    data = made.header + b"".join(arrays[one.spec.name].tobytes() for one in made.tensors)
    assert len(data) == made.size_bytes
    assert len(made.header) % 8 == 0
    read = load(data)
    assert read.keys() == arrays.keys()
    assert all(np.array_equal(read[name], arrays[name]) for name in arrays)
    with pytest.raises(Refused):
        Excerpt(tensors=())


def test_patterns_of_tensors():
    assert pulling.matching_names(["model.*.w", "b"], ["b", "model.0.w", "model.0.b"]) == ("b", "model.0.w")
    with pytest.raises(UnknownName, match="nothing"):
        pulling.matching_names(["nothing*"], ["a"])


def test_digests_of_other_kinds_are_refused():
    with pytest.raises(MalformedRecord):
        file("a", 1, Digest(Algorithm.MD5, "0" * 32))
