"""A whole release goes round, by the very rehearsal that ``make rehearse`` runs, on a small archive with a lineage.

It is built from an export, signed, pushed to the embedded hub, pulled, audited over ``hf://``, tampered with here and
on the hub's disk, and yanked; the rehearsal looks at status and words of every command.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support import harbour

from benchmarks.rehearsal import Failed, Rehearsal, rehearse


@pytest.mark.slow
def test_a_release_that_holds_and_is_tampered_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    yard = harbour.build(tmp_path / "harbour")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    rehearse(Rehearsal(yard.root, scratch, "schooner"))
    commands = capsys.readouterr().out.split("\n$ ")
    audits = [told for told in commands if told.startswith("reckon audit")]
    assert [("Holds. The worst edge" in told, "(status 1)" in told) for told in audits] == [
        *[(True, False)] * 2,
        *[(False, True)] * 2,
    ]
    assert "worst edges are contradicted: schooner@1.0.0+files.\n" in audits[-1], "that edge and no other"
    assert not list((yard.root / "manifests").glob("publications/*")), "the archive itself is only read"


def test_a_line_that_ends_otherwise_fails_the_rehearsal(tmp_path: Path) -> None:
    stage = Rehearsal(tmp_path, tmp_path)
    stage.run("echo Holds.", needs=("Holds.",))
    for line, told in (("false", {}), ("true", {"status": 1}), ("echo -", {"needs": ("Holds.",)}), ("false | cat", {})):
        with pytest.raises(Failed, match="ended with status"):
            stage.run(line, **told)
    with pytest.raises(Failed, match="make repro"):
        rehearse(stage)
