"""One complete execution of a rung, for tests that alter what they are about."""

from __future__ import annotations

from registry.core.digests import sha256
from registry.core.records import Execution, Outcome, Revision

ONE = Execution(
    stage="rung/d32",
    attempt="a1",
    recipe=sha256(b"recipe"),
    product=sha256(b"product"),
    outcome=Outcome.COMPLETE,
    cause=None,
    steps={"first": 0, "reached": 40},
    resumed=None,
    parent=None,
    revision=Revision(commit="c" * 40, tree="d" * 40, patch=None),
    host={"name": "harbour"},
    started="2026-11-30T12:00:00.000000Z",
    ended=None,
    environment=None,
    trackers=(),
    incidents=(),
    hypothesis=None,
)
