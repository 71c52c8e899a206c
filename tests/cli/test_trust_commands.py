"""``reckon keys`` and ``reckon attest`` as a person calls them, wrong calls too."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from support.toy import Toy

from registry.adapters.signing import new_key
from registry.core.attestation import Outcome
from registry.core.trust import TrustPolicy

EVERYTHING = ("--attests", "*", "--releases", "*")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No policy of the person who runs the tests."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def made(reckon, file: str = "a.pem") -> str:
    """The id of a new key."""
    ended = reckon("keys", "new", file, "--no-passphrase", "--json")
    assert ended.status == 0, ended.stderr
    return json.loads(ended.stdout)["id"]


def trust(reckon, file: Path, public: str = "a.pem.pub", *more: str) -> None:
    """Append an entry to a policy."""
    ended = reckon("keys", "show", public, "--who", "Lab", *(more or EVERYTHING))
    assert ended.status == 0, ended.stderr
    before = file.read_text() if file.exists() else "schema = 1\n"
    file.write_text(before + ended.stdout)


def test_a_key_is_made_shown_listed_and_revoked(here: Path, reckon) -> None:
    key = made(reckon)
    trust(reckon, here / "trust.toml", "a.pem.pub", "--releases", "pocket-*", "--end", "2099-01-01")
    listed = json.loads(reckon("keys", "list", "--trust", "trust.toml", "--json").stdout)["keys"]
    assert [(one["id"], one["state"], one["releases"], one["end"]) for one in listed] == [
        (key, "valid", ["pocket-*"], "2099-01-01T00:00:00.000000Z")
    ]
    assert reckon("keys", "show", key[:12], "--trust", "trust.toml").stdout == Path("a.pem.pub").read_text()
    ended = reckon("keys", "revoke", key[:12], "--reason", "lost", "--trust", "trust.toml")
    assert (ended.status, ended.stdout) == (0, f"Revoked in trust.toml: {key}\n")
    assert TrustPolicy.parse(Path("trust.toml").read_bytes()).keys[key].revoked == "lost"
    assert "revoked" in reckon("keys", "list", "--trust", "trust.toml").stdout
    assert reckon("keys", "revoke", key[:12], "--reason", "lost", "--trust", "trust.toml").status == 2


def test_a_passphrase_comes_from_a_file_and_never_from_the_command_line(here: Path, reckon) -> None:
    (here / "secret").write_text("geheim\n")
    assert reckon("keys", "new", "a.pem", "--passphrase-file", "secret").status == 0
    assert b"ENCRYPTED" in (here / "a.pem").read_bytes()
    assert "--passphrase-file" in reckon("keys", "new", "b.pem").stderr
    assert reckon("keys", "new", "c.pem", "--passphrase", "geheim").status == 2
    (here / "empty").write_text("\n")
    assert "holds no passphrase" in reckon("keys", "new", "d.pem", "--passphrase-file", "empty").stderr
    assert reckon("keys", "new", "e.pem", "--no-passphrase", "--passphrase-file", "secret").status == 2
    assert sorted(path.name for path in here.iterdir()) == ["a.pem", "a.pem.pub", "empty", "secret"]


def test_without_a_policy_a_person_is_told_what_that_means(here: Path, reckon) -> None:
    ended = reckon("keys", "list")
    assert (ended.status, "attested by unknown key" in ended.stdout) == (0, True)
    assert reckon("keys", "revoke", "0" * 12, "--reason", "x").status == 2
    assert reckon("keys", "show", "0" * 12).status == 2


def test_the_users_own_policy_counts_where_there_is_no_other(here: Path, reckon) -> None:
    made(reckon)
    (here / "config/reckon").mkdir(parents=True)
    trust(reckon, here / "config/reckon/trust.toml")
    assert json.loads(reckon("keys", "list", "--json").stdout)["policy"].endswith("config/reckon/trust.toml")


@pytest.mark.parametrize("options", [("--who", "Lab"), ("--releases", "*"), ("--end", "2027-01-01")])
def test_half_an_entry_is_refused(here: Path, reckon, options: tuple[str, str]) -> None:
    made(reckon)
    assert reckon("keys", "show", "a.pem.pub", *options).status == 2


def test_a_private_key_is_no_public_key(here: Path, reckon) -> None:
    made(reckon)
    ended = reckon("keys", "show", "a.pem")
    assert (ended.status, ended.stdout) == (2, "")
    assert "PRIVATE" not in ended.stderr
    assert "show its .pub" in ended.stderr


# reckon attest


@pytest.fixture
def again(at_sea: Toy, tmp_path: Path) -> Toy:
    """The leg was run a second time, on another host, which is where we are now."""
    at_sea.host.name = "other-lab"
    at_sea.run("leg/1")
    new_key(tmp_path / "other.pem", None)
    return at_sea


def attest(reckon, tmp_path: Path, *more: str):
    return reckon("attest", "leg/1", "--key", str(tmp_path / "other.pem"), "--who", "Other Lab", *more)


@pytest.mark.slow
def test_a_second_run_is_attested_and_the_audit_shows_it(again: Toy, tmp_path: Path, reckon) -> None:
    out = tmp_path / "word.dsse.json"
    ended = attest(reckon, tmp_path, "--out", str(out), "--json")
    assert ended.status == 0, ended.stderr
    said = json.loads(ended.stdout)
    assert (said["outcome"], said["tier"], said["replayed_steps"], said["total_steps"]) == (Outcome.AGREES, "T2", 4, 4)
    assert said["setup"]["host"]["name"] == "other-lab"
    audit = json.loads(reckon("audit", "leg/1", "--depth", "records", "--json").stdout)
    [witness] = audit["attested"]
    assert (witness["who"], witness["tier"]) == ("Other Lab (by their own word)", "T2 4/4 steps")
    assert witness["trust"].startswith("attested by unknown key ")
    states = {edge["id"]: edge["state"] for edge in audit["edges"]}
    assert states["leg/1+recipe"] == states[f"leg/1+attestation={said['record'][7:19]}"] == "attested"
    told = json.loads(
        reckon("audit", "leg/1", "--explain", f"leg/1+attestation={said['record'][7:19]}", "--json").stdout
    )
    by_hand = ["bash", "-c", told["by_hand"][0]["command"]]
    assert subprocess.run(by_hand, capture_output=True, text=True, check=True).stdout == "Verified OK\n"
    shown = reckon("audit", "leg/1", "--depth", "records").stdout
    assert "attested by third parties" in shown
    assert "other-lab" in shown


@pytest.mark.slow
def test_another_archive_takes_the_word_if_it_is_good(again: Toy, tmp_path: Path, reckon) -> None:
    out = tmp_path / "word.dsse.json"
    record = json.loads(attest(reckon, tmp_path, "--out", str(out), "--json").stdout)["record"]
    (again.root / f"manifests/attestations/{record[7:]}.json").unlink()
    assert reckon("attest", "--list").stdout == "No attestation is on record.\n"
    forged = tmp_path / "forged.json"
    good = json.loads(out.read_bytes())
    forged.write_text(json.dumps({**good, "signatures": [{**good["signatures"][0], "sig": "AAAA"}]}))
    ended = reckon("attest", "--add", str(forged))
    assert (ended.status, "is not over these bytes" in ended.stderr) == (1, True)
    assert reckon("attest", "--add", str(out)).status == 0
    assert [one["record"] for one in json.loads(reckon("attest", "--list", "--json").stdout)["attestations"]] == [
        record
    ]


@pytest.mark.slow
def test_a_policy_decides_whose_word_counts(again: Toy, tmp_path: Path, reckon) -> None:
    assert attest(reckon, tmp_path).status == 0
    new_key(tmp_path / "lab.pem", None)
    trust(reckon, again.root / "trust.toml", str(tmp_path / "lab.pem.pub"))
    audit = json.loads(reckon("audit", "leg/1", "--depth", "records", "--json").stdout)
    states = {edge["id"].partition("=")[0]: edge["state"] for edge in audit["edges"]}
    assert (states["leg/1+attestation"], states["leg/1+recipe"]) == ("claimed", "claimed")
    assert [one["counts"] for one in audit["attested"]] == [False]
    ended = attest(reckon, tmp_path)
    assert (ended.status, "is not in the trust policy" in ended.stderr) == (1, True)
    trust(reckon, again.root / "trust.toml", str(tmp_path / "other.pem.pub"), "--attests", "leg/*")
    audit = json.loads(reckon("audit", "leg/1", "--depth", "records", "--json").stdout)
    assert [(one["who"], one["counts"]) for one in audit["attested"]] == [("Lab", True)]


@pytest.mark.slow
def test_a_damaged_attestation_is_a_contradiction(again: Toy, tmp_path: Path, reckon) -> None:
    from registry.core import canonical
    from registry.core.digests import sha256

    record = json.loads(attest(reckon, tmp_path, "--json").stdout)["record"]
    path = again.root / f"manifests/attestations/{record[7:]}.json"
    data = json.loads(path.read_bytes())
    data["envelope"]["signatures"][0]["sig"] = "AAAA"
    path.unlink()
    forged = canonical.encode(data)
    (path.parent / f"{sha256(forged).hex}.json").write_bytes(forged)
    ended = reckon("audit", "leg/1", "--depth", "records", "--json")
    [edge] = [edge for edge in json.loads(ended.stdout)["edges"] if "+attestation=" in edge["id"]]
    assert (ended.status, edge["state"]) == (1, "contradicted")
    assert [one["trouble"] for one in edge["findings"]] == ["signature"]


@pytest.mark.slow
def test_a_first_making_is_no_rederivation(at_sea: Toy, tmp_path: Path, reckon) -> None:
    new_key(tmp_path / "other.pem", None)
    ended = attest(reckon, tmp_path)
    assert (ended.status, "nothing to have derived again" in ended.stderr) == (2, True)
    at_sea.host.name = "other-lab"
    ended = attest(reckon, tmp_path)
    assert (ended.status, "No execution of yours" in ended.stderr) == (2, True)


@pytest.mark.parametrize(
    "arguments", [(), ("leg/1",), ("leg/1", "--who", "x"), ("leg/1", "--list", "--add"), ("nothing", "--list")]
)
def test_a_wrong_call_is_refused(at_sea: Toy, reckon, arguments: tuple[str, ...]) -> None:
    assert reckon("attest", *arguments).status == 2
