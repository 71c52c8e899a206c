"""A re-derivation: an execution that made something on record again, and what came of it.

It is an execution like any other, marked by the field ``rederives``, which the schema keeps. One that made the whole
product again, bit for bit, is a witness. A window of steps is never complete: it counts for the steps that it ran.
Under another setup a difference is a mismatch and never a contradiction. Refuses to read more into a mark than it says:
a malformed one marks the execution and claims nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Self

from registry.core.canonical import Json
from registry.core.codec import Reader
from registry.core.digests import Digest
from registry.core.records import Execution
from registry.errors import ReckonError

KEY: Final = "rederives"


class Verdict(StrEnum):
    """What a re-derivation came to."""

    AGREES = "agrees"  # the same bytes
    CONTRADICTS = "contradicts"  # other bytes under the same setup
    MISMATCH = "setup-mismatch"  # other bytes under another setup


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What ``rederives`` says: the product and the execution that were made again, how, and with what result.

    ``first_step`` and ``last_step`` are the completed steps before and after what was replayed, None for stages without
    steps. ``changes`` are settings that were changed on purpose, ``setup`` the differences of the machine that can
    change bits, both as ``fact → [recorded, used]``. ``tolerance`` and ``noise`` are decimals.
    """

    product: Digest
    execution: Digest
    verdict: Verdict
    whole: bool
    tier: str | None
    first_step: int | None
    last_step: int | None
    changes: Mapping[str, Json] = field(default_factory=dict)
    setup: Mapping[str, Json] = field(default_factory=dict)
    difference: Mapping[str, Json] | None = None
    tolerance: str | None = None
    noise: str | None = None

    def to_json(self) -> dict[str, Json]:
        return {
            "product": str(self.product),
            "execution": str(self.execution),
            "verdict": self.verdict.value,
            "whole": self.whole,
            "tier": self.tier,
            "first_step": self.first_step,
            "last_step": self.last_step,
            "changes": self.changes,
            "setup": self.setup,
            "difference": self.difference,
            "tolerance": self.tolerance,
            "noise": self.noise,
        }

    @classmethod
    def read(cls, reader: Reader) -> Self:
        verdict = reader.text("verdict")
        one = cls(
            product=reader.digest("product"),
            execution=reader.digest("execution"),
            verdict=Verdict(verdict) if verdict in set(Verdict) else Verdict.MISMATCH,
            whole=reader.flag("whole"),
            tier=reader.optional("tier", reader.text),
            first_step=reader.optional("first_step", reader.integer),
            last_step=reader.optional("last_step", reader.integer),
            changes=reader.mapping("changes"),
            setup=reader.mapping("setup"),
            difference=reader.optional("difference", reader.mapping),
            tolerance=reader.optional("tolerance", reader.text),
            noise=reader.optional("noise", reader.text),
        )
        reader.close()
        return one

    @property
    def agrees(self) -> bool:
        """Whether what was made again has the recorded bytes."""
        return self.verdict is Verdict.AGREES

    @property
    def witnesses(self) -> bool:
        """Whether it speaks for the record: the same bytes, and nothing was changed on purpose."""
        return self.agrees and not self.changes

    @property
    def steps(self) -> range | None:
        """The steps that were replayed, as completed updates before each; None when there are none."""
        if self.first_step is None or self.last_step is None or self.last_step <= self.first_step:
            return None
        return range(self.first_step, self.last_step)


def rederives(execution: Execution) -> bool:
    """Whether an execution made something again that was on record."""
    return KEY in execution.extra


def mark_of(execution: Execution) -> Mark | None:
    """The mark of a re-derivation; None for other executions, and for a mark that cannot be read."""
    try:
        return Mark.read(Reader(execution.extra.get(KEY), KEY)) if rederives(execution) else None
    except ReckonError:
        return None
