"""A small signed release and a checkpoint of it, as a folder each: the form of a real one, made in a second."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from support.containers import write_safetensors, write_shards

from registry.adapters.bundles import write_bundle
from registry.adapters.checkpoints import read_leaves
from registry.adapters.hashing import hash_tree
from registry.adapters.signing import Key, new_key, open_key, sign, sign_folder
from registry.adapters.tables import TableFolder
from registry.core import canonical
from registry.core.branches import CheckpointBranch
from registry.core.bundle import Cover
from registry.core.digests import Digest, sha256, tree_digest
from registry.core.names import Name
from registry.core.release import (
    BUNDLE,
    CHECKPOINTS,
    PAYLOAD_TYPE,
    STATEMENT,
    Identity,
    ReleaseStatement,
    Terms,
    Weights,
)
from registry.core.tensors import tensor_root

CHECKPOINT = Name(stage="hero/2", step=7)
TOKENS = 7000


@dataclass(frozen=True, kw_only=True)
class SignedRelease:
    """``folder`` is the release, ``checkpoint`` the kept one that it lists, ``key`` what signed it."""

    folder: Path
    checkpoint: Path
    key: Key
    statement: ReleaseStatement

    @property
    def branch(self) -> str:
        """The branch that the checkpoint belongs on."""
        return str(CheckpointBranch.of(CHECKPOINT, TOKENS))

    def push(self, api, repository: str, *, tag: str = "v1.0.0") -> str:
        """Put the checkpoint on its branch and the release on main under a tag; the release's commit."""
        api.create_repo(repository, exist_ok=True)
        api.create_branch(repository, branch=self.branch)
        api.upload_folder(repo_id=repository, folder_path=self.checkpoint, revision=self.branch)
        commit = api.upload_folder(repo_id=repository, folder_path=self.folder).oid
        api.create_tag(repository, tag=tag)
        return commit

    def policy(self, path: Path, *, releases: str = "*") -> Path:
        """A trust policy that knows the key."""
        pem = self.key.public_key.pem
        path.write_text(
            f"schema = 1\n[[key]]\nwho = \"Lab\"\npublic_key = '''\n{pem}'''\nreleases = [\"{releases}\"]\n"
        )
        return path


def tensors(seed: int = 0) -> dict[str, np.ndarray]:
    """Weights in small: 1.5 MiB in four tensors."""
    random = np.random.default_rng(seed)
    shapes = {"embed.weight": (320, 64), "layers.0.w": (512, 512), "layers.1.w": (64, 1000), "norm.weight": (64,)}
    return {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def write_weights(folder: Path) -> None:
    """Two shards with an index."""
    write_shards(folder, tensors(), files=2)


def signed_release(
    root: Path,
    *,
    repository: str = "lab/pocket",
    version: str = "1.0.0",
    weights: Callable[[Path], object] = write_weights,
    checkpoint: Path | None = None,
) -> SignedRelease:
    """Make a release below ``root``, whose weights ``weights`` writes, and a checkpoint unless one is given."""
    root.mkdir(parents=True, exist_ok=True)
    folder = root / "release"
    weights(folder)
    checkpoint = checkpoint or _checkpoint(root / "checkpoint")
    roots = [tensor_root(read_leaves(place)) for place in (folder, checkpoint)]
    if not (folder / "config.json").exists():
        (folder / "config.json").write_text('{"model_type": "small"}\n')
    (folder / "README.md").write_text("---\nlicense: apache-2.0\n---\n# Pocket\n")
    (folder / CHECKPOINTS).write_bytes(_kept(checkpoint, roots[1]))
    (folder / BUNDLE).parent.mkdir()
    product = sha256(b"product")
    write_bundle(folder / BUNDLE, Cover(name="export", product=product), _tables(folder, checkpoint))
    key_file = root / "key.pem"
    new_key(key_file, None)
    key = open_key(str(key_file), lambda: "")
    statement = ReleaseStatement(
        terms=Terms(
            identity=Identity(name="pocket", version=version, repository=repository),
            parent=None,
            artifact="export",
            product=product,
            weights=Weights(checkpoint=CHECKPOINT, checkpoint_root=roots[1], root=roots[0]),
            commit="0" * 40,
            time="2026-11-30T12:00:00.000000Z",
            accepted_taint=None,
        ),
        files={entry.path: entry.digest for entry in hash_tree(folder)},
    )
    (folder / STATEMENT).write_bytes(sign(PAYLOAD_TYPE, statement.payload, key).encode())
    sign_folder(folder, key)
    return SignedRelease(folder=folder, checkpoint=checkpoint, key=key, statement=statement)


def _checkpoint(folder: Path) -> Path:
    folder.mkdir()
    write_safetensors(folder / "state.safetensors", {f"model/{name}": one for name, one in tensors(1).items()})
    (folder / "checkpoint.json").write_bytes(canonical.encode({"completed_steps": 7, "schema": 1}))
    return folder


def _kept(checkpoint: Path, root: Digest) -> bytes:
    entry = {
        "branch": str(CheckpointBranch.of(CHECKPOINT, TOKENS)),
        "commit": None,
        "name": str(CHECKPOINT),
        "step": 7,
        "tokens": TOKENS,
        "recipe": str(sha256(b"recipe")),
        "root": str(root),
        "files": str(tree_digest(hash_tree(checkpoint))),
    }
    return canonical.encode([entry])


def _tables(*places: Path) -> dict[str, bytes]:
    """The leaf tables of containers, as members of a bundle."""
    with TemporaryDirectory() as scratch:
        store = TableFolder(Path(scratch))
        roots = [store.put_leaves(read_leaves(place)) for place in places]
        names = [f"tensors/{root.hex}.parquet" for root in roots]
        return {f"manifests/{name}": (Path(scratch) / name).read_bytes() for name in names}
