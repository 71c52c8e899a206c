"""``reckon adopt`` and what the other commands say of foreign things, in an archive that holds nothing of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.foreign import FACTS, document, thing

from registry.cli.main import run

HERO = "marin/hero"


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with just enough of an archive."""
    (tmp_path / "dvc.yaml").write_text("stages: {}\n")
    (tmp_path / "params.yaml").write_text("{}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def adopted(archive: Path, reckon) -> Path:
    """The same with the public record in it."""
    assert reckon("adopt", str(FACTS)).status == 0
    return archive


def test_adopting_twice_writes_once_and_a_change_is_written_beside(archive: Path, reckon) -> None:
    first = json.loads(reckon("adopt", str(FACTS), "--json").stdout)
    assert first["new"] == len(first["adopted"]) == 17
    assert json.loads(reckon("adopt", str(FACTS), "--json").stdout)["new"] == 0
    kept = {path.name for path in (archive / "manifests/adopted").iterdir()}
    changed = document()
    del thing(changed, HERO)["claims"]["issue-8435"]["steps"]
    (archive / "changed.json").write_text(json.dumps(changed))
    assert "390139" in reckon("audit", HERO).stdout
    assert json.loads(reckon("adopt", "changed.json", "--json").stdout)["new"] == 17
    assert kept < {path.name for path in (archive / "manifests/adopted").iterdir()}
    assert "390139" not in reckon("audit", HERO).stdout


def test_the_audit_names_losses_and_both_sides_of_contradictions(adopted: Path, reckon) -> None:
    ended = reckon("audit", HERO)
    assert ended.status == 1
    for part in (
        "390139 (issue-8435)", "18.75e12 (statements", "792 (statements", "28098 (issue-8890)", "store_81e7e39a",
        "about 741e9", "deleted later in a quota clean-up", "temporary copy, no durable one now", "temporary bucket",
        "hand-set correction of 0.005", "withheld", "Does not hold",
    ):  # fmt: skip
        assert part in ended.stdout, part
    facts = json.loads(reckon("audit", HERO, "--json").stdout)
    assert (facts["verdict"], facts["holds"]) == ("contradicted", False)


def test_one_edge_can_be_explained(adopted: Path, reckon) -> None:
    ended = reckon("audit", HERO, "--explain", "marin/hero+figure=steps")
    assert ended.status == 1
    assert "sha256sum manifests/adopted/" in ended.stdout
    assert "# marin-community/marin issue 8435" in ended.stdout
    assert reckon("audit", HERO, "--explain", "marin/hero+figure=derived").status == 0
    assert reckon("audit", HERO, "--explain", "no-such-edge").status == 2


def test_the_tree_says_what_cannot_be_made_again_and_why(adopted: Path, reckon) -> None:
    out = reckon("tree", HERO).stdout
    assert "  part  marin/hero/7  steps 146139..  commit ad754c6d67  claimed" in out.splitlines()
    assert "parent  marin/hero/2@step-81716" in out
    table = out.partition("Not to be made again from what is public")[2]
    assert "is withheld: its sources may not be redistributed" in table
    assert "step-81716 is lost: deleted later in a quota clean-up  " in table
    facts = json.loads(reckon("tree", HERO, "--json").stdout)
    assert facts["tree"]["limbs"][0]["name"] == "marin/hero/7"
    assert facts["cannot_be_made_again"]
    assert reckon("tree", HERO, "--down").status == 2


def test_log_and_show_tell_who_says_what(adopted: Path, reckon) -> None:
    lines = reckon("log", HERO).stdout.splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["marin/hero/7", "marin/hero/6", "marin/hero/5"]
    assert "Claimed" in lines[-1]
    shown = reckon("show", HERO).stdout
    assert "390139" in shown
    assert "issue-8435   marin-community/marin issue 8435" in shown
    assert (
        "withheld: its sources may not be redistributed" in reckon("show", "marin/data/harrier-mix-2026.08.18").stdout
    )
    assert json.loads(reckon("show", "marin/hero/2", "--json").stdout)["standing"] == "claimed"
    below = json.loads(reckon("show", "marin/rung", "--json").stdout)["below"]
    assert len(below) == 4


def test_a_record_is_found_by_its_digest_and_an_altered_one_is_told(adopted: Path, reckon) -> None:
    named = b'"name":"marin/rung/d768","origin"'
    (path,) = (one for one in (adopted / "manifests/adopted").iterdir() if named in one.read_bytes())
    assert json.loads(reckon("show", path.stem[:16], "--json").stdout)["kind"] == "adopted"
    path.write_bytes(path.read_bytes().replace(b'"claimed"', b'"clbimed"'))
    ended = reckon("audit", HERO)
    assert "manifests/adopted+record" in ended.stdout
    assert path.stem in ended.stderr


def test_the_ladder_tells_how_the_rungs_are_said_to_have_ended(adopted: Path, reckon) -> None:
    lines = reckon("ladder").stdout.splitlines()
    rows = [line.split() for line in lines if line.startswith("marin/")]
    assert [row[0] for row in rows] == [*(f"marin/rung/{name}" for name in ("d768", "d1024", "d1536", "d2048")), HERO]
    assert "2.4745 at 80 % of its steps" in next(line for line in lines if line.startswith("marin/rung/d2048"))
    assert lines[-1].startswith("60 of 60")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["adopt"], "FILE"),
        (["adopt", "absent.json"], "absent.json"),
        (["adopt", "."], "no foreign record"),
        (["adopt", "odd.json"], "no sidecar"),
        (["adopt", "odd.txt"], "not JSON"),
        (["adopt", "odd.json", "--as", "a@step-1"], "a@step-1"),
        (["adopt", "odd.json", "--as", "../x"], "not a name"),
        (["tree", "marin/heroes"], "marin/hero"),
        (["show", "marin/hero@step-58014"], "are claims"),
        (["verify", "marin/hero"], "reckon audit marin/hero"),
    ],
)
def test_what_cannot_be_adopted_or_found_is_refused(adopted: Path, reckon, arguments: list[str], said: str) -> None:
    (adopted / "odd.json").write_text('{"hello": 1}')
    (adopted / "odd.txt").write_text("hello")
    before = sorted((adopted / "manifests/adopted").iterdir())
    ended = reckon(*arguments)
    assert ended.status == 2
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr
    assert sorted((adopted / "manifests/adopted").iterdir()) == before


def test_a_name_of_the_archives_own_stages_is_refused(adopted: Path, reckon) -> None:
    (adopted / "dvc.yaml").write_text("stages:\n  shards: {cmd: python -m train.shards, outs: [artifacts/shards]}\n")
    told = document()
    told["id"], told["things"] = "x", [{**thing(told, HERO), "name": "shards"}]
    (adopted / "x.json").write_text(json.dumps(told))
    ended = reckon("adopt", "x.json")
    assert ended.status == 2
    assert "own stages" in ended.stderr


def test_outside_of_an_archive_it_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["adopt", str(FACTS)]) == 2
