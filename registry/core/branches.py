"""Names of branches for kept checkpoints: ``stageS-stepN-tokensXB``.

``S`` is the segment of the run (1 for a run that is no chain), ``N`` the completed updates of the whole run, and ``X``
the tokens seen until then in billions, exactly: ``stage2-step846-tokens0.000866304B``. One checkpoint, one spelling:
refuses leading zeros, zeros at the end of a fraction, and everything else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

from registry.core.names import Name
from registry.errors import Refused

BILLION: Final = 10**9
_BRANCH: Final = re.compile(
    r"stage([1-9][0-9]{0,5})-step(0|[1-9][0-9]{0,14})-tokens(0|[1-9][0-9]{0,5})(?:\.([0-9]{0,8}[1-9]))?B"
)
_STAGING: Final = re.compile(r"staging-[a-z0-9][a-z0-9.-]{0,200}")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class CheckpointBranch:
    """The branch of one checkpoint. ``segment`` counts from 1, ``step`` completed updates, ``tokens`` single tokens."""

    segment: int
    step: int
    tokens: int

    def __post_init__(self) -> None:
        if not _BRANCH.fullmatch(self._text()):
            raise Refused(f"No branch can be called {self._text()!r}.", remedy="Correct the counts of the checkpoint.")

    def __str__(self) -> str:
        return self._text()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a branch name. Raises ``Refused`` for any that this grammar would not write."""
        match = _BRANCH.fullmatch(text)
        if match is None:
            raise Refused(
                f"{text[:120]!r} is no branch of a checkpoint.",
                remedy="Write it like 'stage2-step846-tokens0.000866304B'.",
            )
        fraction = int((match[4] or "").ljust(9, "0"))
        return cls(segment=int(match[1]), step=int(match[2]), tokens=int(match[3]) * BILLION + fraction)

    @classmethod
    def of(cls, name: Name, tokens: int) -> Self:
        """The branch of the checkpoint ``name``, such as ``hero/2@step-846``. Raises ``Refused`` without a step."""
        if name.step is None or name.path is not None:
            raise Refused(f"{name} is not a checkpoint.", remedy="Name one, such as hero/2@step-846.")
        last = name.stage.rpartition("/")[2]
        return cls(segment=int(last) if last.isdecimal() else 1, step=name.step, tokens=tokens)

    def _text(self) -> str:
        whole, rest = divmod(self.tokens, BILLION)
        fraction = f".{rest:09d}".rstrip("0") if rest else ""
        return f"stage{self.segment}-step{self.step}-tokens{whole}{fraction}B"


def staging(what: str, identity: str) -> str:
    """The branch on which a push is prepared: ``what`` goes there, ``identity`` (hex) keeps two pushes apart."""
    name = f"staging-{what.lower()}-{identity[:12]}"
    if not _STAGING.fullmatch(name):
        raise Refused(f"No branch can be called {name!r}.", remedy="Choose a shorter name.")
    return name
