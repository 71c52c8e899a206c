"""What differs is found, sorted, and nothing else is."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from registry.core.comparison import Change, Part, changes, fact_changes, file_changes, leaf_changes, recipe_changes
from registry.core.digests import Algorithm, Digest, FileEntry, sha256
from registry.core.records import Input, Recipe, SourceFile
from registry.core.tensors import Leaf

KEYS = st.dictionaries(st.text(max_size=3), st.integers(0, 3), max_size=6)
RECIPE = Recipe(
    stage="rung/d32",
    command=("python", "-m", "train.rung", "d32"),
    config={"rung": {"steps": 10, "rate": "0.1"}},
    source=(SourceFile(path="train/rung.py", blob=Digest(Algorithm.GIT, "1" * 40)),),
    lock=sha256(b"lock"),
    inputs=(Input(name="tokens/code", path="artifacts/tokens/code", digest=sha256(b"tokens")),),
    determinism={"nproc": 2},
)


def entry(path: str, data: bytes) -> FileEntry:
    return FileEntry(path=path, size_bytes=len(data), digest=sha256(data))


def leaf(name: str, filling: str, shape: tuple[int, ...] = (2,)) -> Leaf:
    return Leaf(name=name, dtype="float32", shape=shape, digest=Digest(Algorithm.BLAKE3, filling * 64))


@given(KEYS, KEYS)
def test_applying_the_changes_gives_what_was_found(recorded: dict[str, int], found: dict[str, int]) -> None:
    differing = changes(recorded, found)
    assert [one.key for one in differing] == sorted(one.key for one in differing)
    patched = dict(recorded)
    for one in differing:
        assert one.recorded != one.found
        patched.pop(one.key, None)
        if one.found is not None:
            patched[one.key] = one.found
    assert patched == found


def test_nothing_differs_from_itself() -> None:
    assert changes({"a": 1}, {"a": 1}) == ()
    assert recipe_changes(RECIPE, RECIPE) == {}


def test_files_are_told_apart_by_path_and_bytes() -> None:
    recorded = [entry("a", b"1"), entry("b", b"2"), entry("c", b"3")]
    found = [entry("b", b"two"), entry("c", b"3"), entry("d", b"4")]
    told = {one.key: (one.recorded, one.found) for one in file_changes(recorded, found)}
    assert told == {"a": (recorded[0], None), "b": (recorded[1], found[0]), "d": (None, found[2])}


def test_the_first_differing_tensor_is_the_first_by_name() -> None:
    recorded = [leaf("model/b", "1"), leaf("model/a", "1"), leaf("opt/c", "1")]
    found = [leaf("opt/c", "2"), leaf("model/b", "2"), leaf("model/a", "1")]
    assert [one.key for one in leaf_changes(recorded, found)] == ["model/b", "opt/c"]


def test_a_shape_is_part_of_a_tensor() -> None:
    [change] = leaf_changes([leaf("a", "1", (2, 3))], [leaf("a", "1", (3, 2))])
    assert change.key == "a"


def test_nested_facts_are_named_by_their_path() -> None:
    recorded = {"documents": {"train": 3, "heldout": 1}, "digest": "x", "empty": {}}
    found = {"documents": {"train": 4, "heldout": 1}, "digest": "x", "empty": {}, "more": [1, "a"]}
    assert fact_changes(recorded, found) == (
        Change(key="documents.train", recorded="3", found="4"),
        Change(key="more", recorded=None, found='[1,"a"]'),
    )


def test_a_number_and_its_spelling_are_two_facts() -> None:
    assert fact_changes({"a": 1}, {"a": "1"}) == (Change(key="a", recorded="1", found='"1"'),)


def test_every_part_of_a_recipe_is_named() -> None:
    now = replace(
        RECIPE,
        command=("python", "-m", "train.rung", "d48"),
        config={"rung": {"steps": 12, "rate": "0.1"}},
        source=(
            SourceFile(path="train/rung.py", blob=Digest(Algorithm.GIT, "2" * 40)),
            SourceFile(path="train/more.py", blob=Digest(Algorithm.GIT, "3" * 40)),
        ),
        lock=sha256(b"other"),
        inputs=(Input(name="tokens/code", path="artifacts/tokens/code", digest=sha256(b"others")),),
        determinism={"nproc": 4},
    )
    found = recipe_changes(RECIPE, now)
    assert {part: [one.key for one in differing] for part, differing in found.items()} == {
        Part.COMMAND: ["command"],
        Part.SETTINGS: ["rung.steps"],
        Part.CODE: ["train/more.py", "train/rung.py"],
        Part.INPUTS: ["tokens/code"],
        Part.LOCK: ["lock"],
        Part.DETERMINISM: ["nproc"],
    }
