"""The grammar of names: one name, one spelling, and nothing that leaves its folder."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.core.names import Name, checked_path, dvc_stage, known, stage_of_dvc
from registry.errors import Refused, UnknownName

WORD = st.from_regex(r"[a-z0-9][a-z0-9._-]{0,6}", fullmatch=True)
STAGES = st.lists(WORD, min_size=1, max_size=3).map("/".join)
PATHS = st.lists(
    st.text("abcXYZ09._- é:@", min_size=1, max_size=6).filter(lambda part: part not in (".", "..")),
    min_size=1,
    max_size=3,
).map("/".join)


@given(STAGES, st.none() | st.integers(0, 10**14), st.none() | PATHS)
def test_a_name_is_read_back_as_it_is_written(stage: str, step: int | None, path: str | None) -> None:
    name = Name(stage=stage, step=step, path=path)
    assert Name.parse(str(name)) == name


@given(st.text(max_size=20))
def test_any_text_is_one_name_or_refused(text: str) -> None:
    try:
        name = Name.parse(text)
    except Refused:
        return
    assert str(name) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "/", "/shards", "shards/", "a//b", "../a", "a/..", "a/../b", "..", ".hidden", "Shards", "a b", "a\\b"),
        *("rung/d48@", "rung/d48@step-", "rung/d48@step-01", "rung/d48@step--1", "rung/d48@latest", "a@step-1@step-2"),
        *(
            "a:",
            "a:/etc/passwd",
            "a:../b",
            "a:b/../c",
            "a:b//c",
            "a:.",
            "a:b\\c",
            "a:b\n",
            "a:b\0c",
            "a\n",
            "@step-1",
            "ä",
        ),
        "a@step-1000000000000000",
    ],
)
def test_what_has_two_spellings_or_leaves_its_folder_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        Name.parse(text)


def test_the_parts_of_a_name() -> None:
    name = Name.parse("hero/1@step-400:checkpoint.json")
    assert (name.stage, name.step, name.path) == ("hero/1", 400, "checkpoint.json")
    assert name.artifact == "hero/1@step-400"


def test_a_path_may_hold_what_a_stage_may_not() -> None:
    assert checked_path("a/B c:d@e") == "a/B c:d@e"


@given(STAGES.filter(lambda stage: stage.count("/") < 2))
def test_dvc_names_lead_back(stage: str) -> None:
    assert stage_of_dvc(dvc_stage(stage)) == stage


def test_an_unknown_name_comes_with_the_nearest() -> None:
    assert known("rung/d48", ["rung/d48", "shards"]) == "rung/d48"
    with pytest.raises(UnknownName, match="Did you mean rung/d48"):
        known("rung/d4", ["rung/d48", "shards"])
    with pytest.raises(UnknownName, match="Known are: shards"):
        known("zzz", ["shards"])
    with pytest.raises(UnknownName, match="none yet"):
        known("zzz", [])
