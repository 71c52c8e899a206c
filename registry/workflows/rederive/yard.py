"""What a re-derivation needs of the outside: a worktree to work in, a recorder, a process to run, places to look.

Protocols only; ``registry.cli.rederiving`` joins them with adapters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from registry.core.canonical import Json
from registry.core.digests import Digest, FileEntry
from registry.core.ledger import Ledger
from registry.core.openings import Opening
from registry.core.parting import Measure
from registry.core.records import Environment, Execution, Output, Product
from registry.observing import Workshop
from registry.ports import Attempts, RecordStore, TableStore


class Tree(Protocol):
    """A worktree of the recorded commit at ``root``; ``folder`` holds it and what vanishes with it."""

    @property
    def folder(self) -> Path: ...
    @property
    def root(self) -> Path: ...

    def lay(self, path: str, entry: FileEntry, candidates: Iterable[Path]) -> None:
        """Put a recorded file there, from the first candidate with the recorded bytes. ``UnknownName`` when none."""
        ...

    def put(self, target: Path, entry: FileEntry, candidates: Iterable[Path]) -> None:
        """The same, at any place in the folder."""
        ...

    def write(self, path: str, data: bytes) -> None:
        """Write a file."""
        ...

    def clear(self, path: str) -> None:
        """Remove a file or folder."""
        ...

    def change(self, changes: Mapping[str, str]) -> Mapping[str, Json]:
        """Change settings; ``[before, after]`` by key."""
        ...

    def patch(self, file: Path) -> None:
        """Apply uncommitted changes."""
        ...

    def borrowed(self, paths: Iterable[str]) -> Sequence[str]:
        """Outputs that are links or share their bytes with another name."""
        ...

    def keep(self, source: Path, target: Path) -> None:
        """Copy a result out of the folder."""
        ...


class Ended(Protocol):
    """How a process ended."""

    @property
    def pid(self) -> int: ...
    @property
    def status(self) -> int: ...
    @property
    def stopped(self) -> bool: ...
    @property
    def tail(self) -> str: ...


class Runner(Protocol):
    """Runs commands in the worktree, in a clean environment."""

    def probe(self, names: Sequence[str], modules: Sequence[str]) -> tuple[Environment, Mapping[str, str]]:
        """What the interpreter has of those distributions, and where it finds those modules."""
        ...

    def run(self, command: Sequence[str], look: Callable[[int], bool]) -> Ended:
        """Run; ``look`` is asked every so often whether to stop the process of that id."""
        ...

    def start_and_kill(self, command: Sequence[str], ready: Callable[[], bool]) -> None:
        """Run until ``ready``, then kill."""
        ...


class Watch(Protocol):
    """How far a stage came."""

    def transcript(self) -> Path | None:
        """The transcript that it writes or has written."""
        ...

    def step(self) -> int | None:
        """The last step told."""
        ...

    def scratch(self) -> Path | None:
        """The folder that lets it resume."""
        ...


class RecordedStage(Protocol):
    """What a recorder wrote."""

    @property
    def executions(self) -> Sequence[tuple[Digest, Execution]]: ...
    @property
    def product(self) -> Product | None: ...


class Recording(Protocol):
    """The recorder of stages, over the worktree and with stores of its own."""

    def begin(self, stage: str, hypothesis: Mapping[str, Json] | None) -> Opening:
        """Write down what is asked."""
        ...

    def record(self, stage: str, status: int, ledger: Ledger) -> RecordedStage:
        """Observe the outputs and write the attempts."""
        ...


class Shelf(Protocol):
    """Copies of recorded files on this machine: the checkout, DVC's cache, a remote that is a folder."""

    def places(self, output: Output, entry: FileEntry) -> Iterator[tuple[str, Path]]:
        """Where a copy may lie."""
        ...

    def read(self, output: Output, entry: FileEntry) -> bytes:
        """The recorded bytes of a small file."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Yard:
    """One open worktree with everything around it. ``staged`` and ``tables`` take what its recorder writes.

    ``committed`` sees the worktree as the commit has it. ``workshop`` is the recorder's; it keeps the settings that it
    reads first, so it is asked only after they were changed on purpose.
    """

    tree: Tree
    committed: Workshop
    workshop: Workshop
    recording: Recording
    attempts: Attempts
    staged: RecordStore
    tables: TableStore
    runner: Runner
    watch: Callable[[str], Watch]
    measure: Callable[[Path, Path], Measure]
