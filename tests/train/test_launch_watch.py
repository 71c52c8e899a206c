"""The watchdog: what stands still is ended, what moved is started again, and what refused is left alone."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from train.launch_watch import STALLED, Policy, watch

pytestmark = pytest.mark.slow

QUICK = Policy(start_seconds=0.4, stall_seconds=0.4, grace_seconds=0.2, restarts=3, look_seconds=0.02)

TOLD = {"start_seconds": 30, "stall_seconds": 30, "grace_seconds": 30, "restarts": 3}


def script(progress: Path, body: str) -> list[str]:
    return ["bash", "-c", f"progress={progress}\n{body}"]


def test_files_of_a_pattern_are_progress_too(tmp_path: Path) -> None:
    (tmp_path / "key").mkdir()
    body = 'echo x >> $progress; test "$(wc -l < $progress)" = 2 || exit 9'
    assert watch(script(tmp_path / "key/p", body), tmp_path / "*/p", QUICK) == 0


def test_a_command_that_ends_well_is_run_once(tmp_path: Path) -> None:
    progress = tmp_path / "p"
    assert watch(script(progress, "echo x >> $progress"), progress, QUICK) == 0
    assert progress.read_text() == "x\n"


def test_a_command_that_moved_and_died_is_started_again(tmp_path: Path) -> None:
    progress = tmp_path / "p"
    assert (
        watch(script(progress, 'echo x >> $progress; test "$(wc -l < $progress)" = 3 || exit 9'), progress, QUICK) == 0
    )
    assert progress.read_text() == "x\nx\nx\n"


@pytest.mark.parametrize("status", [1, 2])
def test_refusals_and_claims_that_fail_are_not_tried_again(status: int, tmp_path: Path) -> None:
    progress = tmp_path / "p"
    assert watch(script(progress, f"echo x >> $progress; exit {status}"), progress, QUICK) == status
    assert progress.read_text() == "x\n"


def test_a_command_that_dies_without_moving_is_not_started_again(tmp_path: Path) -> None:
    progress, starts = tmp_path / "p", tmp_path / "starts"
    assert watch(script(progress, f"echo s >> {starts}; exit 9"), progress, QUICK) == 9
    assert starts.read_text() == "s\n"


def test_a_command_that_stands_still_is_ended_with_its_children(tmp_path: Path) -> None:
    progress, late = tmp_path / "p", tmp_path / "late"
    body = f"trap '' TERM; (trap '' TERM; sleep 1; touch {late}) & sleep 2"
    assert watch(script(progress, body), progress, QUICK) == STALLED
    subprocess.run(["sleep", "0.9"], check=True)
    assert not late.exists()


def test_it_is_run_as_the_scripts_run_it(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"watchdog": {**TOLD, "restarts": 1}}))
    command = [sys.executable, "-m", "train.launch_watch", "--progress", str(tmp_path / "p"), str(plan), "--"]
    done = subprocess.run([*command, "bash", "-c", "exit 7"], cwd=Path(__file__).parents[2], check=False)
    assert done.returncode == 7


def test_what_was_told_to_stop_is_not_started_again(tmp_path: Path) -> None:
    plan, progress = tmp_path / "plan.json", tmp_path / "p"
    plan.write_text(json.dumps({"watchdog": TOLD}))
    command = [sys.executable, "-m", "train.launch_watch", "--progress", str(progress), str(plan), "--"]
    body = "trap 'echo saved >> $progress; exit 143' TERM; echo x >> $progress; while true; do sleep 0.05; done"
    watchdog = subprocess.Popen([*command, *script(progress, body)], cwd=Path(__file__).parents[2])
    while not (progress.is_file() and progress.read_text()):
        time.sleep(0.02)
    watchdog.terminate()
    assert watchdog.wait(20) == 143
    assert progress.read_text() == "x\nsaved\n"


def test_a_start_may_take_longer_than_a_step(tmp_path: Path) -> None:
    progress, patient = tmp_path / "p", replace(QUICK, start_seconds=5, restarts=0)
    assert watch(script(progress, "sleep 0.7; echo x >> $progress; sleep 0.1"), progress, patient) == 0
    began = time.monotonic()
    assert watch(script(progress, "echo x >> $progress; sleep 20"), progress, patient) == STALLED
    assert time.monotonic() - began < 4


def test_what_a_command_leaves_behind_is_gone_before_the_next_start(tmp_path: Path) -> None:
    progress, left = tmp_path / "p", tmp_path / "left"
    body = f"""
    if test -f {left}; then
      state="$(cut -d' ' -f3 "/proc/$(cat {left})/stat" 2>/dev/null || echo Z)"
      test "$state" = Z || exit 2; exit 0  # a zombie waits for its parent to look
    fi
    sleep 60 & echo $! > {left}; kill -STOP $!; echo x >> $progress; exit 9"""
    assert watch(script(progress, body), progress, QUICK) == 0


def test_a_command_that_does_not_stop_when_told_is_killed(tmp_path: Path) -> None:
    plan, progress = tmp_path / "plan.json", tmp_path / "p"
    plan.write_text(json.dumps({"watchdog": {**TOLD, "grace_seconds": 0.2}}))
    command = [sys.executable, "-m", "train.launch_watch", "--progress", str(progress), str(plan), "--"]
    body = "trap '' TERM; echo x >> $progress; while true; do sleep 0.05; done"
    watchdog = subprocess.Popen([*command, *script(progress, body)], cwd=Path(__file__).parents[2])
    while not progress.is_file():
        time.sleep(0.02)
    watchdog.terminate()
    assert watchdog.wait(20) == 137
