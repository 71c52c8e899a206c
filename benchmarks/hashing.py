"""One large file and a tree of many small ones: our SHA-256 beside DVC, model-signing, b3sum and bare hashlib.

What is compared differs, and the names say so. DVC takes one md5 a file and, when it adds, keeps a copy in its cache;
with ``hardlink`` it keeps a link. model-signing takes one SHA-256 a file and signs the list. b3sum takes BLAKE3, which
can use all cores on one file; SHA-256, our identity of files, cannot.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.harness import Comparison, Place, Program, python

BLOCK_BYTES = 2**24
SMALLEST_FILE, LARGEST_FILE = 2**12, 3 * 2**12

_HASH_FILE = """
import sys, pathlib
from registry.adapters.hashing import hash_file
hash_file(pathlib.Path(sys.argv[1]))
"""
_HASH_TREE = """
import sys, pathlib
from registry.adapters.hashing import hash_tree
hash_tree(pathlib.Path(sys.argv[1]))
"""
_LOCATE = """
import sys, pathlib
from registry.adapters.hashing import TreeHasher
from registry.adapters.hashing.walking import found_tree
TreeHasher(with_md5=True).hashes(found_tree(pathlib.Path(sys.argv[1])))
"""
_REMEMBER = """
import sys, pathlib
from registry.adapters.hashing import Remembered, hash_tree
hash_tree(pathlib.Path(sys.argv[1]), remembered=Remembered(path=pathlib.Path(sys.argv[2])))
"""
_HASHLIB = """
import hashlib, pathlib, sys
root = pathlib.Path(sys.argv[1])
for path in sorted(root.rglob("*")) if root.is_dir() else [root]:
    if path.is_file():
        with path.open("rb") as file:
            hashlib.file_digest(file, "sha256").hexdigest()
"""
_SIGN = """
import sys, pathlib
from model_signing import signing
signing.Config().use_elliptic_key_signer(private_key=pathlib.Path(sys.argv[2])).sign(sys.argv[1], sys.argv[3])
"""


def comparisons(place: Place) -> Iterator[Comparison]:
    """The file, the tree read whole, and the tree that has not changed."""
    key = _signing_key(place.fresh("key") / "key.pem")
    yield _large_file(place, key)
    tree, size_bytes = _tree(place)
    yield _whole_tree(place, key, tree, size_bytes)
    yield _unchanged_tree(place, tree, size_bytes)


def _large_file(place: Place, key: Path) -> Comparison:
    path = place.fresh("large") / "file.bin"
    _write_random(path, place.file_bytes)
    signature = place.fresh("signature") / "model.sig"
    return Comparison(
        title="Hash one large file",
        size_bytes=place.file_bytes,
        ours=python("reckon: SHA-256", _HASH_FILE, path),
        others=[
            *_dvc_add(place, path),
            python("model_signing sign", _SIGN, path.parent, key, signature, repeats=1),
            python("hashlib SHA-256, one thread", _HASHLIB, path),
            _b3sum("b3sum, all cores", path.parent, "b3sum file.bin"),
        ],
        aims={"dvc add": 5.0},
    )


def _whole_tree(place: Place, key: Path, tree: Path, size_bytes: int) -> Comparison:
    signature = place.fresh("signature") / "model.sig"
    return Comparison(
        title=f"Hash a tree of {place.files} files",
        size_bytes=size_bytes,
        ours=python("reckon: SHA-256", _HASH_TREE, tree),
        others=[
            python("reckon: SHA-256 and DVC's md5", _LOCATE, tree),
            *_dvc_add(place, tree),
            python("model_signing sign", _SIGN, tree, key, signature, repeats=1),
            python("hashlib SHA-256, one thread", _HASHLIB, tree),
            _b3sum("b3sum, all cores", tree, "find . -type f -print0 | xargs -0 b3sum"),
        ],
        aims={"dvc add": 5.0},
    )


def _unchanged_tree(place: Place, tree: Path, size_bytes: int) -> Comparison:
    """Both sides have seen the tree before, and trust what the file system says of it."""
    memory = place.fresh("memory") / "digests"
    repository = _dvc_repository(place.fresh("dvc-status"), tree)
    subprocess.run(["dvc", "add", "-q", tree.name], cwd=repository, check=True)
    ours = python("reckon: remembered", _REMEMBER, tree, memory)
    subprocess.run(ours.argv, cwd=ours.folder, check=True)
    return Comparison(
        title=f"Look at a tree of {place.files} files that has not changed",
        size_bytes=size_bytes,
        ours=ours,
        others=[
            Program(name="dvc status", argv=["dvc", "status", "-q"], folder=repository),
            python("reckon: every byte again", _HASH_TREE, tree),
        ],
    )


def _dvc_add(place: Place, path: Path) -> Iterator[Program]:
    """``dvc add`` as it is set up by default, and with links instead of copies in its cache."""
    for name, settings in (("dvc add", ()), ("dvc add, hardlink cache", ("cache.type", "hardlink"))):
        folder = place.folder / name.replace(" ", "-")
        yield Program(
            name=name,
            argv=["dvc", "add", "-q", path.name],
            folder=folder,
            repeats=1,
            prepare=_prepared(folder, path, settings),
        )


def _prepared(folder: Path, path: Path, settings: tuple[str, ...]) -> Callable[[], object]:
    def prepare() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        _dvc_repository(folder, path)
        if settings:
            subprocess.run(["dvc", "config", *settings], cwd=folder, check=True)

    return prepare


def _dvc_repository(folder: Path, path: Path) -> Path:
    """A repository with a copy of the data, its DVC state inside, so that nothing is known of it yet."""
    subprocess.run(["dvc", "init", "-q", "--no-scm"], cwd=folder, check=True)
    subprocess.run(["dvc", "config", "core.analytics", "false"], cwd=folder, check=True)
    subprocess.run(["dvc", "config", "core.site_cache_dir", str(folder / ".dvc" / "site")], cwd=folder, check=True)
    target = folder / path.name
    shutil.copytree(path, target) if path.is_dir() else shutil.copyfile(path, target)
    return folder


def _b3sum(name: str, folder: Path, line: str) -> Program:
    program = Program(name=name, argv=["sh", "-c", line], folder=folder)
    return program if shutil.which("b3sum") else replace(program, argv=["b3sum"])


def _signing_key(path: Path) -> Path:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return path


def _tree(place: Place) -> tuple[Path, int]:
    """Files of 4 to 12 KiB, a hundred a folder. Returns the folder and the bytes in all."""
    root = place.fresh("many") / "tree"
    random = np.random.default_rng(1)
    sizes = random.integers(SMALLEST_FILE, LARGEST_FILE, place.files)
    for number, size in enumerate(sizes):
        folder = root / f"{number // 100:04d}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number:06d}.bin").write_bytes(random.bytes(int(size)))
    return root, int(sizes.sum())


def _write_random(path: Path, size_bytes: int) -> None:
    random = np.random.default_rng(0)
    with path.open("wb") as file:
        for start in range(0, size_bytes, BLOCK_BYTES):
            file.write(random.bytes(min(BLOCK_BYTES, size_bytes - start)))
