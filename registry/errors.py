"""The one error tree: every refusal is a sentence, a remedy and an exit code.

Nothing in the package raises a bare ``ValueError`` at a caller: an error that a person may see is one of these, so that
the exit mapper in ``registry.cli`` can turn it into words and a status without guessing.
"""

from __future__ import annotations

from typing import ClassVar


class ReckonError(Exception):
    """A fault that a person can act on. ``message`` says what is wrong, ``remedy`` what to do about it."""

    exit_code: ClassVar[int] = 70

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}".strip()


class Refused(ReckonError):
    """Bad input or usage: nothing was done (exit code 2)."""

    exit_code = 2


class DoesNotHold(ReckonError):
    """A claim was checked and does not hold (exit code 1)."""

    exit_code = 1


class OutsideFailed(ReckonError):
    """A system outside of this one failed: disk, network, tracker, DVC, git (exit code 3)."""

    exit_code = 3


class Unreachable(OutsideFailed):
    """An outside system does not answer at all, so that asking it again at once is pointless."""


class MalformedRecord(Refused):
    """Bytes that claim to be a record and are not one: not canonical, unknown schema, wrong field."""


class UnknownName(Refused):
    """A name that nothing is known under."""
