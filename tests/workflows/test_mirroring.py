"""Names of a mirrored repository: what no folder can hold is refused first, and what is gone is forgotten."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import cast

import pytest

from registry.adapters.hub_cache import MirrorFolder
from registry.cli import pulling
from registry.core.pulling import MOST_REFS, Reference
from registry.errors import Refused
from registry.ports import Origin
from registry.workflows.pull import Looker, Mirrorer, Puller

REFERENCE = Reference.parse("hf://lab/m")


@dataclass(frozen=True)
class Named:
    """An origin that has names and nothing else: whoever asks for more has gone too far."""

    branches: dict[str, str]
    tags: dict[str, str]

    def refs(self, _: Reference) -> tuple[dict[str, str], dict[str, str]]:
        return self.branches, self.tags


@pytest.mark.parametrize(
    ("branches", "tags", "words"),
    [
        ({}, {}, "neither a branch nor a tag"),
        ({"a": "0" * 40}, {"a/b": "0" * 40}, "cannot lie beside"),
        ({"a": "0" * 40}, {"a": "1" * 40}, "cannot lie beside"),
        ({"a/./b": "0" * 40}, {}, "is no revision"),
        ({f"b{number}": "0" * 40 for number in range(MOST_REFS + 1)}, {}, "at most"),
    ],
)
def test_names_that_no_mirror_can_hold_are_refused_before_anything_is_fetched(branches, tags, words):
    origin = cast("Origin", Named(branches, tags))
    looker = Looker(origin=origin, judge=pulling.judge(None), unsigned=True)
    with pytest.raises(Refused, match=words):
        Mirrorer(puller=Puller(origin=origin), looker=looker).plan(REFERENCE)


def test_a_mirror_forgets_names_and_writes_through_no_link(tmp_path):
    made = MirrorFolder(tmp_path / "mirror", REFERENCE)
    made.point({"a/b": "0" * 40}, {})
    (made.folder / "refs/.a.new").symlink_to(tmp_path / "victim")
    made.point({"a": "1" * 40}, {})
    assert (made.folder / "refs/a").read_text() == "1" * 40
    assert not (tmp_path / "victim").exists()
    shutil.rmtree(made.folder / "refs")
    (made.folder / "refs").symlink_to(tmp_path)
    with pytest.raises(Refused, match="no plain folder"):
        MirrorFolder(tmp_path / "mirror", REFERENCE)
