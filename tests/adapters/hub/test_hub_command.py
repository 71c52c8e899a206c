"""``reckon hub serve`` as a person meets it, and the client's own command line against it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
HF = Path(sys.executable).with_name("hf")


@pytest.fixture
def served(tmp_path):
    """Start ``reckon hub serve`` and return the process and its first words."""
    started = []

    def start(*arguments: str, folder: Path = tmp_path / "mirror") -> tuple[subprocess.Popen[str], str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "registry", "hub", "serve", str(folder), *arguments],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process, process.stdout.readline()

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_it_says_where_it_is_and_ends_on_a_signal(served, tmp_path):
    process, line = served("--port", "0", "--json")
    facts = json.loads(line)
    assert facts["endpoint"].startswith("http://127.0.0.1:")
    token = Path(facts["token"])
    assert token == tmp_path / "mirror/tokens/write"
    assert token.stat().st_mode & 0o777 == 0o600
    second, _ = served("--port", "0")
    assert second.wait(20) == 2
    assert "Another hub serves" in second.stderr.read()
    taken, _ = served("--port", facts["endpoint"].rpartition(":")[2], folder=tmp_path / "other")
    assert taken.wait(20) == 3
    assert "is not to be had" in taken.stderr.read()
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0
    assert token.read_text() not in process.stderr.read()


@pytest.mark.slow
def test_tokens_that_others_can_read_are_refused(served, tmp_path):
    tokens = tmp_path / "mirror/tokens"
    tokens.mkdir(parents=True)
    (tokens / "write").write_text("hf_known_to_everybody_here\n")
    (tokens / "write").chmod(0o644)
    process, _ = served("--port", "0")
    assert process.wait(20) == 2
    assert "can be read by others" in process.stderr.read()


@pytest.mark.slow
def test_the_clients_command_line(hub, tmp_path):
    """One session of ``hf``: identity, repository, folder up, tag, file and repository down, file removed."""
    environment = hub.environment(tmp_path / "home")
    source = tmp_path / "model"
    (source / "deep").mkdir(parents=True)
    weights = bytes(range(256)) * 2000
    (source / "model.safetensors").write_bytes(weights)
    (source / "deep/notes.txt").write_text("notes")

    def hf(*arguments: str) -> str:
        done = subprocess.run(
            [HF, *arguments], env=environment, capture_output=True, text=True, check=False, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "owner" in hf("auth", "whoami")
    hf("repo", "create", "lab/by-hand")
    hf("upload", "lab/by-hand", str(source), ".", "--commit-message", "By hand")
    hf("repo", "tag", "create", "lab/by-hand", "v1.0.0", "-m", "First")
    assert "v1.0.0" in hf("repo", "tag", "list", "lab/by-hand")
    down = tmp_path / "down"
    hf("download", "lab/by-hand", "--revision", "v1.0.0", "--local-dir", str(down))
    assert (down / "model.safetensors").read_bytes() == weights
    assert (down / "deep/notes.txt").read_text() == "notes"
    cached = hf("download", "lab/by-hand", "model.safetensors").strip()
    assert Path(cached).read_bytes() == weights
    hf("repo-files", "delete", "lab/by-hand", "deep/notes.txt")
    assert hub.api().list_repo_files("lab/by-hand") == [".gitattributes", "model.safetensors"]
    assert hub.api().list_repo_commits("lab/by-hand", revision="v1.0.0")[0].title == "By hand"
