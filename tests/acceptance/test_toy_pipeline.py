"""A toy pipeline through the real DVC and the real ``reckon``: what is recorded, and what never counts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.toy import Toy, dvc

from registry.core.records import Execution

pytestmark = pytest.mark.slow


def repro(toy: Toy, *arguments: str) -> str:
    done = dvc(toy.root, "repro", "note", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def executions(toy: Toy) -> list[Execution]:
    return [one for _, one in toy.ledger.newest()]


def test_runs_are_recorded_and_cache_hits_are_not(toy: Toy, reckon: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(toy.root)
    repro(toy)
    [execution] = executions(toy)
    assert execution.witnesses
    assert not execution.revision.dirty
    lock = (toy.root / "dvc.lock").read_bytes()
    toy.commit("Once")

    assert "didn't change" in repro(toy)
    assert len(executions(toy)) == 1

    (toy.root / "artifacts/note.json").unlink()
    assert "checking out outputs" in repro(toy)
    assert len(executions(toy)) == 1, "a cache hit is not a re-run"

    repro(toy, "--force")
    assert (toy.root / "dvc.lock").read_bytes() == lock
    assert "2 witnesses, no contradiction" in reckon("show", "note").stdout
    assert reckon("verify", "--all", "--cache").status == 0

    [cached] = (toy.root / ".dvc/cache/files/md5").glob("*/*")
    cached.chmod(0o644)
    toy.flip(cached.relative_to(toy.root).as_posix(), 7)
    cached.chmod(0o444)
    assert "up to date" in dvc(toy.root, "status", "note").stdout, "DVC does not look at the bytes again"
    assert reckon("verify", "--all").status == 0
    ended = reckon("verify", "note", "--cache")
    assert ended.status == 1
    assert "note: cache: The DVC cache has other bytes of artifacts/note.json." in ended.stdout
