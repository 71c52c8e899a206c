"""Pulls as their users meet them: killed at any moment, one tensor of half a gigabyte, the base package alone."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement
from support.containers import write_shards
from support.hub import HubProcess
from support.signed import SignedRelease, signed_release

from registry.adapters.checkpoints import read_leaves
from registry.adapters.hub_read import HubReader
from registry.adapters.hub_read import hub as hub_module
from registry.adapters.landing import LandingFolder
from registry.cli import pulling
from registry.core.excerpt import Placed, excerpt
from registry.core.pulling import Reference
from registry.core.tensors import TensorSpec
from registry.workflows.pull import Looker, Puller, TensorPuller

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
KILLS, BLOCK_BYTES = 20, 2**18
SPARSE_BYTES = 500 * 10**6


def files(folder: Path) -> dict[str, bytes]:
    every = (path for path in folder.rglob("*") if path.is_file() and ".cache" not in path.relative_to(folder).parts)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in every}


def pull(hub: HubProcess, reference: Reference, folder: Path) -> None:
    origin = HubReader.at(hub.endpoint)
    looked = Looker(origin=origin, judge=pulling.judge(None), unsigned=True, mirror_of="lab/pocket").look(reference)
    with LandingFolder(folder) as landing:
        Puller(origin=origin).pull(looked, [looked.wanted(one) for one in looked.listing.files], landing, whole=True)


def killed(hub: HubProcess, reference: Reference, folder: Path, after_seconds: float) -> bool:
    """Pull in a process of its own, which is killed after a while; whether it was still at it."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            pull(hub, reference, folder)
            status = 0
        finally:
            os._exit(status)
    time.sleep(after_seconds)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def large_weights(folder: Path) -> None:
    values = np.random.default_rng(3)
    write_shards(folder, {f"w{at}": values.standard_normal(700_000).astype(np.float32) for at in range(4)}, files=4)


def test_killed_at_twenty_moments(hub: HubProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "BLOCK_BYTES", BLOCK_BYTES)
    release = signed_release(tmp_path / "signed", weights=large_weights)
    reference = Reference.parse(f"hf://{hub.new_repo()}@v1.0.0")
    release.push(hub.api(), reference.repository)
    wanted, moments = files(release.folder), random.Random(4)
    weights = sum(len(data) for name, data in wanted.items() if name.endswith(".safetensors"))
    began = time.monotonic()
    pull(hub, reference, tmp_path / "whole")
    whole_seconds, cut = time.monotonic() - began, 0
    for trial in range(KILLS):
        hub.faults.clear()
        folder = tmp_path / f"out-{trial}"
        folder.mkdir()
        cut += killed(hub, reference, folder, moments.uniform(0, whole_seconds))
        assert files(folder).items() <= wanted.items(), "whatever has its final name is whole"
        pull(hub, reference, folder)
        assert files(folder) == wanted
        fetched = sum(one["sent_bytes"] for one in hub.faults.seen("/lfs/content/"))
        assert fetched <= weights + len(wanted) * BLOCK_BYTES, "a block a file, no more, is fetched twice"
    assert cut > KILLS // 4, "most of the kills must have met a pull at work"


