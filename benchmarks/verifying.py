"""A signed folder, checked against its ``model.sig`` with a public key: ours beside ``model_signing verify``.

Every file is read whole by both, on all cores. model_signing takes SHA-256. Ours takes BLAKE3 of large files where the
folder has the list that ``reckon release build`` writes and the signature covers, and SHA-256 of all other files; the
last comparison is without that list, as of a release by others, and has no aim: both then do the same work, and what
differs is how long a process takes to begin and that we begin with the largest file. ``registry/decisions/`` 0026 says
what either proves. Each folder was signed by model_signing itself.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from blake3 import blake3

from benchmarks.harness import Comparison, Place, Program, python
from registry.adapters.signing import new_key, open_key, sign_folder
from registry.core import twins
from registry.core.digests import Algorithm, Digest
from registry.core.modelsig import SIGNATURE

BLOCK_BYTES = 2**24
SHARDS = 4
SMALLEST_FILE, LARGEST_FILE = 2**12, 3 * 2**12
AIM = 2.0

_OURS = """
import sys, pathlib
from registry.adapters.hashing import ReleaseFolder
from registry.adapters.signing import read_public, verify
from registry.core.modelsig import ModelSignature
from registry.core.twins import signed_twins
found, key = ReleaseFolder(root=pathlib.Path(sys.argv[1])), read_public(pathlib.Path(sys.argv[2]))
signature = ModelSignature.parse(found.read("model.sig"))
verify(signature.envelope, key)
entries = found.entries(signed_twins(found.read, signature.files))
sys.exit(len(list(signature.differences(entries, "release"))))
"""


def comparisons(place: Place) -> Iterator[Comparison]:
    """A release of an eighth of the large file's size, one of its whole size, many small files; one without a list."""
    key_file = place.fresh("keys") / "key.pem"
    new_key(key_file, None)
    for title, size_bytes in (("small", place.file_bytes // 8), ("large", place.file_bytes)):
        folder = _shards(place, size_bytes)
        _list_large(folder)
        yield _comparison(f"Verify a {title} release of {SHARDS} shards", folder, key_file, AIM)
    yield _comparison(f"Verify a folder of {place.files} files", _tree(place), key_file, AIM)
    folder = _shards(place, place.file_bytes)
    yield _comparison(f"Verify {SHARDS} shards without a list of BLAKE3", folder, key_file, None)


def _comparison(title: str, folder: Path, key_file: Path, aim: float | None) -> Comparison:
    sign_folder(folder, open_key(str(key_file), str))
    public = key_file.with_name(f"{key_file.name}.pub")
    command = ["verify", "key", str(folder), "--signature", str(folder / SIGNATURE), "--public_key", str(public)]
    stock = Program(name="model_signing verify", argv=[sys.executable, "-m", "model_signing", *command], folder=folder)
    return Comparison(
        title=title,
        size_bytes=sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()),
        ours=python("reckon", _OURS, folder, public),
        others=[stock],
        aims={} if aim is None else {stock.name: aim},
    )


def _shards(place: Place, size_bytes: int) -> Path:
    folder = place.fresh("release")
    for number in range(SHARDS):
        _write_random(folder / f"model-{number:05d}.safetensors", size_bytes // SHARDS)
    for name in ("config.json", "tokenizer.json", "README.md"):
        (folder / name).write_bytes(b"{}\n" * 1000)
    return folder


def _list_large(folder: Path) -> None:
    """The list of large files that a build of a release writes."""
    large = [path for path in folder.iterdir() if path.stat().st_size >= twins.LEAST_BYTES]
    target = folder / twins.FILE
    target.parent.mkdir()
    target.write_bytes(twins.encode({path.name: _blake3(path) for path in large}))


def _blake3(path: Path) -> Digest:
    return Digest(Algorithm.BLAKE3, blake3().update_mmap(path).hexdigest())


def _tree(place: Place) -> Path:
    folder, random = place.fresh("release"), np.random.default_rng(0)
    for number in range(place.files):
        path = folder / f"{number // 1000:03d}" / f"{number:06d}"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(random.bytes(int(random.integers(SMALLEST_FILE, LARGEST_FILE))))
    return folder


def _write_random(path: Path, size_bytes: int) -> None:
    random = np.random.default_rng(size_bytes)
    with path.open("wb") as file:
        for start in range(0, size_bytes, BLOCK_BYTES):
            file.write(random.bytes(min(BLOCK_BYTES, size_bytes - start)))
