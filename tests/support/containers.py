"""The same arrays written into every container, by the containers' own libraries."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from safetensors import serialize_file

LITTLE: list[dict[str, Any]] = [{"name": "bytes", "configuration": {"endian": "little"}}]
BIG: list[dict[str, Any]] = [{"name": "bytes", "configuration": {"endian": "big"}}]
ZSTD: list[dict[str, Any]] = [*LITTLE, {"name": "zstd", "configuration": {"level": 1}}]
SHARDED: list[dict[str, Any]] = []

Arrays = Mapping[str, np.ndarray]


def arrays(seed: int = 0) -> dict[str, np.ndarray]:
    """A training state in small: floats of all widths, counters, flags, a raw PRNG key, scalars, an empty array."""
    random = np.random.default_rng(seed)
    floats = random.standard_normal((6, 10, 4)).astype(np.float32)
    return {
        "model/embed": floats,
        "model/layers/0/w": floats[0].astype(ml_dtypes.bfloat16),
        "model/layers/1/w": floats[1].astype(ml_dtypes.float8_e4m3fn),
        "opt_state/mu": np.zeros((70, 5), np.float32),
        "opt_state/negative": np.full((3, 4), -0.0, np.float32),
        "opt_state/odd": np.array([np.nan, np.inf, 5e-324, -0.0]),
        "opt_state/half": floats[2].astype(np.float16),
        "opt_state/empty": np.zeros((0, 3), np.int64),
        "training_key": np.array([7, 2**32 - 1], np.uint32),
        "flag": np.array(True),
        "mask": np.array([True, False, True]),
        "step": np.array(20, np.int32),
        "wide": np.arange(12, dtype=np.uint64).reshape(3, 4) << np.uint64(60),
    }


def write_safetensors(path: Path, tensors: Arrays) -> Path:
    """One file."""
    views = {
        name: {"dtype": array.dtype.name, "shape": list(array.shape), "data": array.tobytes()}
        for name, array in tensors.items()
    }
    serialize_file(views, str(path))
    return path


def write_shards(folder: Path, tensors: Arrays, *, files: int = 3, index: bool = True) -> Path:
    """Several files with an index, as Hugging Face writes them."""
    folder.mkdir(parents=True)
    names = sorted(tensors)
    weight_map: dict[str, str] = {}
    for number in range(files):
        file = f"model-{number + 1:05d}-of-{files:05d}.safetensors"
        part = {name: tensors[name] for name in names[number::files]}
        write_safetensors(folder / file, part)
        weight_map |= dict.fromkeys(part, file)
    if index:
        text = json.dumps({"metadata": {"total_size": 1}, "weight_map": weight_map})
        (folder / "model.safetensors.index.json").write_text(text)
    return folder


def write_zarr(
    folder: Path,
    tensors: Arrays,
    *,
    grid: Callable[[tuple[int, ...]], tuple[int, ...]] = lambda shape: shape,
    codecs: list[dict[str, Any]] = LITTLE,
    ocdbt: bool = False,
    encoding: str = "default",
) -> Path:
    """A tree of zarr arrays on plain files, or in one OCDBT store."""
    import tensorstore

    for name, array in tensors.items():
        file = {"driver": "file", "path": f"{folder if ocdbt else folder / name}/"}
        chunks = [max(1, size) for size in grid(array.shape)]
        spec = {
            "driver": "zarr3",
            "kvstore": {"driver": "ocdbt", "base": file, "path": f"{name}/"} if ocdbt else file,
            "metadata": {
                "data_type": array.dtype.name,
                "shape": list(array.shape),
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
                "chunk_key_encoding": {"name": encoding},
                "codecs": codecs,
            },
        }
        tensorstore.open(spec, create=True).result().write(array).result()
    return folder


def halves(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Chunks that do not fit: half of each axis, rounded up."""
    return tuple(-(-size // 2) for size in shape)


def columns(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Chunks along the last axis, as if it were sharded."""
    return (*shape[:-1], max(1, shape[-1] // 2)) if shape else shape
