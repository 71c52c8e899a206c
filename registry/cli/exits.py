"""The exit mapper: what a command raised becomes words on stderr and a status.

==== ==========================================================
0    done, or the claim holds
1    the claim does not hold
2    refused: bad input or usage, nothing was done
3    an outside system failed: disk, network, tracker, DVC, git
70   a bug, told with its traceback
130  interrupted from the keyboard
141  the reader of stdout went away
==== ==========================================================

This is the one place that catches every exception. It refuses to hide one: what it does not know is a bug.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch

import click

from registry.errors import OutsideFailed, ReckonError, Refused

BUG = ReckonError.exit_code
INTERRUPTED = 130
READER_GONE = 141

_REMEDIES = {
    errno.ENOSPC: "Free some space, then run the same command again.",
    errno.EDQUOT: "Free some of your quota, then run the same command again.",
    errno.EROFS: "Choose a target on a file system that can be written, or remount it.",
    errno.EACCES: "Check who owns the file and its permissions.",
    errno.EPERM: "Check who owns the file and its permissions.",
    errno.EMFILE: "Raise the limit of open files (ulimit -n).",
    errno.EIO: "Check the disk; then run 'reckon verify --all'.",
}
_EXTRAS = {
    **dict.fromkeys(("dvc", "mlflow", "wandb"), "lab"),
    **dict.fromkeys(("datasets", "equinox", "haliax", "jax", "levanter", "safetensors", "scipy"), "train"),
    **dict.fromkeys(("tensorstore", "tokenizers", "transformers"), "train"),
    **dict.fromkeys(("PyKCS11", "model_signing", "securesystemslib"), "sign"),
    **dict.fromkeys(("pathspec", "pygit2", "starlette", "uvicorn"), "hub"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    kind: str
    message: str
    remedy: str = ""
    exit_code: int


def guarded(work: Callable[[], object], *, as_json: bool) -> int:
    """Run ``work`` and return the exit status. With ``as_json`` an error that is no bug is an object on stdout too."""
    try:
        return _finished(work)
    except BrokenPipeError:
        _abandon_stdout()
        return READER_GONE
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  # the one broad except
        failure = _failure(error)
        _tell(failure, as_json=as_json and failure.exit_code != BUG)
        return failure.exit_code


def _finished(work: Callable[[], object]) -> int:
    """Run to the end, the last byte of stdout included, so that a full disk behind it is not a success."""
    status = 0
    try:
        work()
    except click.exceptions.Exit as done:
        status = done.exit_code
    sys.stdout.flush()
    return status


@singledispatch
def _failure(error: BaseException) -> _Failure:
    traceback.print_exception(error)
    text = f"This is a bug: {type(error).__name__}: {error}"
    return _Failure(kind="Bug", message=text, remedy="Please report it with the lines above.", exit_code=BUG)


@_failure.register
def _(error: ReckonError) -> _Failure:
    if error.exit_code == BUG:
        traceback.print_exception(error)
    return _Failure(kind=type(error).__name__, message=error.message, remedy=error.remedy, exit_code=error.exit_code)


@_failure.register
def _(error: click.ClickException) -> _Failure:
    context = error.ctx if isinstance(error, click.UsageError) else None
    remedy = f"Try '{context.command_path} --help'." if context else ""
    return _Failure(kind="Usage", message=error.format_message(), remedy=remedy, exit_code=Refused.exit_code)


@_failure.register(KeyboardInterrupt)
@_failure.register(click.Abort)
def _(error: BaseException) -> _Failure:
    return _Failure(kind="Interrupted", message="Interrupted.", exit_code=INTERRUPTED)


@_failure.register
def _(error: OSError) -> _Failure:
    what = error.strerror or str(error) or type(error).__name__
    where = f": {error.filename}" if error.filename else ""
    remedy = _REMEDIES.get(error.errno or 0, "Check that the file or system is there and answers, then try again.")
    return _Failure(
        kind=OutsideFailed.__name__, message=f"{what}{where}.", remedy=remedy, exit_code=OutsideFailed.exit_code
    )


@_failure.register
def _(error: ModuleNotFoundError) -> _Failure:
    library = (error.name or "").partition(".")[0]
    if library not in _EXTRAS:
        return _failure.dispatch(Exception)(error)
    return _Failure(
        kind=OutsideFailed.__name__,
        message=f"This command needs {library}, which is not installed.",
        remedy=f"Install deadreckon with its extra '{_EXTRAS[library]}'.",
        exit_code=OutsideFailed.exit_code,
    )


def _tell(failure: _Failure, *, as_json: bool) -> None:
    """Say it on stderr, and on stdout for a machine. A stdout that cannot be written to is given up in silence."""
    from registry.cli import render

    render.talk(f"{failure.message} {failure.remedy}".strip())
    try:
        if as_json:
            render.emit({"error": failure}, as_json=True)
        sys.stdout.flush()
    except OSError:
        _abandon_stdout()


def _abandon_stdout() -> None:
    """Let the interpreter's own last flush go nowhere instead of failing again."""
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123  # a device, not a path of ours
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
