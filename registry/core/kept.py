"""The list of kept checkpoints in a release (``checkpoints.json``), as a reader sees it.

It is signed with the release, so each entry vouches for a checkpoint: by the tree digest of its files and by its tensor
root. Refuses entries that are not of one form, and steps and names that fit none or several of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from registry.core import canonical
from registry.core.branches import CheckpointBranch
from registry.core.codec import Reader
from registry.core.digests import Digest
from registry.core.names import Name
from registry.core.pulling import is_commit
from registry.errors import MalformedRecord, Refused, UnknownName

_STEP = re.compile(r"(?:step-)?(0|[1-9][0-9]{0,14})")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptCheckpoint:
    """A kept checkpoint. ``commit`` is None where it was not on the hub yet when the release was built."""

    branch: str
    commit: str | None
    name: Name
    tokens: int
    recipe: Digest
    root: Digest
    files: Digest

    @property
    def revisions(self) -> tuple[str, ...]:
        """Where it may lie in the repository: the commit when it is known (a mirror has others), and the branch."""
        return (self.branch,) if self.commit is None else (self.commit, self.branch)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Read an entry. Raises ``MalformedRecord`` or ``Refused``."""
        step = reader.integer("step")
        one = cls(
            branch=str(CheckpointBranch.parse(reader.text("branch"))),
            commit=reader.optional("commit", reader.text),
            name=Name.parse(reader.text("name")),
            tokens=reader.integer("tokens"),
            recipe=reader.digest("recipe"),
            root=reader.digest("root"),
            files=reader.digest("files"),
        )
        reader.close()
        if one.name.step != step or (one.commit is not None and not is_commit(one.commit)):
            raise MalformedRecord(f"The list of checkpoints contradicts itself about {one.name}.")
        return one


def kept_checkpoints(data: bytes) -> tuple[KeptCheckpoint, ...]:
    """The entries of ``checkpoints.json``. Raises ``MalformedRecord``."""
    value = canonical.decode(data.removesuffix(b"\n"))
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise MalformedRecord("The list of checkpoints is no list.")
    return tuple(KeptCheckpoint.read(Reader(one, "an entry of the list of checkpoints")) for one in value)


def named(entries: Sequence[KeptCheckpoint], word: str) -> KeptCheckpoint:
    """The entry that ``step-N``, ``hero/2@step-N`` or a branch means. Raises ``UnknownName`` or ``Refused``."""
    match = _STEP.fullmatch(word)
    step = int(match[1]) if match else None
    found = [
        one for one in entries if word in (str(one.name), one.branch) or (step is not None and one.name.step == step)
    ]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(str(one.name) for one in found)
        raise Refused(f"{word!r} fits several checkpoints.", remedy=f"Name one of {names}.")
    known = ", ".join(str(one.name) for one in entries) or "none"
    raise UnknownName(f"The release lists no checkpoint {word!r}.", remedy=f"It lists {known}.")
