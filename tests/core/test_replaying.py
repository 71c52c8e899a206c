"""What is to be made again: which execution, and which span of steps."""

from __future__ import annotations

import pytest
from support.toy import Toy

from registry.core.names import Name
from registry.core.replaying import Span, span, target
from registry.core.resolving import Prefix
from registry.errors import Refused, UnknownName


def test_a_name_means_its_newest_clean_execution(sailed: Toy) -> None:
    clean = target(sailed.ledger, Name.parse("leg/1"))
    sailed.write("train/stray.py", "")
    sailed.run("leg/1")
    again = target(sailed.ledger, Name.parse("leg/1"))
    assert again.execution_digest == clean.execution_digest, "the dirty one is newer"
    assert (again.stage, again.step, again.steps, list(again.kept)) == ("leg/1", None, range(4), [2, 4])
    assert target(sailed.ledger, Name.parse("leg/2@step-6")).parent == "leg/1@step-4"


def test_a_digest_means_an_execution_or_an_artifact(sailed: Toy) -> None:
    held = target(sailed.ledger, Name.parse("leg/1@step-2"))
    root = str(held.output.contents["tensors"]).partition(":")[2]
    assert target(sailed.ledger, Prefix(digits=root[:12])).output.name == "leg/1@step-2"
    assert target(sailed.ledger, Prefix(digits=held.execution_digest.hex)).execution == held.execution
    with pytest.raises(UnknownName):
        target(sailed.ledger, Prefix(digits="0123456789ab"))


@pytest.mark.parametrize(
    ("name", "start", "steps", "wanted"),
    [
        ("leg/1", None, None, Span()),
        ("leg/1", "scratch", None, Span()),
        ("leg/2", "leg/1@step-4", None, Span()),
        ("leg/1", "leg/1@step-2", None, Span(begin=2)),
        ("leg/1@step-2", None, None, Span(stop=2)),
        ("leg/1", None, 3, Span(stop=3)),
        ("leg/1", "leg/1@step-2", 1, Span(begin=2, stop=3)),
        ("leg/1", "leg/1@step-2", 2, Span(begin=2)),
        ("chart", None, None, Span()),
    ],
)
def test_spans(sailed: Toy, name: str, start: str | None, steps: int | None, wanted: Span) -> None:
    assert span(target(sailed.ledger, Name.parse(name)), start, steps) == wanted
    assert Span().whole
    assert not Span(stop=3).whole


@pytest.mark.parametrize(
    ("name", "start", "steps"),
    [
        ("leg/1", "leg/1@step-3", None),
        ("leg/1", "leg/2@step-6", None),
        ("leg/2", "leg/1@step-2", None),
        ("leg/1@step-2", "leg/1@step-4", None),
        ("leg/1", None, 5),
        ("leg/1", "leg/1@step-2", 3),
        ("chart", None, 1),
        ("chart", "leg/1@step-2", None),
    ],
)
def test_spans_that_are_none(sailed: Toy, name: str, start: str | None, steps: int | None) -> None:
    with pytest.raises(Refused):
        span(target(sailed.ledger, Name.parse(name)), start, steps)
