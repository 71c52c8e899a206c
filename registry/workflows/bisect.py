"""Looking for the first step at which two histories part, when only their end states are known to differ.

First what costs nothing: transcripts, where both have one; else a binary search over the checkpoints that both kept,
since what has parted stays parted. Then the window between the last equal and the first other checkpoint is replayed,
as it is recorded and, where a change of settings is given, as the other side ran; their transcripts name the step.
Refuses histories without steps, and tells when they do not differ at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from registry.core.digests import Digest
from registry.core.histories import Kept, Result, last_shared
from registry.core.parting import Parting, Side, part
from registry.errors import Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Steps to replay: after the kept checkpoint ``begin`` (None: from the beginning of the stage) to ``stop``."""

    begin: int | None
    stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bisected:
    """What was found. ``first_step`` is the first step after which the two differ, None when it could not be named;
    then they part within ``window``. ``follows`` says whose state the recorded code gives here at the window's end."""

    compared: tuple[tuple[int, bool], ...]
    window: Window | None
    first_step: int | None
    fields: tuple[str, ...]
    by: str
    follows: str | None
    parted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Bisector:
    """Bisects. ``root_of`` tells the tensor root of a kept checkpoint; ``replay`` makes a window again and compares it
    with the record, with the other side's changes when its second argument says so."""

    root_of: Callable[[Kept], Digest]
    replay: Callable[[Window, bool], Parting]

    def bisect(self, recorded: Result, found: Result, *, changed: bool) -> Bisected:
        """Find where two histories part. ``changed`` tells that the other side's changes are known."""
        lines = part(_lines(recorded), _lines(found)).lines
        if lines is not None and lines.difference is not None:
            fields = lines.difference.fields
            return _found((), None, lines.difference.step, (fields, "the transcripts of both", None))
        steps = self._steps(recorded, found)
        seen: dict[int, bool] = {}

        def same(step: int) -> bool:
            seen[step] = self.root_of(recorded.at(step)) == self.root_of(found.at(step))
            return seen[step]

        low, high = last_shared(steps, same)
        told = tuple(sorted(seen.items()))
        if high is None:
            return replace(_found(told, None, None, ((), "the kept checkpoints", None)), parted=False)
        return self._replayed(told, Window(begin=low, stop=high), (recorded, found), changed=changed)

    def _replayed(
        self, told: tuple[tuple[int, bool], ...], window: Window, sides: tuple[Result, Result], *, changed: bool
    ) -> Bisected:
        recorded, found = sides
        mine = self.replay(window, False)
        follows = self._follows(mine, recorded, found, window.stop)
        if mine.first_step is not None:
            return _found(told, window, mine.first_step, (_fields(mine), "a replay as recorded", follows))
        if not changed:
            return _found(told, window, None, ((), "a replay as recorded, which agrees with the record", follows))
        theirs = self.replay(window, True)
        follows = self._follows(theirs, recorded, found, window.stop)
        against = part(_lines_of(mine.found), _lines_of(theirs.found))
        first = against.first_step if theirs.first_step is None else theirs.first_step
        return _found(told, window, first, (_fields(theirs), "a replay under the other side's settings", follows))

    def _follows(self, made: Parting, recorded: Result, found: Result, stop: int) -> str:
        """Whose state a replay gave."""
        sides = {recorded.side.label: recorded, found.side.label: found}
        for label, one in sides.items():
            if made.found.root is not None and self.root_of(one.at(stop)) == made.found.root:
                return label
        return "neither"

    def _steps(self, recorded: Result, found: Result) -> Sequence[int]:
        named = [found.step] if found.step is not None else [recorded.step] if recorded.step is not None else []
        steps = [
            step for step in recorded.steps if found.has(step) and (len(found.kept) > 1 or not named or step in named)
        ]
        if not steps:
            raise Refused(f"{recorded.side.label} and {found.side.label} kept no step in common.")
        return steps if len(found.kept) > 1 or named else steps[-1:]


def _found(
    told: tuple[tuple[int, bool], ...],
    window: Window | None,
    first: int | None,
    how: tuple[tuple[str, ...], str, str | None],
) -> Bisected:
    fields, by, follows = how
    return Bisected(compared=told, window=window, first_step=first, fields=fields, by=by, follows=follows, parted=True)


def _lines(result: Result) -> Side:
    return _lines_of(result.side)


def _lines_of(side: Side) -> Side:
    return Side(label=side.label, transcript=side.transcript)


def _fields(parting: Parting) -> tuple[str, ...]:
    return () if parting.lines is None or parting.lines.difference is None else parting.lines.difference.fields
