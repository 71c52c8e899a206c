"""A commit in a worktree of its own: the checkout stays as it is, bytes are copies, what died is swept away."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from support.toy import Toy

from registry.adapters.hashing import hash_file
from registry.adapters.replays import Replay
from registry.adapters.revisions import Revisions
from registry.adapters.worktrees import Worktrees
from registry.cli.planning import programmer
from registry.core.digests import FileEntry, sha256
from registry.core.program import Asked
from registry.errors import DoesNotHold, OutsideFailed, Refused, UnknownName


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def entry(data: bytes, path: str = "a/b.txt") -> FileEntry:
    return FileEntry(path=path, size_bytes=len(data), digest=sha256(data))


def head(toy: Toy) -> str:
    return toy.git("rev-parse", "HEAD").strip()


def test_the_checkout_is_not_touched(toy: Toy, place: Path) -> None:
    commit = head(toy)
    toy.replace("params.yaml", "lines: 20", "lines: 30")
    toy.write(".git/hooks/post-checkout", "#!/bin/sh\ntouch hooked\n")
    (toy.root / ".git/hooks/post-checkout").chmod(0o755)
    before = toy.git("status", "--porcelain")
    with Worktrees(toy.root, hash_file).open(commit) as tree:
        assert b"lines: 20" in (tree.root / "params.yaml").read_bytes()
        assert not (tree.root / "hooked").exists()
        assert tree.change({"determinism.nproc": "3", "chart.lines": "5"}) == {
            "determinism.nproc": ["2", "3"],
            "chart.lines": ["20", "5"],
        }
        assert yaml.safe_load((tree.root / "params.yaml").read_bytes())["determinism"] == {"nproc": 3}
        for key, value in (("determinism.no", "1"), ("determinism.nproc", "x"), ("legs", "1"), ("plot.scale.x", "1")):
            with pytest.raises(Refused):
                tree.change({key: value})
    assert toy.git("status", "--porcelain") == before
    assert toy.git("worktree", "list").count("\n") == 1
    assert not list(place.iterdir())


def test_bytes_are_copied_and_verified(toy: Toy, place: Path, tmp_path: Path) -> None:
    good, bad, short = tmp_path / "good", tmp_path / "bad", tmp_path / "short"
    for path, data in ((good, b"right"), (bad, b"wrong"), (short, b"no")):
        path.write_bytes(data)
    with Worktrees(toy.root, hash_file).open(head(toy)) as tree:
        tree.lay("x/a.txt", entry(b"right"), [tmp_path / "absent", short, bad, good])
        laid = tree.root / "x/a.txt"
        laid.write_bytes(b"other")
        assert good.read_bytes() == b"right", "a copy, no link"
        with pytest.raises(DoesNotHold):
            tree.lay("x/b.txt", entry(b"right"), [bad])
        with pytest.raises(UnknownName):
            tree.lay("x/c.txt", entry(b"right"), [short])
        assert not (tree.root / "x/b.txt").exists()
        with pytest.raises(Refused):
            tree.lay("../out.txt", entry(b"right"), [good])
        (tree.root / "x/link").symlink_to(good)
        (tree.root / "x/hard").hardlink_to(good)
        assert set(tree.borrowed(["x"])) == {"x/link", "x/hard"}
        tree.keep(tree.root / "x", tmp_path / "kept")
        with pytest.raises(Refused):
            tree.keep(tree.root / "x", tmp_path / "kept")
        tree.clear("x")
        assert not (tree.root / "x").exists()


def test_nothing_goes_through_a_link_of_the_commit(toy: Toy, place: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "runs").mkdir(parents=True)
    (outside / "runs/kept").write_bytes(b"mine")
    (outside / "params.yaml").write_bytes(b"a: 1\n")
    for name, target in (("linked", outside), ("params.yaml", outside / "params.yaml")):
        (toy.root / name).unlink(missing_ok=True)
        (toy.root / name).symlink_to(target)
        toy.git("add", "-f", name)
    toy.git("commit", "-q", "-m", "Links")
    good = tmp_path / "good"
    good.write_bytes(b"right")
    with Worktrees(toy.root, hash_file).open(head(toy)) as tree:
        for attempt in (
            lambda: tree.clear("linked/runs"),
            lambda: tree.write("linked/runs/kept", b"theirs"),
            lambda: tree.write("linked", b"theirs"),
            lambda: tree.lay("linked/new/a", entry(b"right"), [good]),
            lambda: tree.put(tree.root / "linked/runs/kept", entry(b"right"), [good]),
            lambda: tree.put(outside / "a", entry(b"right"), [good]),
            lambda: tree.change({"a": "2"}),
        ):
            with pytest.raises(Refused):
                attempt()
        assert "linked" in tree.borrowed(["linked/runs"])
        tree.clear("linked")
        assert not (tree.root / "linked").is_symlink(), "the link itself may go"
    assert sorted(one.name for one in outside.rglob("*")) == ["kept", "params.yaml", "runs"]
    assert (outside / "runs/kept").read_bytes() == b"mine"
    assert (outside / "params.yaml").read_bytes() == b"a: 1\n"


def test_what_died_is_swept_and_what_lives_is_not(toy: Toy, place: Path) -> None:
    trees = Worktrees(toy.root, hash_file)
    script = (
        "import os, sys; from pathlib import Path; from registry.adapters.worktrees import Worktrees\n"
        "with Worktrees(Path(sys.argv[1]), None).open(sys.argv[2]): os._exit(9)"
    )
    environment = {"PYTHONPATH": str(Path(__file__).parents[2]), "PATH": "/usr/bin:/bin", "TMPDIR": str(place)}
    died = subprocess.run([sys.executable, "-c", script, str(toy.root), head(toy)], env=environment, check=False)
    assert died.returncode == 9
    [left] = place.iterdir()
    with trees.open(head(toy)) as living:
        assert not left.exists()
        assert trees.sweep() == (), "a living one is left alone"
        assert living.root.is_dir()


def test_commits_and_consent(toy: Toy, place: Path) -> None:
    trees, first = Worktrees(toy.root, hash_file), head(toy)
    toy.commit("Later")
    assert trees.subject(first).startswith("Begin (Test, ")
    with pytest.raises(Refused, match="not in this clone"):
        trees.subject("0" * 40)
    assert trees.trusted(first) is None
    toy.git("config", "--add", "reckon.trust", "--upload-pack=x")
    toy.git("config", "--add", "reckon.trust", first)
    assert trees.trusted(first) == first
    assert trees.trusted(head(toy)) is None, "consent does not reach later commits"
    toy.git("config", "--add", "reckon.trust", "main")
    assert trees.trusted(head(toy)) == "main"


def test_a_history_is_read_whatever_its_subjects_and_settings_are(toy: Toy) -> None:
    first, subject = head(toy), "Lines \x0b\x1c\u2028 in one subject"
    toy.write("params.yaml", "a: 1\n")
    toy.git("add", "params.yaml")
    toy.git("commit", "-q", "-m", subject)
    signed = toy.git("cat-file", "commit", "HEAD").replace("\n\n", "\ngpgsig -----BEGIN PGP SIGNATURE-----\n x\n\n", 1)
    (toy.root / "signed").write_text(signed, encoding="utf-8")
    toy.git("reset", "-q", "--hard", toy.git("hash-object", "-t", "commit", "-w", "signed").strip())
    toy.git("config", "log.showSignature", "true")
    assert Revisions(toy.root).between(first, "HEAD", ["params.yaml"]) == ((head(toy), subject),)


def test_lowering_asks_for_the_same_consent(toy: Toy, place: Path) -> None:
    first = head(toy)
    toy.write("params.yaml", "a: 1\n")
    toy.git("add", "params.yaml")
    toy.git("commit", "-q", "-m", "Later")
    asked = Asked(name="d48", platform=None, devices=None, mesh=None)
    work = programmer(toy.root, lambda _: None)
    attempts = (
        lambda: work.lower(asked, first),
        lambda: work.compare(asked, first, None),
        lambda: list(work.history(asked, first, "HEAD")),
    )
    for attempt in attempts:
        with pytest.raises(Refused, match="is not the commit that is checked out"):
            attempt()
    assert not list(place.iterdir()), "no worktree was opened"
    assert work.admitted("HEAD") == head(toy)
    assert programmer(toy.root, lambda _: None, anywhere=True).admitted(first) == first
    toy.git("config", "--add", "reckon.trust", first)
    assert work.admitted(first) == first


def test_the_environment_is_clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "NPROC", "XLA_FLAGS", "GIT_DIR", "PYTHONSTARTUP"):
        monkeypatch.setenv(name, "mine")
    monkeypatch.setenv("PLAIN", "stays")
    log = tmp_path / "said.txt"
    replay = Replay(root=tmp_path, log=log, variables={"EXTRA": "on purpose"})
    ended = replay.run(["env"], lambda _: False)
    told = dict(line.partition("=")[::2] for line in log.read_text().splitlines())
    assert (ended.status, ended.stopped) == (0, False)
    assert not [name for name, value in told.items() if value == "mine"]
    assert (told["PLAIN"], told["EXTRA"], told["PYTHONPATH"]) == ("stays", "on purpose", str(tmp_path))


def test_children_do_not_outlive_the_process_that_began_them(tmp_path: Path) -> None:
    replay = Replay(root=tmp_path, log=tmp_path / "said.txt", variables={})
    body = "(echo ready > began; sleep 0.6; touch late) & while ! test -e began; do sleep 0.01; done"
    assert replay.run(["sh", "-c", body], lambda _: False).status == 0
    time.sleep(0.8)
    assert not (tmp_path / "late").exists()


def test_a_process_is_stopped_and_asked(tmp_path: Path) -> None:
    replay = Replay(root=tmp_path, log=tmp_path / "said.txt", variables={})
    seen: list[int] = []

    def look(pid: int) -> bool:
        seen.append(pid)
        return len(seen) > 2

    ended = replay.run(["sleep", "60"], look)
    assert (ended.stopped, ended.status, ended.pid) == (True, -15, seen[0])
    (tmp_path / "train").mkdir()
    (tmp_path / "train/__init__.py").write_text("")
    (tmp_path / "sitecustomize.py").write_text("open('ran', 'w')")
    (tmp_path / "json.py").write_text("open('ran', 'w')")
    assert replay.probe(["click"], [])[0].distributions
    assert not (tmp_path / "ran").exists(), "nothing of the folder runs before consent"
    (tmp_path / "sitecustomize.py").unlink()
    (tmp_path / "json.py").unlink()
    told, places = replay.probe(["click", "no-such-distribution"], ["train"])
    assert [one["name"] for one in told.distributions] == ["click"]
    assert Path(places["train"]).is_relative_to(tmp_path.resolve())
    with pytest.raises(OutsideFailed):
        replay.start_and_kill(["true"], lambda: False)
