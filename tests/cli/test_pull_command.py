"""``reckon pull`` and ``reckon mirror`` as typed: wrong words, and the real DVC behind ``dvc:``."""

from __future__ import annotations

import json
import shutil

import pytest
from support import toy as toys
from support.toy import Toy

from registry.cli import mirroring, remote_audit
from registry.core.digests import Digest, git_blob, sha256
from registry.core.pulling import RemoteFile
from registry.core.release import BUNDLE
from registry.errors import Refused

STEP = "artifacts/leg/1/checkpoints/step-2"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["lab/m", "-o", "x"], "names no repository of a hub"),
        (["hf://lab/m@../x", "-o", "x"], "is no revision"),
        (["hf://lab/m"], "Say where to put it"),
        (["hf://lab/m", "a.txt", "--tensor", "w*", "-o", "x"], "either PATHs or --tensor"),
        (["hf://lab/m", "-o", "x"], "HF_HUB_OFFLINE is set"),
        (["hf://lab/m", "-o", "x", "--mirror", "."], "--mirror is read with --offline"),
        (["dvc:leg/1", "-o", "x"], "takes nothing else"),
        (["dvc:../x"], "is not a name"),
    ],
)
def test_wrong_words_are_refused_with_a_reason(reckon, arguments, words, monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.chdir(tmp_path)
    ended = reckon("pull", *arguments)
    assert ended.status == 2
    assert words in ended.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("repository", "words"),
    [
        ("nonsense", "'nonsense' names no repository of a hub. Write it like lab/model,"),
        ("hf://lab/m/x", "'hf://lab/m/x' names no repository of a hub. Write it like lab/model,"),
        ("hf://lab/m@v1.0.0", "every branch and tag, not 'v1.0.0' alone. Name the repository: lab/m."),
    ],
)
def test_a_mirror_is_of_a_repository(reckon, repository, words, tmp_path):
    ended = reckon("mirror", repository, str(tmp_path / "mirror"))
    assert (ended.status, words in ended.stderr) == (2, True), ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_offline_without_a_copy_says_where_it_looked(reckon, tmp_path):
    (tmp_path / "mirror").mkdir()
    ended = reckon("pull", "hf://lab/m", "-o", str(tmp_path / "x"), "--offline", "--mirror", str(tmp_path / "mirror"))
    assert ended.status == 2
    assert "has nothing of lab/m" in ended.stderr
    ended = reckon("mirror", "lab/m", "http://127.0.0.1:9", "--offline", "--mirror", str(tmp_path / "mirror"), "--json")
    assert ended.status == 2
    assert "nothing of lab/m" in json.loads(ended.stdout)["error"]["message"]


def test_a_stored_login_goes_to_its_own_hub_only(client_at, monkeypatch, tmp_path):
    client_at("http://hub.example")
    (tmp_path / "login").write_text("hf_login\n")
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "login"))
    assert mirroring.tokens("http://HUB.example:80/") == (None, None)
    for address in ("http://other.example", "https://hub.example", "http://hub.example:81", "http://["):
        with pytest.raises(Refused):
            mirroring.tokens(address)
    monkeypatch.setenv("HF_TOKEN", "hf_other")
    assert mirroring.tokens("http://other.example") == ("hf_login", "hf_other")
    (tmp_path / "login").unlink()
    assert mirroring.tokens("http://other.example") == ("", "hf_other")


def test_what_explains_a_release_is_small_or_its_bundle():
    def explains(path: str, size_bytes: int, claimed: Digest) -> bool:
        return remote_audit._explains(RemoteFile(path=path, size_bytes=size_bytes, claimed=claimed))

    large, most = sha256(b"x"), 16 * 2**20
    assert explains("config.json", most, git_blob(b"x"))
    assert explains("provenance/stages/a.dsse.json", most, large)
    assert explains(BUNDLE, 2**30, large)
    assert not explains("config.json", most + 1, git_blob(b"x"))
    assert not explains("provenance/stages/a.dsse.json", most + 1, large)
    assert not explains(BUNDLE, 2**30 + 1, large)
    assert not explains("model.safetensors", 1, large)


@pytest.fixture
def remote(at_sea: Toy) -> Toy:
    """The toy archive with its bytes in DVC's remote, and neither here nor in DVC's cache."""
    for line in ("remote add -q -d store artifacts/store/remote", "commit -q -f", "push -q"):
        assert toys.dvc(at_sea.root, *line.split()).returncode == 0
    shutil.rmtree(at_sea.root / ".dvc/cache")
    shutil.rmtree(at_sea.root / "artifacts/leg")
    return at_sea


@pytest.mark.slow
def test_dvc_brings_one_checkpoint_which_is_verified_and_rot_is_found(reckon, remote):
    ended = reckon("pull", "dvc:leg/1@step-2")
    assert ended.status == 0, ended.stderr
    assert "Holds" in ended.stdout
    assert (remote.root / STEP).is_dir()
    assert not (remote.root / "artifacts/leg/2").exists()
    assert [path.name for path in (remote.root / "artifacts/leg/1").iterdir()] == ["checkpoints"]
    shutil.rmtree(remote.root / ".dvc/cache")
    shutil.rmtree(remote.root / "artifacts/leg")
    for path in (remote.root / "artifacts/store/remote").rglob("*"):
        if path.is_file() and not path.name.endswith(".dir"):
            data = path.read_bytes()
            path.chmod(0o644)
            path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]) if data else data)
    ended = reckon("pull", "dvc:leg/1@step-2")
    assert ended.status in (1, 3)
    assert "Holds" not in ended.stdout
