"""Where a worker that is started again goes on: at the last state that lies whole, and nowhere when all is done."""

from __future__ import annotations

import json
from pathlib import Path

from registry.core.transcript import Line, bits, line
from train import launch_worker
from train.launch_worker import reached


def _lines(last: int) -> list[Line]:
    return [
        Line(step=step, loss=bits(4.0), gradient_norm=bits(1.0), order="a" * 64, state="b" * 16)
        for step in range(1, last + 1)
    ]


def _output(folder: Path, *, told: int, gathered: tuple[int, ...], sharded: tuple[int, ...]) -> Path:
    (folder / "transcript.jsonl").write_bytes(b"".join(map(line, _lines(told))))
    for kind, steps in (("gathered", gathered), ("sharded", sharded)):
        for step in steps:
            (folder / kind / f"step-{step}").mkdir(parents=True)
    return folder


def test_it_goes_on_from_the_newest_state_that_the_transcript_tells(tmp_path: Path) -> None:
    output = _output(tmp_path, told=8, gathered=(3, 6), sharded=(3, 6, 8))
    begin, lines = launch_worker._latest(output, None)
    assert (begin, len(lines)) == (output / "gathered/step-6", 6)
    launch_worker._drop_unfinished(output, 6)
    assert sorted(one.name for one in (output / "sharded").iterdir()) == ["step-3", "step-6"]


def test_without_a_state_it_begins_where_the_plan_does(tmp_path: Path) -> None:
    given = tmp_path / "parent"
    assert launch_worker._latest(tmp_path / "new", given) == (given, [])
    (tmp_path / "out").mkdir()
    output = _output(tmp_path / "out", told=2, gathered=(), sharded=(2,))
    assert launch_worker._latest(output, given) == (given, [])


def test_what_is_reached_is_what_was_told_last(tmp_path: Path) -> None:
    assert reached(tmp_path) is None
    (tmp_path / "result.json").write_text(json.dumps({"step": 6, "root": "sha256:" + "0" * 64}))
    assert reached(tmp_path) == 6
