"""What a question costs, cold: the command line itself, and questions to the archive, beside what answers them today.

Questions about the pipeline's own artifacts are asked only where ``make repro`` has made them.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.harness import REPOSITORY, Comparison, Place, Program, python

_LEVANTER = "import levanter.data.mixture, levanter.data.text"


def comparisons(place: Place) -> Iterator[Comparison]:
    """Start-up, the state of the pipeline, and the documents of a batch. Nothing is made in ``place``."""
    del place
    yield _asked("the command line's help", ("--help",), _dvc("--help"))
    yield _asked("the state of every stage, from the records", ("status",), _dvc("status", "--quiet"), tolerant=True)
    if not (REPOSITORY / "artifacts" / "hero" / "1" / "order.json").is_file():
        return
    loader = python("only importing Levanter's loader", _LEVANTER)
    yield _asked("the documents of one batch of the hero", ("batch", "hero", "400"), loader)
    yield _asked("when a source was seen", ("seen", "--source", "sympy"), loader)


def _asked(title: str, arguments: tuple[str, ...], other: Program, *, tolerant: bool = False) -> Comparison:
    ours = _program(f"reckon {arguments[0]}", ("reckon", *arguments), tolerant=tolerant)
    return Comparison(title=title, size_bytes=0, ours=ours, others=[other])


def _dvc(*arguments: str) -> Program:
    return _program(f"dvc {arguments[0]}", ("dvc", *arguments), tolerant="status" in arguments)


def _program(name: str, argv: tuple[str, ...], *, tolerant: bool) -> Program:
    """A command in the repository; ``tolerant`` of the answer that something is stale, which is no failure here."""
    if tolerant:
        argv = ("sh", "-c", '"$@" || test $? -eq 1', "sh", *argv)
    return Program(name=name, argv=argv, folder=REPOSITORY, repeats=5)
