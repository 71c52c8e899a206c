"""Findings and verdicts: what a check found wrong, and whether the whole holds.

A finding names its subject, the path, what is recorded and what was found, and says it in a sentence. Refuses to hold
when nothing was checked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from registry.core.comparison import Change
from registry.core.digests import FileEntry
from registry.core.tensors import Leaf


class Trouble(StrEnum):
    """What kind of disagreement a finding is."""

    MISSING = "missing"  # recorded, but not there
    EXTRA = "extra"  # there, but not recorded
    ALTERED = "altered"  # there with other bytes
    TENSOR = "tensor"  # a tensor of other values
    CONTENTS = "contents"  # a count or identity of contents that is not the recorded one
    UNREADABLE = "unreadable"  # bytes that cannot be opened as what they should be
    RECORD = "record"  # a record file that is not a record, or not the one of its name
    REFERENCE = "reference"  # a record that speaks of a record which is not there, or disagrees with it
    LOCK = "lock"  # dvc.lock speaks of other bytes than the record
    CACHE = "cache"  # the DVC cache holds other bytes than the record
    UNRECORDED = "unrecorded"  # something happened that no record tells
    CONTRADICTION = "contradiction"  # one recipe gave two products
    TIME = "time"  # something was used before it was made
    PARENT = "parent"  # a segment that began from another checkpoint than it should have
    STEPS = "steps"  # steps that nothing tells of, or that two segments tell of
    TRANSCRIPT = "transcript"  # lines of a transcript that are not those of the run's steps
    ORDER = "order"  # facts of the data order that disagree with the recipe
    TRACKER = "tracker"  # a tracker holds something else than the record
    FORECAST = "forecast"  # a forecast that was not sealed before the run, or rests on other runs
    HYPOTHESIS = "hypothesis"  # an expectation that the commit does not hold
    COMMIT = "commit"  # git holds something else than the record
    SIGNATURE = "signature"  # a signature that is missing, or is not over these bytes
    TRUST = "trust"  # a key that may not sign this
    REPLAY = "replay"  # something signed that is given out as something else
    DRIFT = "drift"  # a file made from records says something else than they do
    SETUP = "setup"  # what was imported or ran is not what was locked or asked for
    CLAIM = "claim"  # two foreign claims that cannot both be true


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One disagreement about ``subject`` (an artifact's name or a record).

    ``path`` is where it lies, ``part`` the tensor or fact in it; either may be empty. ``recorded`` and ``found`` are
    the two sides, None where there is none.
    """

    subject: str
    trouble: Trouble
    text: str
    path: str = ""
    part: str = ""
    recorded: str | None = None
    found: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The outcome of a check. It holds only if something was checked and nothing was found wrong."""

    checked: int
    findings: tuple[Finding, ...]

    @property
    def holds(self) -> bool:
        """Whether the claim holds; a check of nothing proves nothing."""
        return self.checked > 0 and not self.findings


@dataclass(slots=True, kw_only=True)
class Tally:
    """What was checked so far, by kind, and what was found wrong."""

    files: int = 0
    size_bytes: int = 0
    tensors: int = 0
    facts: int = 0
    records: int = 0
    findings: list[Finding] = field(default_factory=list)

    def add(self, findings: Iterable[Finding]) -> None:
        """Take findings; one about a path that was already found wrong in the same way is left out."""
        told = {(one.trouble, one.path, one.part) for one in self.findings if one.path}
        for finding in findings:
            if (finding.trouble, finding.path, finding.part) not in told:
                self.findings.append(finding)

    @property
    def verdict(self) -> Verdict:
        """The outcome so far."""
        checked = self.files + self.tensors + self.facts + self.records
        return Verdict(checked=checked, findings=tuple(self.findings))


def of_file(subject: str, path: str, change: Change[FileEntry]) -> Finding:
    """A file at ``path`` that is missing, extra or has other bytes."""
    recorded, found = change.recorded, change.found
    if recorded is None:
        trouble, text = Trouble.EXTRA, "is not in the record"
    elif found is None:
        trouble, text = Trouble.MISSING, "is recorded and not there"
    elif recorded.size_bytes != found.size_bytes:
        trouble, text = Trouble.ALTERED, f"has {found.size_bytes} bytes; {recorded.size_bytes} are recorded"
    else:
        trouble, text = Trouble.ALTERED, "has other bytes than recorded, as many"
    return Finding(
        subject=subject,
        trouble=trouble,
        path=path,
        recorded=None if recorded is None else str(recorded.digest),
        found=None if found is None else str(found.digest),
        text=f"{path} {text}.",
    )


def of_tensor(subject: str, path: str, change: Change[Leaf]) -> Finding:
    """A tensor that is missing, extra or of other dtype, shape or values."""
    recorded, found = change.recorded, change.found
    if recorded is None:
        said = "is not in the record"
    elif found is None:
        said = "is recorded and not there"
    elif recorded.spec != found.spec:
        said = f"is {_kind(found)}; {_kind(recorded)} is recorded"
    else:
        said = "has other values than recorded"
    return Finding(
        subject=subject,
        trouble=Trouble.TENSOR,
        path=path,
        part=change.key,
        recorded=None if recorded is None else str(recorded.digest),
        found=None if found is None else str(found.digest),
        text=f"The tensor {change.key} of {subject} {said}.",
    )


def of_fact(subject: str, path: str, change: Change[str]) -> Finding:
    """A count or identity of contents that is not the recorded one."""
    return Finding(
        subject=subject,
        trouble=Trouble.CONTENTS,
        path=path,
        part=change.key,
        recorded=change.recorded,
        found=change.found,
        text=f"The contents of {subject} have {change.key} {change.found}; {change.recorded} is recorded.",
    )


def _kind(leaf: Leaf) -> str:
    return f"{leaf.dtype} {list(leaf.shape)}"
