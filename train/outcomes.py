"""What a finished run came to: its held-out loss and its scale, read back from its outputs.

Refuses a missing, oversized or malformed file, and a run whose summary lacks the scale that a forecast speaks of.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from registry.core import canonical, decimals
from registry.core.codec import Reader
from registry.core.digests import Digest, sha256
from registry.errors import MalformedRecord, Refused

MAXIMUM_BYTES = 4 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A finished run: its evaluation and summary by digest, its scale on one axis, its macro loss in nats per token."""

    name: str
    evaluation: Digest
    summary: Digest
    scale: Decimal
    loss: Decimal


def read_outcome(name: str, folder: Path, axis: str) -> Outcome:
    """The outcome of the run ``name`` whose outputs lie in ``folder``, at its scale on ``axis`` (a key of its summary).

    Raises ``Refused`` for a missing file, ``MalformedRecord`` for one that is not what a trained stage writes.
    """
    evaluation, summary = read_whole(folder / "evaluation.json"), read_whole(folder / "summary.json")
    losses = Reader(_document(evaluation), f"the evaluation of {name}")
    facts = Reader(_document(summary), f"the summary of {name}")
    return Outcome(
        name=name,
        evaluation=sha256(evaluation),
        summary=sha256(summary),
        scale=_scale(facts, axis),
        loss=losses.object("macro", lambda macro: decimals.read(macro.text("loss"))),
    )


def read_whole(path: Path) -> bytes:
    """The bytes of a small file. Raises ``Refused`` when it is missing or over ``MAXIMUM_BYTES``."""
    try:
        with path.open("rb") as file:
            data = file.read(MAXIMUM_BYTES + 1)
    except FileNotFoundError as error:
        raise Refused(f"{path} does not exist.", remedy="Run the stage that makes it with 'dvc repro'.") from error
    if len(data) > MAXIMUM_BYTES:
        raise Refused(f"{path} is over {MAXIMUM_BYTES} bytes.")
    return data


def _document(data: bytes) -> canonical.Json:
    """The value of a canonical file; its final newline is no part of the value."""
    return canonical.decode(data.removesuffix(b"\n"))


def _scale(facts: Reader, axis: str) -> Decimal:
    value = facts.raw(axis)
    if isinstance(value, int) and not isinstance(value, bool):
        return Decimal(value)
    if isinstance(value, str):
        return decimals.read(value)
    raise MalformedRecord(f"A run's {axis} must be a whole number or a decimal string.")
