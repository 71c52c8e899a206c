"""The grammar of names: ``STAGE[@step-N][:PATH]``.

A stage is one or more lowercase words joined by ``/``. Refuses absolute paths, ``..``, upper case, backslashes and
anything that two spellings could reach.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from registry.errors import Refused, UnknownName

_STAGE = r"[a-z0-9][a-z0-9._-]*(?:/[a-z0-9][a-z0-9._-]*)*"
_NAME = re.compile(rf"({_STAGE})(?:@step-(0|[1-9][0-9]{{0,14}}))?(?::(.+))?", re.DOTALL)
_GRAMMAR = "Names look like 'shards', 'rung/d48', 'hero/1@step-400' or 'rung/d48:transcript.jsonl'."


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """A stage, a kept checkpoint of it, or a file of either."""

    stage: str
    step: int | None = None
    path: str | None = None

    def __str__(self) -> str:
        step = "" if self.step is None else f"@step-{self.step}"
        return f"{self.stage}{step}" + ("" if self.path is None else f":{self.path}")

    @property
    def artifact(self) -> str:
        """The name without a file: a stage's output or a checkpoint."""
        return str(Name(stage=self.stage, step=self.step))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a name. Raises ``Refused`` with the grammar when it is not one."""
        match = _NAME.fullmatch(text)
        if match is None or ".." in match[1].split("/"):
            raise Refused(f"{text!r} is not a name.", remedy=_GRAMMAR)
        path = None if match[3] is None else checked_path(match[3])
        return cls(stage=match[1], step=None if match[2] is None else int(match[2]), path=path)


def checked_path(path: str) -> str:
    """Return ``path`` when it is a plain relative POSIX path inside its folder; raises ``Refused`` otherwise."""
    parts = path.split("/")
    bad = any(part in ("", ".", "..") for part in parts) or "\\" in path or path.startswith("/")
    if bad or any(ord(char) < 32 or ord(char) == 127 for char in path):
        raise Refused(f"{path!r} is not a relative path inside its folder.", remedy="Write it like 'a/b.json'.")
    return path


def dvc_stage(stage: str) -> str:
    """The DVC name of a stage: ``rung/d48`` is ``rung@d48``."""
    head, _, item = stage.partition("/")
    return f"{head}@{item}" if item else head


def stage_of_dvc(name: str) -> str:
    """The stage behind a DVC name: ``rung@d48`` is ``rung/d48``."""
    return name.replace("@", "/", 1)


def known(name: str, names: Iterable[str]) -> str:
    """Return ``name`` when it is among ``names``; raises ``UnknownName`` with the nearest ones otherwise."""
    candidates = sorted(set(names))
    if name in candidates:
        return name
    near = difflib.get_close_matches(name, candidates, n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"Known are: {', '.join(candidates) or 'none yet'}."
    raise UnknownName(f"Nothing is known under the name {name!r}.", remedy=hint)
