"""Locators are the md5 that DVC itself writes."""

import subprocess

import pytest
import yaml

from registry.adapters.hashing import Disk

pytestmark = pytest.mark.slow


@pytest.fixture
def repository(tmp_path):
    for command in (["git", "init", "-q"], ["dvc", "init", "-q"]):
        subprocess.run(command, cwd=tmp_path, check=True)
    return tmp_path


def test_dvc_add_writes_the_same_md5(repository):
    (repository / "tree" / "é" / "deep").mkdir(parents=True)
    (repository / "tree" / "empty folder").mkdir()
    for path, data in {
        "file.bin": bytes(range(256)) * 5000,
        "tree/b.txt": b"line\r\nline\n",
        "tree/a": b"",
        "tree/a b": b"blank in its name",
        "tree/é/deep/x": b"1",
        "tree/é.json": b"2",
        "tree/B": b"3",
    }.items():
        (repository / path).write_bytes(data)
    subprocess.run(["dvc", "add", "-q", "file.bin", "tree"], cwd=repository, check=True)
    disk = Disk(repository)
    for name in ("file.bin", "tree"):
        [out] = yaml.safe_load((repository / f"{name}.dvc").read_text())["outs"]
        assert disk.locator(name) == out["md5"]