def sparse_weights(folder: Path) -> None:
    """Half a gigabyte that takes no disk, with a small tensor in it that is not zero."""
    folder.mkdir(parents=True)
    small = np.random.default_rng(5).standard_normal(50_000).astype(np.float32)
    specs = {"big": (SPARSE_BYTES // 4,), "small": small.shape}
    placed = [
        Placed(spec=TensorSpec(name=one, dtype="float32", shape=of), path="", start_byte=0) for one, of in specs.items()
    ]
    made = excerpt(placed)
    with (folder / "model.safetensors").open("wb") as file:
        file.write(made.header)
        for position, one in made.places():
            if one.spec.name == "small":
                file.seek(position)
                file.write(small.tobytes())
        file.truncate(made.size_bytes)


def lay(hub: HubProcess, release: SignedRelease, name: str) -> None:
    """Give the hub a large file without a copy: its object is a link to ours."""
    object_path = hub.object_path(release.statement.files[name].hex)
    object_path.parent.mkdir(parents=True, exist_ok=True)
    object_path.hardlink_to(release.folder / name)


def test_one_tensor_of_half_a_gigabyte(hub: HubProcess, tmp_path: Path) -> None:
    release = signed_release(tmp_path / "signed", weights=sparse_weights)
    lay(hub, release, "model.safetensors")
    reference = Reference.parse(f"hf://{hub.new_repo()}@v1.0.0")
    release.push(hub.api(), reference.repository)
    hub.faults.clear()
    origin = HubReader.at(hub.endpoint)
    looked = Looker(origin=origin, judge=pulling.judge(None), unsigned=True, mirror_of="lab/pocket").look(reference)
    puller = TensorPuller(puller=Puller(origin=origin), read_leaves=pulling.read_leaves)
    with LandingFolder(tmp_path / "out") as landing:
        puller.pull(looked, looked, None, ["small"], landing)
    [leaf] = read_leaves(tmp_path / "out")
    assert leaf in read_leaves(release.folder)
    sent = sum(one["sent_bytes"] for one in hub.faults.seen())
    assert leaf.spec.size_bytes < sent < leaf.spec.size_bytes + 100_000, "the aim is a megabyte beside the tensor"


def base() -> Iterator[Distribution]:
    """What the base package needs, and what that needs, without any extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found, pending = set(), [distribution(Requirement(each).name) for each in project["dependencies"]]
    while pending:
        one = pending.pop()
        if one.name.lower() in found:
            continue
        found.add(one.name.lower())
        yield one
        needed = map(Requirement, one.requires or ())
        pending += [
            distribution(each.name) for each in needed if not each.marker or each.marker.evaluate({"extra": ""})
        ]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """An environment with the base package alone, as ``pip install .`` makes it, and its size in bytes."""
    root = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(root)], check=True)
    [site], size_bytes = root.glob("lib/python3*/site-packages"), 0
    for one in base():
        for file in one.files or ():
            place = Path(str(one.locate_file(file)))
            top = Path(file).parts[0]
            if top in ("..", "__pycache__") or top.startswith("_editable") or not place.exists():
                continue
            size_bytes += place.stat().st_size
            if not (site / top).is_symlink() and not top.endswith(".pth"):
                (site / top).symlink_to(one.locate_file(top))
    for package in ("registry", "train"):
        (site / package).symlink_to(ROOT / package)
    return root, size_bytes


def test_a_machine_with_the_base_alone_pulls_and_audits(
    bare: tuple[Path, int], hub: HubProcess, tmp_path: Path
) -> None:
    root, size_bytes = bare
    release = signed_release(tmp_path / "signed")
    repository = hub.new_repo()
    release.push(hub.api(), repository)
    trust = release.policy(tmp_path / "trust.toml")
    environment = {**hub.environment(tmp_path), "HOME": str(tmp_path)}
    environment.pop("PYTHONPATH", None)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(root / "bin/python"), *arguments, "--mirror-of", "lab/pocket", "--trust", str(trust)]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    for heavy in ("jax", "torch", "dvc", "mlflow", "transformers", "starlette", "model_signing", "pygit2"):
        missing = subprocess.run([root / "bin/python", "-c", f"import {heavy}"], capture_output=True, check=False)
        assert missing.returncode != 0, f"{heavy} must not be in the base"
    assert size_bytes < 400 * 10**6
    ended = run("-m", "registry", "pull", f"hf://{repository}@v1.0.0", "-o", "out")
    assert ended.returncode == 0, ended.stderr
    assert files(tmp_path / "out") == files(release.folder)
    ended = run("-m", "registry", "audit", f"hf://{repository}@v1.0.0", "--records")
    rows = [line.split() for line in ended.stdout.splitlines()]
    edges = {row[1]: row[0] for row in rows if len(row) > 2 and row[1].startswith("pocket@1.0.0+")}
    told = {"signature": "contradicted", "files": "attested", "record": "missing"}
    assert edges == {f"pocket@1.0.0+{kind}": state for kind, state in told.items()}, ended.stdout + ended.stderr
    assert "No stage's statement" in ended.stdout, "this small release explains nothing, and the audit says so"
    assert ended.returncode == 1
