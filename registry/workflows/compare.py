"""Comparing two executions, checkpoints or exports, on record or lying in a folder.

A name means its recorded product, a digest an execution or artifact, and anything else a path: a folder of a run (with
``transcript.jsonl`` and ``checkpoints/``), a checkpoint, an export, a safetensors file. Bit-exact answers need no bytes
of recorded checkpoints; distances do. Refuses a path that is not there and a checkpoint that only one side kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

from registry.core import canonical, transcript
from registry.core.digests import Digest, FileEntry
from registry.core.histories import Kept, Result, shared_step
from registry.core.ledger import Ledger
from registry.core.parting import Measure, Parting, Side, part
from registry.core.records import Execution, Output
from registry.core.replaying import Target, target
from registry.core.resolving import Prefix, reference, root_of
from registry.core.setups import Setup
from registry.core.tensors import Leaf, tensor_root
from registry.errors import DoesNotHold, MalformedRecord, ReckonError, Refused, UnknownName
from registry.ports import TableStore

TRANSCRIPT: Final = "transcript.jsonl"
EVALUATION: Final = "evaluation.json"
_STEP: Final = re.compile(r"step-(0|[1-9][0-9]{0,14})")
_PATH: Final = re.compile(r"[./~].*")


class Shelf(Protocol):
    """Copies of recorded files on this machine."""

    def places(self, output: Output, entry: FileEntry) -> Iterator[tuple[str, Path]]:
        """Where a copy may lie."""
        ...

    def read(self, output: Output, entry: FileEntry) -> bytes:
        """The recorded bytes of a small file."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparer:
    """Compares in one archive at ``root``. ``leaves`` hashes the tensors at a path, ``measure`` measures two."""

    root: Path
    ledger: Ledger
    tables: TableStore
    shelf: Shelf
    leaves: Callable[[Path], Sequence[Leaf]]
    measure: Callable[[Path, Path], Measure]

    def compare(self, left: str, right: str) -> Parting:
        """Compare what two words mean. Raises ``Refused`` when nothing of them can be compared."""
        return self.part(self.result(left), self.result(right))

    def part(self, recorded: Result, found: Result) -> Parting:
        """Compare two results at the step that one of them names, else at the last that both kept."""
        if not recorded.kept or not found.kept:
            return part(recorded.side, found.side)
        step = shared_step(recorded, found)
        mine, theirs = recorded.at(step), found.at(step)
        sides = [replace(one.side, leaves=self.hashed(kept)) for one, kept in ((recorded, mine), (found, theirs))]
        return part(sides[0], sides[1], self._measure(mine, theirs))

    def result(self, text: str) -> Result:
        """What a word means."""
        known = {*self.ledger.stages()}
        if not _PATH.fullmatch(text):
            try:
                return self._recorded(text, known)
            except (UnknownName, Refused):
                if not Path(text).exists():
                    raise
        return self._at_path(Path(text))

    def hashed(self, kept: Kept) -> Sequence[Leaf]:
        """The leaves of a set of tensors: on record, else from its bytes."""
        if kept.root is not None:
            return self.tables.get_leaves(kept.root)
        return self.leaves(Path(kept.place)) if kept.place is not None else ()

    def root_of(self, kept: Kept) -> Digest:
        """The tensor root of a set of tensors."""
        return kept.root or tensor_root(self.hashed(kept))

    def _measure(self, mine: Kept, theirs: Kept) -> Measure | None:
        """Distances, where the bytes of both are at hand and are the recorded ones."""
        places = [Path(kept.place) for kept in (mine, theirs) if kept.place is not None and self._is(kept)]
        return self.measure(places[0], places[1]) if len(places) == 2 else None

    def _is(self, kept: Kept) -> bool:
        if kept.place is None or not Path(kept.place).exists():
            return False
        try:
            return kept.root is None or tensor_root(self.leaves(Path(kept.place))) == kept.root
        except ReckonError:
            return False

    def _recorded(self, text: str, known: set[str]) -> Result:
        named = reference(text, known)
        if isinstance(named, Prefix):
            told = [(key, one) for key, one in self.ledger.executions.items() if key.hex.startswith(named.digits)]
            if len(told) == 1 and not told[0][1].witnesses:
                return self._without_product(*told[0])
        wanted = target(self.ledger, named)
        return Result(side=self._side(wanted), step=wanted.step, kept=dict(self._kept(wanted)))

    def _without_product(self, digest: Digest, execution: Execution) -> Result:
        """An execution that gave no product: only what it was asked and ran on can be compared."""
        label = f"{execution.stage} {execution.attempt}"
        recipe = self.ledger.recipes.get(execution.recipe)
        note = f"the execution {digest.short} gave no product"
        return Result(side=Side(label=label, setup=self._setup(execution), recipe=recipe, notes=(note,)))

    def _side(self, wanted: Target) -> Side:
        lines = self._paper(wanted.own, TRANSCRIPT)
        return Side(
            label=wanted.output.name,
            transcript=None if lines is None else _lines(lines),
            evaluation=self._paper(wanted.own, EVALUATION),
            contents={wanted.own.name: str(wanted.own.digest)} if not wanted.kept else {},
            setup=self._setup(wanted.execution),
            recipe=wanted.recipe,
        )

    def _setup(self, execution: Execution) -> Setup:
        recipe = self.ledger.recipes.get(execution.recipe)
        environment = None if execution.environment is None else self.ledger.environments.get(execution.environment)
        return Setup(
            environment=environment, host=execution.host, determinism=recipe.determinism if recipe is not None else {}
        )

    def _kept(self, wanted: Target) -> Iterator[tuple[int | None, Kept]]:
        for step, output in wanted.kept.items():
            yield step, Kept(place=str(self.root / output.path), root=root_of(output))
        if root_of(wanted.own) is not None:
            yield None, Kept(place=str(self.root / wanted.own.path), root=root_of(wanted.own))

    def _paper(self, own: Output, path: str) -> bytes | None:
        entries = [one for one in self.tables.get_files(own.digest) if one.path == path]
        try:
            return self.shelf.read(own, entries[0]) if entries else None
        except (UnknownName, DoesNotHold):
            return None

    def _at_path(self, path: Path) -> Result:
        if not path.exists():
            raise Refused(f"{path} is neither a name on record nor a file or folder here.")
        steps = {int(match[1]): one for one in path.glob("checkpoints/*") if (match := _STEP.fullmatch(one.name))}
        lines, evaluation = _small(path / TRANSCRIPT), _small(path / EVALUATION)
        named = _STEP.fullmatch(path.name)
        step = int(named[1]) if named and not steps else None
        side = Side(label=str(path), transcript=None if lines is None else _lines(lines), evaluation=evaluation)
        if steps:
            return Result(
                side=side, kept={step: Kept(place=str(one), root=None) for step, one in sorted(steps.items())}
            )
        return Result(side=side, step=step, kept={step: Kept(place=str(path), root=None)})


def _lines(data: bytes) -> transcript.Transcript | None:
    try:
        return transcript.parse(data)
    except MalformedRecord:
        return None


def _small(path: Path) -> bytes | None:
    """A small file beside checkpoints; None when there is none."""
    limit = transcript.MAXIMUM_BYTES if path.name == TRANSCRIPT else canonical.MAXIMUM_BYTES
    return path.read_bytes() if path.is_file() and path.stat().st_size <= limit else None
