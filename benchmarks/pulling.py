"""A release pulled from a hub on this machine: ours, which verifies, beside the client's own download, which does not.

Both begin with an empty folder and end with all files under their names; the hub is ours, served by a process of its
own, with the objects in the page cache. Ours takes one SHA-256 a file on the way, checks two signatures first, and
flushes every file before it gets its name. ``hf download`` is ``snapshot_download`` with a command line around it.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.harness import Comparison, Place, Program, python
from registry.adapters.hashing import hash_tree
from registry.adapters.signing import new_key, open_key, sign, sign_folder
from registry.core.digests import sha256
from registry.core.names import Name
from registry.core.release import PAYLOAD_TYPE, STATEMENT, Identity, ReleaseStatement, Terms, Weights

REPOSITORY, TAG = "lab/bench", "v1.0.0"
SHARDS, TEXTS = 4, 20
AIM = 1 / 1.3
BLOCK_BYTES = 2**24

_SNAPSHOT = """
import sys
from huggingface_hub import snapshot_download
snapshot_download(sys.argv[1], revision=sys.argv[2], local_dir=sys.argv[3])
"""


def comparisons(place: Place) -> Iterator[Comparison]:
    """One release of a quarter of the large file's size in shards, with small files beside."""
    folder = _release(place, place.file_bytes // 4)
    endpoint, token = _served(place.fresh("hub"))
    environment = {
        "HF_ENDPOINT": endpoint,
        "HF_HOME": str(place.fresh("home")),
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_OFFLINE": "0",
        "HF_TOKEN": token,
    }
    _push(folder, environment)
    ours, theirs = place.folder / "pulled", place.folder / "downloaded"
    command = [sys.executable, "-m", "registry", "pull", f"hf://{REPOSITORY}@{TAG}", "-o", str(ours)]
    download = ["hf", "download", REPOSITORY, "--revision", TAG, "--local-dir", str(theirs)]
    others = [
        python("snapshot_download", _SNAPSHOT, REPOSITORY, TAG, theirs),
        Program(name="hf download", argv=download, folder=place.folder),
    ]
    yield Comparison(
        title=f"Pull a release of {SHARDS} shards from this machine",
        size_bytes=sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()),
        ours=_with(Program(name="reckon pull, verified", argv=command, folder=Path.cwd()), ours, environment),
        others=[_with(one, theirs, environment) for one in others],
        aims={"snapshot_download": AIM, "hf download": AIM},
    )


def _with(program: Program, target: Path, environment: dict[str, str]) -> Program:
    """The program with its environment, into an empty folder every time."""
    empty: Callable[[], object] = lambda: shutil.rmtree(target, ignore_errors=True)  # noqa: E731
    return Program(name=program.name, argv=program.argv, folder=program.folder, prepare=empty, environment=environment)


def _release(place: Place, size_bytes: int) -> Path:
    """A signed folder. Nothing in it is a model but its form."""
    folder, random = place.fresh("release") / "files", np.random.default_rng(2)
    folder.mkdir()
    for shard in range(SHARDS):
        with (folder / f"model-{shard}.bin").open("wb") as file:
            for start in range(0, size_bytes // SHARDS, BLOCK_BYTES):
                file.write(random.bytes(min(BLOCK_BYTES, size_bytes // SHARDS - start)))
    for text in range(TEXTS):
        (folder / f"text-{text}.json").write_text(json.dumps({"text": text}))
    key_file = place.fresh("pull-key") / "key.pem"
    new_key(key_file, None)
    key = open_key(str(key_file), str)
    root = sha256(b"root")
    terms = Terms(
        identity=Identity(name="bench", version="1.0.0", repository=REPOSITORY),
        parent=None,
        artifact="export",
        product=sha256(b"product"),
        weights=Weights(checkpoint=Name(stage="hero/1", step=1), checkpoint_root=root, root=root),
        commit="0" * 40,
        time="2026-01-01T00:00:00.000000Z",
        accepted_taint=None,
    )
    statement = ReleaseStatement(terms=terms, files={entry.path: entry.digest for entry in hash_tree(folder)})
    (folder / STATEMENT).parent.mkdir()
    (folder / STATEMENT).write_bytes(sign(PAYLOAD_TYPE, statement.payload, key).encode())
    sign_folder(folder, key)
    return folder


def _served(folder: Path) -> tuple[str, str]:
    """A hub until the benchmark ends: its address and the token that may write."""
    command = [sys.executable, "-m", "registry", "hub", "serve", str(folder), "--port", "0", "--json"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    atexit.register(server.terminate)
    assert server.stdout is not None
    told = json.loads(server.stdout.readline())
    return told["endpoint"], Path(told["token"]).read_text().strip()


def _push(folder: Path, environment: dict[str, str]) -> None:
    push = (
        "import sys; from huggingface_hub import HfApi; a = HfApi(); a.create_repo(sys.argv[1]); "
        "a.upload_folder(repo_id=sys.argv[1], folder_path=sys.argv[3]); a.create_tag(sys.argv[1], tag=sys.argv[2])"
    )
    command = [sys.executable, "-c", push, REPOSITORY, TAG, str(folder)]
    subprocess.run(command, env={**os.environ, **environment}, check=True, stdout=subprocess.DEVNULL)
