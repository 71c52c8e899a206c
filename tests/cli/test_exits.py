"""Whatever ends a command becomes one sentence, a remedy and the right status; a bug keeps its traceback."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import click
import pytest

from registry.cli.exits import guarded
from registry.errors import DoesNotHold, MalformedRecord, OutsideFailed, ReckonError, Refused

ROOT = Path(__file__).resolve().parents[2]


def raising(error: BaseException):
    def work() -> None:
        raise error

    return work


CASES = [
    (Refused("No such stage.", remedy="Look at dvc.yaml."), 2, "No such stage. Look at dvc.yaml."),
    (MalformedRecord("Not canonical."), 2, "Not canonical."),
    (DoesNotHold("One bit differs."), 1, "One bit differs."),
    (OutsideFailed("git failed."), 3, "git failed."),
    (click.UsageError("Two options contradict each other."), 2, "contradict"),
    (click.FileError("x.json", "gone"), 2, "gone"),
    (KeyboardInterrupt(), 130, "Interrupted."),
    (click.Abort(), 130, "Interrupted."),
    (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "a.bin"), 3, "No space left on device: a.bin. Free some space"),
    (OSError(errno.EROFS, os.strerror(errno.EROFS), "a"), 3, "Choose a target"),
    (PermissionError(errno.EACCES, "Permission denied", "a"), 3, "Check who owns"),
    (ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"), 3, "try again"),
    (ModuleNotFoundError("No module named 'jax'", name="jax.numpy"), 3, "extra 'train'"),
    (ModuleNotFoundError("No module named 'mlflow'", name="mlflow"), 3, "extra 'lab'"),
]


@pytest.mark.parametrize(("error", "status", "words"), CASES, ids=lambda value: type(value).__name__)
def test_an_error_is_told_in_one_line(error, status, words, capfd):
    assert guarded(raising(error), as_json=False) == status
    printed = capfd.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("reckon: ")
    assert words in printed.err
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize(("error", "status", "words"), CASES, ids=lambda value: type(value).__name__)
def test_with_json_it_is_an_object_too(error, status, words, capfd):
    assert guarded(raising(error), as_json=True) == status
    told = json.loads(capfd.readouterr().out)["error"]
    assert told["exit_code"] == status
    assert words in f"{told['message']} {told['remedy']}"
    assert set(told) == {"exit_code", "kind", "message", "remedy"}


@pytest.mark.parametrize(
    "error", [ZeroDivisionError("x"), ModuleNotFoundError("No module named 'nope'", name="nope"), ReckonError("odd")]
)
def test_a_bug_keeps_its_traceback_and_prints_no_data(error, capfd):
    assert guarded(raising(error), as_json=True) == 70
    printed = capfd.readouterr()
    assert printed.out == ""
    assert "Traceback" in printed.err
    assert "in work" in printed.err


def test_a_status_asked_for_by_the_command_is_kept(capfd):
    assert guarded(raising(click.exceptions.Exit(1)), as_json=False) == 1
    assert guarded(lambda: None, as_json=False) == 0
    assert capfd.readouterr() == ("", "")


def piped(arguments: list[str], **options: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, stderr=subprocess.PIPE, check=False, **options)


@pytest.mark.parametrize("json_option", [[], ["--json"]])
def test_a_full_disk_behind_stdout_is_no_success(json_option):
    with Path("/dev/full").open("wb") as full:
        ended = piped(["-m", "registry", "completion", "bash", *json_option], stdout=full)
    assert ended.returncode == 3
    assert ended.stderr.decode().startswith("reckon: No space left on device")
    assert ended.stderr.count(b"\n") == 1


def test_a_reader_that_left_is_no_news():
    reader, writer = os.pipe()
    os.close(reader)
    ended = piped(["-m", "registry", "completion", "bash"], stdout=writer)
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (141, b"")


WAITING = """
import sys, time
from registry.cli.exits import guarded

def work():
    print("at work", flush=True)
    time.sleep(60)

sys.exit(guarded(work, as_json=False))
"""


def test_the_keyboard_interrupts_quietly():
    # Whoever runs the tests in the background has children ignore interruptions: this one shall not.
    attentive = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    command = [sys.executable, "-c", WAITING]
    with subprocess.Popen(command, cwd=ROOT, stdout=-1, stderr=-1, preexec_fn=attentive) as process:  # noqa: PLW1509  # one thread
        assert process.stdout.readline() == b"at work\n"
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == b"reckon: Interrupted.\n"
    assert process.returncode == 130
