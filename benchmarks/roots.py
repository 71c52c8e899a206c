"""The tensor root of a checkpoint in two containers, beside hashing the same bytes as plain files.

The checkpoint is cut as tensorstore cuts Levanter's: OCDBT with inner blocks of about a million elements. Others hash
files, which tells nothing of tensors, or load each tensor whole and hash it, which is what one would write by hand.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.harness import Comparison, Place, Program, python

_ROOT = """
import sys, pathlib
from registry.adapters.checkpoints import read_leaves
from registry.core.tensors import tensor_root
tensor_root(read_leaves(pathlib.Path(sys.argv[1])))
"""
_BLAKE3 = """
import sys
from blake3 import blake3
blake3(max_threads=blake3.AUTO).update_mmap(sys.argv[1]).hexdigest()
"""
_SHA256 = """
import hashlib, pathlib, sys
root = pathlib.Path(sys.argv[1])
for path in sorted(root.rglob("*")) if root.is_dir() else [root]:
    if path.is_file():
        with path.open("rb") as file:
            hashlib.file_digest(file, "sha256").hexdigest()
"""
_LOAD_SAFETENSORS = """
import hashlib, sys
from safetensors import safe_open
with safe_open(sys.argv[1], "np") as file:
    for name in sorted(file.keys()):
        hashlib.sha256(file.get_tensor(name)).hexdigest()
"""
_LOAD_ARRAYS = """
import hashlib, sys
import tensorstore as ts
base = {"driver": "file", "path": sys.argv[1] + "/"}
store = ts.KvStore.open({"driver": "ocdbt", "base": base}).result()
for key in sorted(store.list().result()):
    if key.endswith(b"/zarr.json"):
        kvstore = {"driver": "ocdbt", "base": base, "path": key.decode().removesuffix("zarr.json")}
        array = ts.open({"driver": "zarr3", "kvstore": kvstore}).result().read().result()
        hashlib.sha256(array.tobytes()).hexdigest()
"""


def comparisons(place: Place) -> Iterator[Comparison]:
    """The same tensors in one safetensors file, then in OCDBT."""
    folder = place.fresh("checkpoint")
    tensors = dict(_tensors(place.checkpoint_bytes))
    size_bytes = sum(array.nbytes for array in tensors.values())
    file = _write_safetensors(folder / "state.safetensors", tensors)
    store = _write_ocdbt(folder / "step-100", tensors)
    del tensors
    yield _safetensors(file, size_bytes)
    yield _ocdbt(store, size_bytes)


def _safetensors(file: Path, size_bytes: int) -> Comparison:
    return Comparison(
        title="Tensor root of a checkpoint in safetensors",
        size_bytes=size_bytes,
        ours=python("reckon: tensor root", _ROOT, file),
        others=[
            _b3sum(file),
            python("blake3 for Python, mapped, all cores", _BLAKE3, file),
            python("hashlib SHA-256 of the file", _SHA256, file),
            python("load each tensor, SHA-256", _LOAD_SAFETENSORS, file),
        ],
        aims={"b3sum, all cores": 0.8},
    )


def _ocdbt(store: Path, size_bytes: int) -> Comparison:
    return Comparison(
        title="Tensor root of a checkpoint in OCDBT",
        size_bytes=size_bytes,
        ours=python("reckon: tensor root", _ROOT, store),
        others=[
            python("hashlib SHA-256 of the files", _SHA256, store),
            python("load each tensor, SHA-256", _LOAD_ARRAYS, store),
        ],
    )


def _b3sum(file: Path) -> Program:
    program = Program(name="b3sum, all cores", argv=["b3sum", file.name], folder=file.parent)
    return program if shutil.which("b3sum") else replace(program, argv=["b3sum"])


def _tensors(size_bytes: int) -> Iterator[tuple[str, np.ndarray]]:
    """A model in small: an embedding, experts in three dimensions, square matrices and many small vectors."""
    random = np.random.default_rng(2)
    width = max(64, 64 * round(math.sqrt(size_bytes / 40 / 4) / 64))
    yield "model/embed", random.standard_normal((8 * width, width), np.float32)
    yield "model/experts", random.standard_normal((16, width, width), np.float32)
    for layer in range(16):
        yield f"model/layers/{layer}/weight", random.standard_normal((width, width), np.float32)
        for name in ("scale", "bias", "gate"):
            yield f"model/layers/{layer}/{name}", random.standard_normal(width, np.float32)


def _write_safetensors(path: Path, tensors: dict[str, np.ndarray]) -> Path:
    from safetensors.numpy import save_file

    save_file(tensors, path)
    return path


def _write_ocdbt(folder: Path, tensors: dict[str, np.ndarray]) -> Path:
    import tensorstore

    for name, array in tensors.items():
        base = {"driver": "file", "path": f"{folder}/"}
        grid = {"name": "regular", "configuration": {"chunk_shape": array.shape}}
        metadata = {"data_type": array.dtype.name, "shape": array.shape, "chunk_grid": grid, "codecs": []}
        spec = {
            "driver": "zarr3",
            "kvstore": {"driver": "ocdbt", "base": base, "path": f"{name}/"},
            "metadata": metadata,
        }
        tensorstore.open(spec, create=True).result().write(array).result()
    return folder
