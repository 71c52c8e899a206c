"""The declared pipeline is read as DVC reads it, and what is not understood is refused, never guessed."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from registry.core.pipeline import StageSpec, decimals, lookup, resolve
from registry.errors import Refused

PARAMS = {
    "seed": 7,
    "rate": 0.003,
    "fast": True,
    "rungs": {"d32": {"layers": 2, "data": ["code", "math"]}, "d48": {"layers": 3, "data": []}},
    "domains": ["code", "math", 3],
    "shared": {"a": {"b": None}},
}


def stage(body: Mapping[str, object], params: object = PARAMS) -> StageSpec:
    return resolve({"stages": {"s": body}}, params)["s"]


def test_a_plain_stage() -> None:
    found = stage(
        {
            "cmd": "python -m train.s ${seed}",
            "deps": ["train/b.py", "artifacts/x", "train/a.py", "data.csv"],
            "params": ["rate", "shared.a"],
            "outs": ["artifacts/s", {"artifacts/t": {"cache": False}}],
            "desc": "Make it.",
        }
    )
    assert found == StageSpec(
        name="s",
        command="python -m train.s 7",
        code=("train/a.py", "train/b.py"),
        inputs=("artifacts/x", "data.csv"),
        config={"rate": "0.003", "shared.a": {"b": None}},
        outputs=("artifacts/s", "artifacts/t"),
    )


def test_a_loop_over_a_mapping() -> None:
    body = {
        "foreach": "${rungs}",
        "do": {
            "cmd": "train ${key} ${item.layers} ${fast} ${rate}",
            "deps": ["artifacts/${key}"],
            "params": ["rungs.${key}"],
            "outs": ["artifacts/rung/${key}"],
        },
    }
    found = resolve({"stages": {"rung": body}}, PARAMS)
    assert list(found) == ["rung/d32", "rung/d48"]
    assert found["rung/d32"].command == "train d32 2 true 0.003"
    assert found["rung/d48"].config == {"rungs.d48": {"layers": 3, "data": []}}
    assert found["rung/d48"].outputs == ("artifacts/rung/d48",)


def test_a_loop_over_a_list() -> None:
    for items in ("${domains}", ["code", "math", 3]):
        found = resolve({"stages": {"tokens": {"foreach": items, "do": {"cmd": "run ${item}"}}}}, PARAMS)
        assert [spec.command for spec in found.values()] == ["run code", "run math", "run 3"]
        assert list(found) == ["tokens/code", "tokens/math", "tokens/3"]


@pytest.mark.parametrize(
    "body",
    [
        {"cmd": ["two", "lines"]},
        {"cmd": None},
        {},
        "python",
        {"cmd": "x", "deps": "train/a.py"},
        {"cmd": "x", "deps": [1]},
        {"cmd": "x", "deps": [{"a": 1, "b": 2}]},
        {"cmd": "x", "params": ["missing"]},
        {"cmd": "x", "params": ["seed.deeper"]},
        {"cmd": "x", "params": [{"other.yaml": ["key"]}]},
        {"cmd": "x ${missing}"},
        {"cmd": "x ${shared}"},
        {"cmd": "x ${shared.a.b}"},
        {"cmd": "x ${rungs.d32.data}"},
        {"cmd": "x ${seed"},
        {"cmd": "x ${seed + 1}"},
        {"cmd": "x", "wdir": "elsewhere"},
        {"cmd": "x", "metrics": ["m.json"]},
        {"cmd": "x", "frozen": True},
        {"matrix": {"a": [1]}, "cmd": "x"},
        {"foreach": 3, "do": {"cmd": "x"}},
        {"foreach": "${seed}", "do": {"cmd": "x"}},
        {"foreach": "plain", "do": {"cmd": "x"}},
        {"foreach": ["a"]},
        {"foreach": {1: {}}, "do": {"cmd": "x"}},
        {"foreach": [True], "do": {"cmd": "x"}},
        {"foreach": [1.5], "do": {"cmd": "x"}},
        {"foreach": [["a"]], "do": {"cmd": "x"}},
    ],
    ids=str,
)
def test_what_is_not_understood_is_refused(body: object) -> None:
    with pytest.raises(Refused):
        resolve({"stages": {"s": body}}, PARAMS)


@pytest.mark.parametrize(
    ("document", "params"), [(None, {}), ([], {}), ({}, {}), ({"stages": []}, {}), ({"stages": {}}, [])]
)
def test_a_document_of_another_shape_is_refused(document: object, params: object) -> None:
    with pytest.raises(Refused, match="must be a mapping"):
        resolve(document, params)


def test_decimals_have_one_form() -> None:
    assert decimals({"a": [0.1, 1e-05, 1e20, 3, True, None, "x"]}) == {
        "a": ["0.1", "1e-05", "1e+20", 3, True, None, "x"]
    }
    for odd in (float("nan"), float("inf"), {1, 2}, object()):
        with pytest.raises(Refused, match="A setting cannot be"):
            decimals([odd])


def test_a_dotted_key() -> None:
    assert lookup(PARAMS, "rungs.d32.layers") == 2
    with pytest.raises(Refused, match=r"'rungs\.d32\.width' does not exist"):
        lookup(PARAMS, "rungs.d32.width")
