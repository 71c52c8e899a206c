"""Small wheels made on the spot, and the settings that pin them: a corpus for the data stages without a network."""

from __future__ import annotations

import hashlib
import io
import random
import zipfile
from collections.abc import Mapping
from pathlib import Path

from registry.core.canonical import Json

MIT = "License-Expression: MIT\n"
TAGS = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
DOMAINS = ("code", "math", "prose")


def wheel_bytes(
    name: str,
    version: str,
    files: Mapping[str, str | bytes],
    *,
    headers: str = "License-Expression: MIT\n",
    body: str = "",
) -> bytes:
    """A wheel as bytes, the same on every call."""
    metadata = f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n{headers}\n{body}"
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    extra = {
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in {**files, **extra, f"{info}/RECORD": ""}.items():
            entry = zipfile.ZipInfo(path, date_time=(2026, 1, 1, 0, 0, 0))
            archive.writestr(entry, content.encode("utf-8") if isinstance(content, str) else content)
    return out.getvalue()


def pin(name: str, version: str, data: bytes, *, domain: str = "code", licence: str = "MIT") -> dict[str, Json]:
    """The pin of a wheel, as in ``params.yaml``."""
    return {
        "name": name,
        "version": version,
        "sha256": hashlib.sha256(data).hexdigest(),
        "licence": licence,
        "domain": domain,
    }


def sentences(seed: str, count: int) -> str:
    """Text of ``count`` lines that depends on ``seed`` alone."""
    words = [
        "the",
        "of",
        "a",
        "step",
        "loss",
        "rate",
        "tensor",
        "root",
        "shard",
        "token",
        "wheel",
        "model",
        "layer",
        "expert",
        "router",
        "gate",
        "norm",
        "axis",
    ]
    chosen = random.Random(seed)
    return "".join(f"{' '.join(chosen.choices(words, k=9))} {chosen.randrange(1000)}.\n" for _ in range(count))


def toy_wheels(documents: int = 40) -> dict[str, bytes]:
    """One wheel for each domain, by file name."""
    code = {f"alpha/m{i}.py": f"# {i}\n" + sentences(f"code {i}", 12) for i in range(documents)}
    math = {f"beta/m{i}.py": f"# {i} ∑∫\n" + sentences(f"math {i}", 12) for i in range(documents)}
    prose = {f"gamma/m{i}.py": f'"""{sentences(f"prose {i}", 12)}"""\n' for i in range(documents)}
    return {
        "alpha-1.0-py3-none-any.whl": wheel_bytes("alpha", "1.0", code),
        "beta-1.0-py3-none-any.whl": wheel_bytes("beta", "1.0", math),
        "gamma-1.0-py3-none-any.whl": wheel_bytes("gamma", "1.0", prose, body=sentences("description", 20)),
    }


def toy_pins(wheels: Mapping[str, bytes]) -> dict[str, Json]:
    """The section ``corpus`` that pins the toy wheels."""
    domains = dict(zip(("alpha", "beta", "gamma"), DOMAINS, strict=True))
    names = {name.split("-")[0]: data for name, data in wheels.items()}
    return {"wheels": [pin(name, "1.0", data, domain=domains[name]) for name, data in names.items()]}


def shard_settings(**changes: Json) -> dict[str, Json]:
    """The section ``shards`` for the toy corpus."""
    take = {"code": "source", "math": "source", "prose": "prose"}
    settings: dict[str, Json] = {
        "heldout_per_10000": 1500,
        "shard_bytes": 2**24,
        "minimum_bytes": 20,
        "maximum_bytes": 2**19,
        "docstring_characters": 10,
        "domains": {domain: {"take": take[domain], "skip": ["tests"]} for domain in DOMAINS},
    }
    return {**settings, **changes}


def lay(wheels: Mapping[str, bytes], folder: Path) -> Path:
    """Write wheels to ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in wheels.items():
        (folder / name).write_bytes(data)
    return folder


def tree(folder: Path) -> dict[str, bytes]:
    """All files of a folder by relative path."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }
