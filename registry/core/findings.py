"""Findings and verdicts: what a check found wrong, and whether the whole holds.

A finding names its subject, the path in it, what is recorded and what was found. Refuses to hold when nothing was
checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Trouble(StrEnum):
    """What kind of disagreement a finding is."""

    MISSING = "missing"  # recorded, but not there
    EXTRA = "extra"  # there, but not recorded
    ALTERED = "altered"  # there with other bytes
    TENSOR = "tensor"  # a tensor of other values
    CONTENTS = "contents"  # a count or identity of contents that is not the recorded one
    UNREADABLE = "unreadable"  # bytes that cannot be opened as what they should be
    RECORD = "record"  # a record file that is not a record, or not the one of its name
    REFERENCE = "reference"  # a record that speaks of a record which is not there
    LOCK = "lock"  # dvc.lock speaks of other bytes than the record
    CACHE = "cache"  # the DVC cache holds other bytes than the record
    UNRECORDED = "unrecorded"  # something happened that no record tells


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One disagreement: about ``subject`` (an artifact's name or a record), at ``path`` (empty: the whole of it)."""

    subject: str
    trouble: Trouble
    path: str
    recorded: str | None
    found: str | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The outcome of a check. It holds only if something was checked and nothing was found wrong."""

    checked: int
    findings: tuple[Finding, ...]

    @property
    def holds(self) -> bool:
        """Whether the claim holds; a check of nothing proves nothing."""
        return self.checked > 0 and not self.findings
