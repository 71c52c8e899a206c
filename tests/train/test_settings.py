"""Settings with types that are checked, and outputs that are whole or absent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from registry.errors import Refused
from train import settings
from train.files import fresh_folder, write_json, write_whole

GIVEN = {"count": 3, "name": "x", "names": ["a"], "flag": True, "inner": {"a": 1}, "inners": [{"a": 1}]}


def test_settings_are_read_by_section(tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text("shards:\n  count: 3\n")
    assert settings.section("shards", tmp_path / "params.yaml") == {"count": 3}


@pytest.mark.parametrize(
    "text", ["", "shards: 3\n", "other: {}\n", "- 1\n", "a: [\n", "\x00", "a: !!python/name:os.system\n"]
)
def test_a_file_without_the_section_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "params.yaml").write_text(text)
    with pytest.raises(Refused):
        settings.section("shards", tmp_path / "params.yaml")


def test_a_missing_file_says_where_to_stand(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="repository's root"):
        settings.section("shards", tmp_path / "params.yaml")


@pytest.mark.parametrize(
    ("read", "key", "value"),
    [
        (settings.whole, "count", 3),
        (settings.text, "name", "x"),
        (settings.texts, "names", ("a",)),
        (settings.mapping, "inner", {"a": 1}),
        (settings.mappings, "inners", ({"a": 1},)),
    ],
)
def test_each_kind_reads_its_own_and_refuses_all_others(read: Callable[..., object], key: str, value: object) -> None:
    assert read(GIVEN, key) == value
    for other in ({*GIVEN, "absent"}) - {key}:
        with pytest.raises(Refused, match=other):
            read(GIVEN, other)


def test_an_integer_has_a_least_value() -> None:
    with pytest.raises(Refused, match="at least 4"):
        settings.whole(GIVEN, "count", least=4)


def test_an_output_folder_begins_empty(tmp_path: Path) -> None:
    write_json(fresh_folder(tmp_path / "a" / "b") / "x.json", {"b": 1, "a": [2]})
    assert (tmp_path / "a" / "b" / "x.json").read_bytes() == b'{"a":[2],"b":1}\n'
    assert list(fresh_folder(tmp_path / "a" / "b").iterdir()) == []


def test_a_write_that_fails_leaves_nothing_under_either_name(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_whole(tmp_path / "x", b"data")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
