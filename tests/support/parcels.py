"""Small releases as folders, for tests of publishing: every file tells its version, large ones go to the object store.

The signatures in them are made up: publishing looks at bytes and at the statement; who signed is the trust policy's.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from registry.adapters.hashing import Disk
from registry.core import canonical
from registry.core.digests import Digest, sha256
from registry.core.dsse import IN_TOTO, Envelope, Signature
from registry.core.names import Name
from registry.core.pushing import Parcel
from registry.core.release import SIGNATURE, STATEMENT, Identity, ReleaseStatement, Terms, Weights

CARD = """---
license: apache-2.0
tags: [mixture-of-experts]
---
# Pocket {version}
"""


def payload(seed: str, size_bytes: int) -> bytes:
    """Bytes that follow from a word."""
    return hashlib.shake_256(seed.encode()).digest(size_bytes)


def release_folder(
    folder: Path, repository: str, version: str = "1.0.0", parent: Digest | None = None, **sizes: int
) -> ReleaseStatement:
    """A release in ``folder``. ``sizes`` are further weights by name, in bytes.

    Large files differ from one repository to the next: a hub stores equal ones once, and a second push uploads none.
    """
    salt = repository + version
    files = {
        "README.md": CARD.format(version=version).encode(),
        "config.json": canonical.encode({"version": version}),
        "model.safetensors": payload(salt, 3000),
        "provenance/bundle.tar": b"\0" * 600 + salt.encode(),
        "checkpoints.json": b"[]",
    }
    files |= {f"{name}.safetensors": payload(name + salt, size) for name, size in sizes.items()}
    terms = Terms(
        identity=Identity(name="pocket", version=version, repository=repository),
        parent=parent,
        artifact="export",
        product=sha256(b"product"),
        weights=Weights(checkpoint=Name.parse("hero/2@step-8"), checkpoint_root=sha256(b"c"), root=sha256(b"w")),
        commit="1" * 40,
        time="2026-11-30T12:00:00Z",
        accepted_taint=None,
    )
    statement = ReleaseStatement(terms=terms, files={path: sha256(data) for path, data in files.items()})
    envelope = Envelope(
        payload_type=IN_TOTO, payload=statement.payload, signatures=(Signature(key_id="", value=b"made up"),)
    )
    files |= {STATEMENT: envelope.encode(), SIGNATURE: b'{"made": "up"}'}
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return statement


def parcel_of(folder: Path) -> Parcel:
    """The parcel of a folder, hashed now."""
    return Parcel.of(Disk(folder.parent).files(folder.name), folder, lambda path: (folder / path).read_bytes())
